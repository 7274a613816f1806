"""Tiled contractions: a workgroup computes a block of the result from blocks of both operands in workgroup memory.

The scheme is the usual one for GPUs without matrix units (V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense
linear algebra", SC'08): each thread keeps a small block of sums in registers, both operands pass through workgroup
memory as vectors of four, and the next block is fetched while the current one is used. Where the result has too few
blocks to fill a GPU, k is split over workgroups and a second pass adds their sums in order.
"""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core.kernels import Contraction, Record
from webgpu_torch_core.layouts import number_of_elements

from ..facts import Facts
from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame
from .contraction_loader import Loader
from .printer import LINEAR_GROUP, spread_workgroups


class Tile(Record):
    """A variant of the tile kernel.

    Fields:
        m, n, k: a workgroup's block of the result, and how deep it goes at a time.
        rows, columns: a thread's block; multiples of 4.
        stages: blocks held in workgroup memory: 1, or 2 (one barrier a step instead of two).
        span: threads along n in each run of 32 threads (0: as many as there are).
        pad: extra elements per row of a block in workgroup memory, against bank conflicts; a multiple of 4.
        band: rows of blocks that run next to each other, for the cache (0: row by row).
        splits: workgroups that share the sum over k.
    """

    __slots__ = fields = ("m", "n", "k", "rows", "columns", "stages", "span", "pad", "band", "splits")
    m: int
    n: int
    k: int
    rows: int
    columns: int
    stages: int
    span: int
    pad: int
    band: int
    splits: int

    def __init__(
        self, m: int, n: int, k: int, rows: int, columns: int,
        stages: int = 1, span: int = 0, pad: int = 0, band: int = 0, splits: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(m, n, k, rows, columns, stages, span, pad, band, splits)

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return (self.m // self.rows) * (self.n // self.columns)


LARGE = Tile(128, 256, 8, 16, 8, span=8, band=8)
MIDDLE = Tile(128, 128, 8, 8, 8)
NARROW = Tile(128, 64, 16, 8, 8, pad=4)
FLAT = Tile(64, 128, 16, 8, 8, pad=4)
# Heads of attention and channels of image networks are often multiples of 40 and 80 rather than of 64.
EIGHTY = Tile(128, 80, 16, 8, 8, pad=4)
FORTY = Tile(128, 40, 16, 8, 4, pad=4)
SMALL = Tile(64, 64, 16, 4, 4)
TINY = Tile(32, 32, 16, 4, 4)

#: the share of an adapter's operations per second that tiles reach with all units busy, and how many steps of k pass
#: before they do
_SHARES = {
    LARGE: (0.94, 200), NARROW: (0.82, 24), FLAT: (0.78, 24), EIGHTY: (0.7, 24), FORTY: (0.58, 24), SMALL: (0.54, 16),
    TINY: (0.26, 16),
}  # fmt: skip
#: the share of its rate that a unit reaches with one block; with more it reaches all of it
_ALONE = 0.68
#: how much faster a split sum must be
_MARGIN = 1.15
#: in how many parts a sum may be split
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
#: columns of blocks from which on rows of blocks go in bands, so that the right operand's blocks stay in the cache
_WIDE = 17
#: multiplications from which a CPU adapter takes blocks that are slow to compile
_MUCH_FOR_A_CPU = 1 << 24
#: least depth of a part of a split sum, and most bytes of the parts
_LEAST_DEPTH = 128
_MOST_SCRATCH = 1 << 26

#: writes the products of one depth into the sums: ``step(frame, tile, left, right, depth)``
InnerProduct = Callable[[Frame, Tile, Loader, Loader, str], None]


def choose_tile(kernel: Contraction, capabilities: Capabilities) -> Tile:
    """Return the tile, with the sum split or not, that should take the least time on an adapter."""
    m, n, k, batch = (number_of_elements(each) for each in (kernel.m, kernel.n, kernel.k, kernel.batch))
    if kernel.dtype.name != "float32":
        return TINY
    if capabilities.software:
        # Large blocks pass fewer barriers, but small kernels compile faster than they run.
        return MIDDLE if min(m, n) >= MIDDLE.m and m * n * k * batch >= _MUCH_FOR_A_CPU else TINY
    room = min(_MOST_SCRATCH, capabilities.binding_bytes) // max(4 * m * n * batch, 1)
    most = max(1, min(k // _LEAST_DEPTH, room))
    tile, splits = min(
        ((tile, splits) for tile in _SHARES for splits in (_SPLITS if tile is not LARGE else (1,)) if splits <= most),
        key=lambda choice: _seconds(*choice, m, n, k, batch, capabilities.facts),
    )
    if tile is not LARGE and (splits > 1 or -(-n // tile.n) >= _WIDE):
        tile = tile.replace(band=8)
    return tile.replace(splits=splits)


def _seconds(tile: Tile, splits: int, m: int, n: int, k: int, batch: int, facts: Facts) -> float:
    """Return an estimate of the time a contraction takes.

    Blocks count whole, however little of them is inside the result, and units wait for the one with most blocks.
    A large block has a unit to itself; smaller ones share it and hide each other's waiting.
    """
    share, lead = _SHARES[tile]
    rate = share * facts.flops
    blocks = max(-(-m // tile.m) * -(-n // tile.n) * batch * splits, 1)
    rounds = -(-blocks // facts.units)
    busy = blocks / facts.units / rounds * (_ALONE if rounds == 1 and tile is not LARGE else 1.0)
    seconds = 2 * blocks * tile.m * tile.n * (-(-k // splits) + lead) / (rate * busy)
    if splits == 1:
        return seconds
    return _MARGIN * seconds + (2 * splits + 1) * 4 * m * n * batch / facts.bandwidth + facts.dispatch


def outer_product(frame: Frame, tile: Tile, left: Loader, right: Loader, depth: str) -> None:
    """Write one depth's outer product; the place where an adapter's matrix instructions go."""
    lines = frame.lines
    lines.append("{")
    left.read(depth, "thread_m", tile.rows // LANES, "a")
    right.read(depth, "thread_n", tile.columns // LANES, "b")
    for row in range(tile.rows):
        for group in range(tile.columns // LANES):
            if left.packed:
                a = f"a{row // LANES}.{'xyzw'[row % LANES]}"
                lines.append(f"sum{row}_{group} = sum{row}_{group} + {a} * b{group};")
                continue
            for lane in range(LANES):
                name = f"sum{row}_{group}_{lane}"
                total = frame.multiply_add(name, f"a{row // LANES}_{row % LANES}", f"b{group}_{lane}")
                lines.append(f"{name} = {total};")
    lines.append("}")


def generate_tile(
    kernel: Contraction, capabilities: Capabilities, tile: Tile, step: InnerProduct = outer_product
) -> Program:
    """Return the program of a contraction by tiles of a given variant."""
    frame = Frame(kernel, capabilities)
    left = Loader(frame, frame.left, tile.m, tile, "left")
    right = Loader(frame, frame.right, tile.n, tile, "right")
    left.declare()
    right.declare()
    total = -(-frame.m // tile.m) * -(-frame.n // tile.n) * frame.batch * tile.splits
    _locate(frame, tile, total)
    batch = frame.batch_coordinates("batch")
    _declare_sums(frame, tile, left.packed)
    if frame.k:
        _loop(frame, tile, (left, right), batch, step)
    if tile.splits > 1:
        _store_parts(frame, tile, left.packed)
    else:
        _store_sums(frame, tile, batch, left.packed)
    groups = spread_workgroups(total, capabilities.workgroups_per_dimension)
    first = frame.module.finish((tile.threads, 1, 1), groups, " (parts)" if tile.splits > 1 else "")
    if tile.splits == 1:
        return Program((first,), ())
    from .contraction_parts import part_bytes_of, sum_parts

    return Program((first, sum_parts(kernel, capabilities, tile.splits)), (part_bytes_of(frame, tile.splits),))


def _locate(frame: Frame, tile: Tile, total: int) -> None:
    """Write which block a workgroup computes and which part of it a thread."""
    lines = frame.lines
    tiles_m, tiles_n = -(-frame.m // tile.m), -(-frame.n // tile.n)
    lines += [f"let linear = {LINEAR_GROUP};", f"if (linear >= {total}u) {{ return; }}"]
    lines += [f"let tile = linear % {tiles_m * tiles_n}u;", f"let piece = linear / {tiles_m * tiles_n}u;"]
    if tile.splits > 1:
        share = -(-frame.k // tile.splits)
        depth = -(-share // tile.k) * tile.k
        lines += [f"let batch = piece / {tile.splits}u;", f"let part = piece % {tile.splits}u;"]
        lines += [f"let first = part * {depth}u;", f"let last = min(first + {depth}u, {frame.k}u);"]
    else:
        lines += ["let batch = piece;", "let first = 0u;", f"let last = {frame.k}u;"]
    if tile.band and tiles_m > 1:
        band = min(tile.band, tiles_m)
        lines += [
            f"let band = tile / {band * tiles_n}u;", f"let inside = tile % {band * tiles_n}u;",
            f"let high = min({band}u, {tiles_m}u - band * {band}u);",
            f"let base_m = (band * {band}u + inside % high) * {tile.m}u;", f"let base_n = (inside / high) * {tile.n}u;",
        ]  # fmt: skip
    else:
        lines += [f"let base_m = (tile / {tiles_n}u) * {tile.m}u;", f"let base_n = (tile % {tiles_n}u) * {tile.n}u;"]
    threads_n = tile.n // tile.columns
    if not tile.span or tile.span >= threads_n:
        lines += [f"let thread_n = thread % {threads_n}u;", f"let thread_m = thread / {threads_n}u;"]
        return
    across = threads_n // tile.span
    lines += [
        f"let thread_n = ((thread / 32u) % {across}u) * {tile.span}u + (thread % 32u) % {tile.span}u;",
        f"let thread_m = (thread / {32 * across}u) * {32 // tile.span}u + (thread % 32u) / {tile.span}u;",
    ]


def _loop(frame: Frame, tile: Tile, sides: tuple[Loader, Loader], batch: list[str], step: InnerProduct) -> None:
    """Write the loop over k: fetch a block ahead, pass the last one through workgroup memory, multiply."""
    lines = frame.lines
    bases = ("base_m", "base_n")
    for side, base in zip(sides, bases, strict=True):
        side.registers()
        side.fetch(batch, base, "first")
    if tile.stages > 1:
        lines.append("var stage = 0u;")
    # Workgroups whose part is empty take no turn; the bounds are the same for all threads of a workgroup.
    lines.append(f"for (var depth = first; depth < last; depth += {tile.k}u) {{")
    for side in sides:
        side.put()
    lines.append("workgroupBarrier();")
    lines.append(f"if (depth + {tile.k}u < last) {{")
    for side, base in zip(sides, bases, strict=True):
        side.fetch(batch, base, f"(depth + {tile.k}u)")
    lines.append("}")
    for depth in range(tile.k):
        step(frame, tile, *sides, f"{depth}u")
    # With two blocks, the next barrier already keeps the block being written apart from the one being read.
    lines.append("stage = 1u - stage;" if tile.stages > 1 else "workgroupBarrier();")
    lines.append("}")


def _declare_sums(frame: Frame, tile: Tile, packed: bool) -> None:
    for row in range(tile.rows):
        for group in range(tile.columns // LANES):
            if packed:
                frame.lines.append(f"var sum{row}_{group} = vec4<{frame.scalar}>();")
            else:
                frame.lines += [f"var sum{row}_{group}_{lane} = {frame.zero()};" for lane in range(LANES)]


def _each_group(frame: Frame, tile: Tile, packed: bool, write: Callable[[str, str, list[str]], None]) -> None:
    """Call ``write(row, column, sums)`` for each row and each four columns of a thread, inside their bounds."""
    lines = frame.lines
    step_m, step_n = tile.m // tile.rows, tile.n // tile.columns
    for row in range(tile.rows):
        lines.append(f"{{ let row = base_m + (thread_m + {row // LANES * step_m}u) * 4u + {row % LANES}u;")
        lines.append(f"if (row < {frame.m}u) {{" if frame.m % tile.m else "{")
        for group in range(tile.columns // LANES):
            names = [
                f"sum{row}_{group}.{'xyzw'[lane]}" if packed else f"sum{row}_{group}_{lane}" for lane in range(LANES)
            ]
            if frame.vector is not None:
                lines.append(f"{{ let column = base_n + (thread_n + {group * step_n}u) * 4u;")
                lines.append(f"if (column < {frame.n}u) {{" if frame.n % tile.n else "{")
                write("row", "column", names)
                lines.append("} }")
                continue
            for lane, name in enumerate(names):
                lines.append(f"{{ let column = base_n + (thread_n + {group * step_n}u) * 4u + {lane}u;")
                lines.append(f"if (column < {frame.n}u) {{" if frame.n % tile.n else "{")
                write("row", "column", [name])
                lines.append("} }")
        lines.append("} }")


def _store_sums(frame: Frame, tile: Tile, batch: list[str], packed: bool) -> None:
    _each_group(frame, tile, packed, lambda row, column, names: frame.epilogue(batch, row, column, names, frame.lines))


def _store_parts(frame: Frame, tile: Tile, packed: bool) -> None:
    name = frame.module.buffer("scratch", 0, frame.module.type(frame.kernel.dtype).word, True)
    frame.lines.append(f"let start = (part * {frame.batch}u + batch) * {frame.m * frame.n}u;")

    def write(row: str, column: str, names: list[str]) -> None:
        for lane, value in enumerate(names):
            frame.lines.append(f"{name}[start + {row} * {frame.n}u + {column} + {lane}u] = {value};")

    _each_group(frame, tile, packed, write)
