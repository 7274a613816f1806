"""How long the blocks of a tiled contraction take: how many units compute at once, and what of a block is computed at all."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from .access import LANES
from .contraction import Side

if TYPE_CHECKING:
    from .contraction_tile import Tile

#: rows that are left out together at least
_LEAST_ROWS = 64
#: the share of its rate that a unit reaches with one block that is left over, and in how many rounds at most one is where as many
#: are computed at once: of more some take the places of others sooner
_LEFT_OVER, _ROUNDS = 0.5, 5
#: sums of all threads of a unit with which it reaches its rate, the share of it that fewer in several blocks reach, and those of
#: few threads, as so many
_ENOUGH_SUMS, _FEW, _FEW_OF_FEW, _FEW_THREADS = 1 << 14, 0.9, 0.75, 64
#: how much faster a split sum must be
_MARGIN = 1.15


def rows_reached(size: int, block: int, own: int) -> int:
    """Return how many rows of a block are multiplied.

    Of an operand with one block, a thread's rows lie behind its last one four by four, which compilers know and leave out;
    small blocks gain nothing by it.
    """
    step = max(block * LANES // own, _LEAST_ROWS)
    return min(block, -(-size // step) * step)


@lru_cache(64)
def sides_computed(kernel: Contraction) -> tuple[tuple[bool, bool], bool]:
    """Return which sides are computed, or read at computed places, and whether neither is but one is read one by one."""
    sides = Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")
    first, second = (not each.strided for each in sides)
    return (first, second), not (first or second) and any(each.lanes == 1 for each in sides)


def blocks_seconds(
    kernel: Contraction, tile: Tile, facts: Facts, flops: float, lead: int, alone: float, together: int = 1
) -> float:
    """Return an estimate of the time of a tile that reaches so many operations per second with all units busy.

    ``lead`` steps of k pass before it does; a unit with one block only reaches the share ``alone`` of its rate, and one with few
    sums in several not all of it either; after so many blocks at once as are computed ``together``, one may be left over.
    """
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    splits = tile.splits
    blocks = max(-(-m // tile.m) * -(-n // tile.n) * batch * splits, 1)
    rounds = -(-blocks // facts.units)
    is_left_over = (
        together > 1 and 1 < rounds <= (_ROUNDS if together <= _ROUNDS else rounds) and rounds % together == 1
    )
    lasting = rounds - 1 + 1 / _LEFT_OVER if is_left_over else rounds
    few = rounds * tile.m * tile.n * tile.slices < _ENOUGH_SUMS
    reached = alone if rounds == 1 else (_FEW_OF_FEW if tile.threads <= _FEW_THREADS else _FEW) if few else 1.0
    busy = blocks / facts.units / lasting * reached
    seconds = 2 * blocks * tile.m * tile.n * (-(-k // splits) + lead) / (flops * busy)
    if splits == 1:
        return seconds
    return _MARGIN * seconds + (2 * splits + 1) * 4 * m * n * batch / facts.bandwidth + facts.dispatch
