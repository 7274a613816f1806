"""``python -m webgpu_torch``: the command line."""

from ._parts import part

raise SystemExit(part("webgpu_torch_cli", "cli").main())
