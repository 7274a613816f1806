"""Tensors that lie on several processes, as ``torch.distributed.tensor``: only the names of how they lie."""

from __future__ import annotations

from . import placement_types as placement_types
from .placement_types import Partial as Partial
from .placement_types import Placement as Placement
from .placement_types import Replicate as Replicate
from .placement_types import Shard as Shard
