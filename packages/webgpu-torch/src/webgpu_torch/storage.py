"""The memory behind tensors, as ``torch.storage``."""

from __future__ import annotations

from webgpu_torch_core import UntypedStorage as UntypedStorage
