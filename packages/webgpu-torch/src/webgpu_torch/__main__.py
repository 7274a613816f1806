"""``python -m webgpu_torch``: the command line."""

from .cli import main

raise SystemExit(main())
