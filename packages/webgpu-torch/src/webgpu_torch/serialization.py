"""Files of tensors and what they may hold, as ``torch.serialization``."""

from __future__ import annotations

from webgpu_torch_core import load as load
from webgpu_torch_core import save as save
