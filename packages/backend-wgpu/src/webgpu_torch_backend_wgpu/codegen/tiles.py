"""Tiled contractions: a workgroup computes a block of the result from blocks of both operands in workgroup memory.

The scheme is the usual one for GPUs without matrix units (V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense
linear algebra", SC'08): each thread keeps a small block of sums in registers, both operands pass through workgroup
memory as vectors of four, and the next block is fetched while the current one is used.
"""

from __future__ import annotations

from webgpu_torch_core.kernels import Contraction, Record
from webgpu_torch_core.layouts import number_of_elements

from ..program import Capabilities, Program
from .access import LANES
from .contraction import Frame, Side
from .printer import LINEAR_GROUP, spread_workgroups


class Tile(Record):
    """Sizes: a workgroup's block (``m`` x ``n``, ``k`` deep at a time) and a thread's (``rows`` x ``columns``)."""

    __slots__ = fields = ("m", "n", "k", "rows", "columns")
    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return (self.m // self.rows) * (self.n // self.columns)


LARGE = Tile(128, 256, 8, 16, 8)
MIDDLE = Tile(128, 128, 8, 8, 8)
SMALL = Tile(64, 64, 16, 4, 4)
TINY = Tile(32, 32, 16, 4, 4)


def choose_tile(kernel: Contraction, capabilities: Capabilities) -> Tile:
    """Return the largest tile that still fills a large GPU."""
    m, n = number_of_elements(kernel.m), number_of_elements(kernel.n)
    batch = number_of_elements(kernel.batch)
    if "llvmpipe" in capabilities.adapter or kernel.dtype.name != "float32":
        return TINY
    for tile in (LARGE, MIDDLE, SMALL):
        if -(-m // tile.m) * -(-n // tile.n) * batch >= 128 and m >= tile.m // 2 and n >= tile.n // 2:
            return tile
    return SMALL if m > 32 and n > 32 and m * n * batch >= 64 * 64 * 64 else TINY


class _Loader:
    """Fetches one side's block: from global memory into registers, from registers into workgroup memory."""

    def __init__(self, frame: Frame, side: Side, tile: Tile, name: str) -> None:
        self.frame = frame
        self.side = side
        self.name = name
        self.width = tile.m if side.group == "m" else tile.n
        self.depth = tile.k
        self.rows = frame.m if side.group == "m" else frame.n
        self.threads = tile.threads
        self.along_k = side.along_k
        k_vector = side.vector_along(side.first_k, frame.k) if frame.kernel.k else False
        row_vector = side.vector_along(side.first, self.rows) if side.sizes else False
        self.lanes = LANES if (self.along_k and k_vector) or (not self.along_k and row_vector) else 1
        if self.width * self.depth % (self.threads * self.lanes):
            self.lanes = 1
        self.count = -(-self.width * self.depth // (self.threads * self.lanes))
        self.edge_rows = self.rows % self.width != 0
        self.edge_depth = frame.k % self.depth != 0

    def declare(self) -> None:
        """Declare the block in workgroup memory as vectors along the rows."""
        scalar = self.frame.scalar
        size = self.width * self.depth
        vector = f"vec4<{scalar}>" if scalar in ("f32", "i32", "u32") else scalar
        self.packed = vector != scalar
        self.frame.module.shared.append(
            f"var<workgroup> {self.name}: array<{vector}, {size // LANES if self.packed else size}>;"
        )

    def _position(self, number: int) -> tuple[str, str]:
        """Return (row, depth) inside the block of fetch ``number``."""
        at = f"(thread + {number * self.threads}u)"
        if self.along_k:
            per = self.depth // self.lanes
            return f"{at} / {per}u", f"({at} % {per}u) * {self.lanes}u"
        per = self.width // self.lanes
        return f"({at} % {per}u) * {self.lanes}u", f"{at} / {per}u"

    def fetch(self, batch: list[str], base: str, depth: str) -> None:
        """Write the loads of the block at row ``base`` and depth ``depth`` into registers."""
        lines, frame = self.frame.module.lines, self.frame
        partial = self.width * self.depth % (self.threads * self.lanes) != 0
        for number in range(self.count):
            row, deep = self._position(number)
            target = f"{self.name}_r{number}"
            scope: list[str] = [f"let row = {base} + {row};", f"let deep = {depth} + {deep};"]
            guard = [f"row < {self.rows}u"] if self.edge_rows else []
            guard += [f"deep < {frame.k}u"] if self.edge_depth else []
            guard += (
                [f"thread + {number * self.threads}u < {self.width * self.depth // self.lanes}u"] if partial else []
            )
            inner: list[str] = []
            value = (
                self._vector(batch, inner) if self.lanes > 1 else frame.element(self.side, batch, "row", "deep", inner)
            )
            lines.append("{")
            lines += scope
            if guard:
                zero = f"vec4<{frame.scalar}>()" if self.lanes > 1 else frame.zero()
                lines.append(f"{target} = {zero};")
                lines.append(f"if ({' && '.join(guard)}) {{")
            lines += inner
            lines.append(f"{target} = {value};")
            lines.append("}" if not guard else "} }")

    def _vector(self, batch: list[str], lines: list[str]) -> str:
        from .printer import linear_index

        side, kernel = self.side, self.frame.kernel
        other = ["0u"] * (len(kernel.n) if side.group == "m" else len(kernel.m))
        coordinates = batch + (["row"] + other if side.group == "m" else other + ["row"]) + ["deep"]
        index = linear_index(side.offset, side.strides, coordinates)
        key = self.frame.buffers.key(side.value.payload[0])
        name = self.frame.buffers.name(key)
        if key in self.frame.buffers.wide:
            return f"{name}[({index}) / 4u]"
        at = self.frame.module.fresh("a")
        lines.append(f"let {at} = {index};")
        return f"vec4<f32>({name}[{at}], {name}[{at} + 1u], {name}[{at} + 2u], {name}[{at} + 3u])"

    def registers(self) -> None:
        """Declare the registers that hold a fetched block."""
        scalar = self.frame.scalar
        kind = f"vec4<{scalar}>" if self.lanes > 1 else scalar
        self.frame.module.lines += [f"var {self.name}_r{number}: {kind};" for number in range(self.count)]

    def put(self) -> None:
        """Write the stores of the registers into workgroup memory, row-major by depth."""
        lines = self.frame.module.lines
        partial = self.width * self.depth % (self.threads * self.lanes) != 0
        for number in range(self.count):
            row, deep = self._position(number)
            source = f"{self.name}_r{number}"
            lines.append(
                "{"
                if not partial
                else f"if (thread + {number * self.threads}u < {self.width * self.depth // self.lanes}u) {{"
            )
            lines.append(f"let row = {row}; let deep = {deep};")
            if self.lanes == 1:
                lines.append(f"{self._cell('deep', 'row')} = {source};")
            elif self.along_k:
                lines += [
                    f"{self._cell(f'(deep + {lane}u)', 'row')} = {source}.{'xyzw'[lane]};" for lane in range(LANES)
                ]
            else:
                lines.append(f"{self.name}[(deep * {self.width}u + row) / 4u] = {source};")
            lines.append("}")

    def _cell(self, depth: str, row: str) -> str:
        if self.packed:
            return f"{self.name}[({depth} * {self.width}u + {row}) / 4u][{row} & 3u]"
        return f"{self.name}[{depth} * {self.width}u + {row}]"

    def read(self, depth: str, group: str, count: int, prefix: str) -> None:
        """Write the loads of a thread's values at one depth: ``count`` groups of four, ``group`` apart by threads."""
        lines = self.frame.module.lines
        for number in range(count):
            at = f"({group} + {number * (self.width // (count * LANES))}u)"
            if self.packed:
                lines.append(f"let {prefix}{number} = {self.name}[{depth} * {self.width // LANES}u + {at}];")
            else:
                for lane in range(LANES):
                    lines.append(
                        f"let {prefix}{number}_{lane} = {self.name}[{depth} * {self.width}u + {at} * 4u + {lane}u];"
                    )


def generate_tiles(kernel: Contraction, capabilities: Capabilities, tile: Tile) -> Program:
    """Return the program of a contraction by tiles."""
    frame = Frame(kernel, capabilities)
    _mark_wide(frame)
    left, right = _Loader(frame, frame.left, tile, "left"), _Loader(frame, frame.right, tile, "right")
    left.declare()
    right.declare()
    lines = frame.module.lines
    tiles_m, tiles_n = -(-frame.m // tile.m), -(-frame.n // tile.n)
    total = tiles_m * tiles_n * frame.batch
    lines += [
        f"let linear = {LINEAR_GROUP};", f"if (linear >= {total}u) {{ return; }}", f"let tile = linear % {tiles_m * tiles_n}u;",
        f"let batch = linear / {tiles_m * tiles_n}u;", f"let base_m = (tile / {tiles_n}u) * {tile.m}u;",
        f"let base_n = (tile % {tiles_n}u) * {tile.n}u;", f"let thread_n = thread % {tile.n // tile.columns}u;",
        f"let thread_m = thread / {tile.n // tile.columns}u;",
    ]  # fmt: skip
    batch = frame.batch_coordinates("batch")
    packed = left.packed
    _declare_sums(frame, tile, packed)
    left.registers()
    right.registers()
    if frame.k:
        left.fetch(batch, "base_m", "0u")
        right.fetch(batch, "base_n", "0u")
        lines.append(f"for (var depth = 0u; depth < {frame.k}u; depth += {tile.k}u) {{")
        left.put()
        right.put()
        lines.append("workgroupBarrier();")
        lines.append(f"if (depth + {tile.k}u < {frame.k}u) {{")
        left.fetch(batch, "base_m", f"(depth + {tile.k}u)")
        right.fetch(batch, "base_n", f"(depth + {tile.k}u)")
        lines.append("}")
        for depth in range(tile.k):
            _inner_product(frame, tile, left, right, depth)
        lines.append("workgroupBarrier();")
        lines.append("}")
    _store_sums(frame, tile, batch, packed)
    groups = spread_workgroups(total, capabilities.workgroups_per_dimension)
    return Program((frame.module.finish((tile.threads, 1, 1), groups),), ())


def _mark_wide(frame: Frame) -> None:
    """Bind a side's buffer as vectors where the tile loader is the only one to read it and reads it so."""
    kernel = frame.kernel
    keys = []
    for side, rows in ((frame.left, frame.m), (frame.right, frame.n)):
        if side.row is None:
            continue
        position, size = (side.first_k, frame.k) if side.along_k else (side.first, rows)
        if (side.along_k and not kernel.k) or (not side.along_k and not side.sizes):
            continue
        if side.vector_along(position, size):
            keys.append(side.value.payload[0])
    from .pointwise import topological

    for slot in keys:
        if slot in frame.buffers.place:
            continue
        others = [
            node for store in kernel.stores for node in topological(store.value) if node.step in ("load", "load_at")
        ]
        used = any((node.payload[0] if node.step == "load" else node.payload) == slot for node in others)
        both = [side.value.payload[0] for side in (frame.left, frame.right) if side.value.step == "load"]
        shared = both.count(slot) > 1 and keys.count(slot) < 2
        if not used and not shared:
            frame.buffers.wide.add(("operand", slot))


def _declare_sums(frame: Frame, tile: Tile, packed: bool) -> None:
    for row in range(tile.rows):
        for group in range(tile.columns // LANES):
            if packed:
                frame.module.lines.append(f"var sum{row}_{group} = vec4<{frame.scalar}>();")
            else:
                frame.module.lines += [f"var sum{row}_{group}_{lane} = {frame.zero()};" for lane in range(LANES)]


def _inner_product(frame: Frame, tile: Tile, left: _Loader, right: _Loader, depth: int) -> None:
    """Write one depth's outer product; the place where an adapter's matrix instructions would go."""
    lines = frame.module.lines
    lines.append("{")
    left.read(f"{depth}u", "thread_m", tile.rows // LANES, "a")
    right.read(f"{depth}u", "thread_n", tile.columns // LANES, "b")
    for row in range(tile.rows):
        for group in range(tile.columns // LANES):
            if left.packed:
                a = f"a{row // LANES}.{'xyzw'[row % LANES]}"
                lines.append(f"sum{row}_{group} = sum{row}_{group} + {a} * b{group};")
            else:
                a = f"a{row // LANES}_{row % LANES}"
                for lane in range(LANES):
                    name = f"sum{row}_{group}_{lane}"
                    lines.append(f"{name} = {frame.multiply_add(name, a, f'b{group}_{lane}')};")
    lines.append("}")


def _store_sums(frame: Frame, tile: Tile, batch: list[str], packed: bool) -> None:
    lines = frame.module.lines
    step_m, step_n = tile.m // tile.rows, tile.n // tile.columns
    edges = frame.m % tile.m != 0, frame.n % tile.n != 0
    for row in range(tile.rows):
        lines.append(f"{{ let row = base_m + (thread_m + {row // LANES * step_m}u) * 4u + {row % LANES}u;")
        lines.append(f"if (row < {frame.m}u) {{" if edges[0] else "{")
        for group in range(tile.columns // LANES):
            for lane in range(LANES):
                lines.append(f"{{ let column = base_n + (thread_n + {group * step_n}u) * 4u + {lane}u;")
                lines.append(f"if (column < {frame.n}u) {{" if edges[1] else "{")
                name = f"sum{row}_{group}.{'xyzw'[lane]}" if packed else f"sum{row}_{group}_{lane}"
                frame.epilogue(batch, "row", "column", name, lines)
                lines.append("} }")
        lines.append("} }")
