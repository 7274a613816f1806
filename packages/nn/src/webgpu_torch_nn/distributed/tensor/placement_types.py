"""How a tensor lies on several processes, as ``torch.distributed.tensor.placement_types``: names for plans; nothing is placed."""

from __future__ import annotations

import dataclasses

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies on several processes."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each has a part, along a dimension if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether what they have is to be combined, by an operation if one is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each has a part along a dimension."""

    dim: int


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each has all of it."""


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """What they have is to be combined."""

    reduce_op: str = "sum"
