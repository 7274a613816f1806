"""The memory behind tensors, as ``torch.storage``."""

from __future__ import annotations

from typing import TypeAlias

from webgpu_torch_core import UntypedStorage as UntypedStorage

Storage: TypeAlias = UntypedStorage
