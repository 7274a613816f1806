"""How nested tensors are stored."""

from __future__ import annotations

from webgpu_torch_core import layout

jagged = layout("jagged")
