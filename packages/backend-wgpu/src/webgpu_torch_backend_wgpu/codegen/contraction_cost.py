"""By which tiles a contraction may be computed, and how long each takes: how many units compute at once, and what of a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities
from .access import LANES
from .contraction import Side
from .contraction_tile import Tile

#: rows that are left out together at least
_LEAST_ROWS = 64
#: the share of its rate that a unit reaches with one block that is left over, and in how many rounds at most one is where as many
#: are computed at once: of more some take the places of others sooner
_LEFT_OVER, _ROUNDS = 0.5, 5
#: sums of all threads of a unit with which it reaches its rate, the share of it that fewer in several blocks reach, and those of
#: few threads, as so many
_ENOUGH_SUMS, _FEW, _FEW_OF_FEW, _FEW_THREADS = 1 << 14, 0.9, 0.75, 64
#: how much faster a split sum must be, and how many times the memory's rate its parts pass at; and where that is known well, of
#: products whose sides are only read: caches keep most of the parts
_SPLITTING, _SPLITTING_PLAIN = (1.15, 1.0), (1.05, 2.0)


def rows_reached(size: int, block: int, own: int) -> int:
    """Return how many rows of a block are multiplied.

    Of an operand with one block, a thread's rows lie behind its last one four by four, which compilers know and leave out;
    small blocks gain nothing by it.
    """
    step = max(block * LANES // own, _LEAST_ROWS)
    return min(block, -(-size // step) * step)


@lru_cache(64)
def sides_computed(kernel: Contraction) -> tuple[tuple[bool, bool], bool, bool]:
    """Return which sides are computed, or read at computed places; whether neither is but one is read one by one; and whether
    neighbours along k are read together of both."""
    sides = Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")
    first, second = (not each.strided for each in sides)
    one_by_one = any(each.lanes == 1 for each in sides)
    plain = not (first or second)
    return (first, second), plain and one_by_one, plain and not one_by_one and all(each.axis == "k" for each in sides)


def blocks_seconds(
    kernel: Contraction, tile: Tile, facts: Facts, flops: float, lead: int, alone: float, together: int = 1,
    splitting: tuple[float, float] = _SPLITTING,
) -> float:  # fmt: skip
    """Return an estimate of the time of a tile that reaches so many operations per second with all units busy.

    ``lead`` steps of k pass before it does; a unit with one block only reaches the share ``alone`` of its rate, and one with few
    sums in several not all of it either; after so many blocks at once as are computed ``together``, one may be left over.
    """
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    splits, blocks = tile.splits, _blocks(kernel, tile)
    rounds = -(-blocks // facts.units)
    is_left_over = (
        together > 1 and 1 < rounds <= (_ROUNDS if together <= _ROUNDS else rounds) and rounds % together == 1
    )
    lasting = rounds - 1 + 1 / _LEFT_OVER if is_left_over else rounds
    reached = alone if rounds == 1 else 1.0
    if rounds > 1 and rounds * tile.m * tile.n * tile.slices < _ENOUGH_SUMS:
        reached = _FEW_OF_FEW if tile.threads <= _FEW_THREADS else _FEW
    busy = blocks / facts.units / lasting * reached
    seconds = 2 * blocks * tile.m * tile.n * (-(-k // splits) + lead) / (flops * busy)
    if splits == 1:
        return seconds
    margin, cached = splitting
    return margin * seconds + (2 * splits + 1) * 4 * m * n * batch / (cached * facts.bandwidth) + facts.dispatch


def _blocks(kernel: Contraction, tile: Tile) -> int:
    """Return how many blocks a tile makes of a contraction, parts of sums counted."""
    m, n, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.batch))
    return max(-(-m // tile.m) * -(-n // tile.n) * batch * tile.splits, 1)


LARGE = Tile(128, 128, 8, 16, 8, stages=2, span=4, band=8)
SQUARE = Tile(128, 128, 8, 8, 8, stages=2, span=8, pad=4, band=8)
NARROW = Tile(128, 64, 16, 8, 8, pad=4)
FLAT = Tile(64, 128, 16, 8, 8, pad=4)
#: the same with two blocks in workgroup memory, where there is room
FLAT_AHEAD = Tile(64, 128, 16, 8, 8, stages=2, span=4)
EVEN = Tile(64, 64, 16, 8, 8, stages=2, span=4, band=8)
EVEN_SHARED = Tile(64, 64, 16, 8, 8, stages=2, span=4, slices=2)
# Heads of attention and channels of image networks are often multiples of 40 and 80 rather than of 64.
EIGHTY = Tile(128, 80, 16, 8, 8, pad=4)
FORTY = Tile(128, 40, 16, 8, 4, pad=4)
SMALL = Tile(64, 64, 16, 4, 4)
LOW = Tile(32, 64, 16, 4, 4, pad=4)
LOW_SHARED = Tile(32, 64, 32, 8, 4, slices=4)
THIN = Tile(64, 32, 16, 4, 4)
TINY = Tile(32, 32, 16, 4, 4)

#: the share of an adapter's operations per second that tiles reach with all units busy, how many steps of k pass before they
#: do, and how many operations an element lasts that is computed, or read at a computed place
_SHARES = {
    LARGE: (0.77, 40, 105), SQUARE: (0.7, 40, 105), NARROW: (0.63, 24, 105), FLAT: (0.65, 24, 140), FLAT_AHEAD: (0.72, 170, 135),
    EVEN: (0.58, 40, 140), EVEN_SHARED: (0.47, 24, 140), EIGHTY: (0.58, 24, 105), FORTY: (0.46, 24, 105), SMALL: (0.45, 16, 35), LOW: (0.44, 16, 35),
    LOW_SHARED: (0.38, 16, 35), THIN: (0.4, 16, 35), TINY: (0.24, 16, 35),
}  # fmt: skip
_BY_BLOCK = {(each.block, each.stages, each.slices): found for each, found in _SHARES.items()}
#: the share of its rate that a unit reaches with one block, and where each thread has many sums that are not split or threads
#: share these: if enough threads hide each other's waiting, with deep blocks read ahead, and if not; with more it reaches all
_ALONE, _ALONE_WITH_MANY, _ALONE_AHEAD, _ALONE_WITH_FEW_THREADS = 0.6, 0.83, 0.95, 0.5
#: threads that hide each other's waiting, and that a unit runs at once: of more than a multiple of these some wait for others
_ENOUGH_THREADS = 128
#: by which power of the share of a thread's sums that are computed the rate falls: what it reads is of use for fewer
_FEWER = 0.25
#: sums of a thread that are many, and of all threads of a unit at once
_MANY_SUMS, _SUMS_OF_UNIT = 64, 1 << 15
#: sums of a thread that are few, and the shares of their rate that such threads, and deep blocks read ahead, reach where no
#: neighbours are read at once
_FEW_SUMS, _ONE_BY_ONE, _AHEAD_ONE_BY_ONE = 16, 0.6, 0.75
#: elements left out between rows of a block where neighbours along k go to different rows; the shares of their rate that shallow
#: blocks read ahead reach with these, where they lie so in both sides, those made for that where they do not, and several deep ones
#: of a unit where they lie so in any
_PAD, _SHALLOW_PADDED, _SHALLOW_ALONG_K, _SQUARE_ACROSS_K, _AHEAD_ALONG_K = 4, 0.95, 0.89, 0.95, 0.92
#: in how many parts a sum may be split
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
#: columns of blocks from which on rows of blocks go in bands, so that the right operand's blocks stay in the cache
_WIDE = 17
#: least depth of a part of a split sum, and most bytes of the parts
_LEAST_DEPTH = 128
_MOST_SCRATCH = 1 << 26


def tiles_of(kernel: Contraction, capabilities: Capabilities) -> Iterator[Tile]:
    """Return the tiles, with the sum split or not, that an adapter has threads and workgroup memory for."""
    n = number_of_elements(kernel.n)
    if kernel.dtype.name != "float32" or capabilities.software:
        # Small blocks compile faster than others; the host has tiles of its own for what takes long.
        yield TINY
        return
    pads = [each for each in _pads(kernel) if each.replace(pad=_PAD).nbytes <= capabilities.workgroup_bytes]
    whole = (SQUARE, LOW_SHARED, LARGE) if any(sides_computed(kernel)[0]) else (SQUARE, LOW_SHARED)
    for tile in _fitting(_SHARES, capabilities):
        pad = _PAD if tile in pads else tile.pad
        # What threads of a workgroup share by four, workgroups need not share.
        for splits in splits_of(kernel, capabilities) if tile not in whole else (1,):
            banded = splits > 1 or -(-n // tile.n) >= _WIDE
            yield _variant(tile, splits, 8 if banded else tile.band, pad)


@lru_cache(256)
def _pads(kernel: Contraction) -> tuple[Tile, ...]:
    """Return the tiles whose blocks are padded: where a side lies along k, or elements are read one by one."""
    sides = [each for each in (Side(kernel, kernel.left, "m"), Side(kernel, kernel.right, "n")) if each.strided]
    if any(each.lanes == 1 for each in sides):
        return LARGE, FLAT_AHEAD, EVEN
    return (FLAT_AHEAD, EVEN) if len(sides) > 1 and any(each.axis == "k" for each in sides) else ()


def _fitting(tiles: Iterable[Tile], capabilities: Capabilities) -> list[Tile]:
    """Return the tiles that an adapter has threads and workgroup memory for."""
    return [
        each
        for each in tiles
        if each.threads <= capabilities.invocations and each.nbytes <= capabilities.workgroup_bytes
    ]


def splits_of(kernel: Contraction, capabilities: Capabilities) -> list[int]:
    """Return in how many parts a sum may be split: they are deep enough, and there is room for what they leave."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    room = min(_MOST_SCRATCH, capabilities.binding_bytes) // max(4 * m * n * batch, 1)
    most = max(1, min(k // _LEAST_DEPTH, room))
    return [each for each in _SPLITS if each <= most]


@cache
def _variant(tile: Tile, splits: int, band: int, pad: int) -> Tile:
    return tile.replace(splits=splits, band=band, pad=pad)


def tile_seconds(kernel: Contraction, tile: Tile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for a contraction.

    Blocks count whole, however little of them is inside the result, and units wait for the one with most blocks.
    Blocks share a unit and hide each other's waiting, except one that is left over.
    """
    share, lead, computing = _BY_BLOCK[tile.block, tile.stages, tile.slices]
    computed, one_by_one, along_k = sides_computed(kernel)
    foreseen = tile.splits == 1 or not any(computed)
    many = tile.slices > 1 or (foreseen and tile.rows * tile.columns >= _MANY_SUMS)
    together, is_ahead = max(_SUMS_OF_UNIT // (tile.m * tile.n), 1), tile.stages > 1 and tile.k > LARGE.k
    if many and (tile.threads > _ENOUGH_THREADS or tile.splits > 1):
        together = 1
    if one_by_one and tile.rows * tile.columns <= _FEW_SUMS:
        share *= _ONE_BY_ONE
    elif one_by_one and is_ahead:
        share *= _AHEAD_ONE_BY_ONE
    elif is_ahead and tile.block == FLAT_AHEAD.block and tile.pad and _blocks(kernel, tile) > facts.units:
        share *= _AHEAD_ALONG_K
    elif tile.block == SQUARE.block:
        share *= 1.0 if along_k else _SQUARE_ACROSS_K
    elif tile.stages > 1 and not is_ahead:
        share *= _SHALLOW_ALONG_K if along_k else _SHALLOW_PADDED if tile.pad else 1.0
    m, n, sums = number_of_elements(kernel.m), number_of_elements(kernel.n), tile.m * tile.n
    reached = rows_reached(m, tile.m, tile.rows) * rows_reached(n, tile.n, tile.columns)
    work = 2 * reached / (share * (reached / sums) ** _FEWER)
    work += (computed[0] * tile.m + computed[1] * tile.n) * computing
    rate = facts.flops * 2 * sums / work
    waiting = _ALONE_WITH_FEW_THREADS
    if tile.threads >= _ENOUGH_THREADS:
        waiting = _ALONE_AHEAD if is_ahead else _ALONE_WITH_MANY
        waiting *= tile.threads / (-(-tile.threads // _ENOUGH_THREADS) * _ENOUGH_THREADS)
    splitting = _SPLITTING if any(computed) else _SPLITTING_PLAIN
    return blocks_seconds(kernel, tile, facts, rate, lead, waiting if many else _ALONE, together, splitting)
