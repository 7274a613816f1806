"""Which blocks the workgroups of an attention compute, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterator

from webgpu_torch_core.ir.expression import topological
from webgpu_torch_core.ir.kernels import Attention
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from ..facts import Facts
from ..program import Capabilities
from .attention_parts import SPLITTING
from .contraction_tile import Tile

#: extra elements per row of a block in workgroup memory, against bank conflicts
_PAD = 4


class AttentionTile(Record):
    """A variant of the attention kernel.

    Fields:
        m, n, v: rows, columns at a time, and positions of each sum that a workgroup computes.
        rows: rows of a thread; a multiple of 4.
        across: threads that share a row; four columns and positions at least are each one's.
        deep: how deep products and sums go at a time.
        kept: the rows' sides of products stay in workgroup memory.
        splits: workgroups that share the columns.
    """

    __slots__ = fields = ("m", "n", "v", "rows", "across", "deep", "kept", "splits")
    m: int
    n: int
    v: int
    rows: int
    across: int
    deep: int
    kept: bool
    splits: int

    @property
    def threads(self) -> int:
        """Threads per workgroup."""
        return self.m // self.rows * self.across

    def product(self) -> Tile:
        """Return the tile of a product: a block of weights."""
        return Tile(self.m, self.n, self.deep, self.rows, self.n // self.across, span=self._span, pad=_PAD)

    def sum(self) -> Tile:
        """Return the tile of a sum."""
        return Tile(self.m, self.v, self.deep, self.rows, self.v // self.across, span=self._span, pad=_PAD)

    @property
    def _span(self) -> int:
        """Threads along the columns in each run of 32: eight by four read least of workgroup memory."""
        return 8 if self.m // self.rows % 4 == 0 else 0

    def nbytes(self, kernel: Attention) -> int:
        """Return the bytes of workgroup memory."""
        stages = sum(self.stages(_width(kernel, each.depth)) for each in kernel.products) if self.kept else 1
        rows = (self.m + _PAD) * stages * self.deep
        return 4 * (self.m * self.n + self.m * self.across + self.m + rows + self.block())

    def block(self) -> int:
        """Return how many numbers of keys or values lie in workgroup memory at a time."""
        return (max(self.n, self.v) + _PAD) * self.deep

    def stages(self, depth: int) -> int:
        """Return in how many blocks a side of a product of some depth is brought into workgroup memory."""
        return -(-depth // self.deep)


#: m, n, rows, across, deep of a workgroup's block, and the share of an adapter's operations per second that it reaches with
#: sums up to 64 wide, and with wider ones; and by what that is multiplied where the rows' sides do not stay in workgroup memory:
#: blocks of few threads find more of their like beside them then
_BLOCKS: dict[tuple[int, int, int, int, int], tuple[float, float, float]] = {
    (128, 64, 8, 8, 8): (0.38, 0.36, 0.97),
    (128, 64, 4, 8, 8): (0.4, 0.44, 0.97),
    (64, 64, 4, 8, 8): (0.38, 0.24, 1.25),
    (64, 64, 4, 16, 16): (0.43, 0.37, 0.97),
    (64, 64, 8, 16, 16): (0.36, 0.33, 0.97),
    (32, 64, 4, 16, 16): (0.3, 0.23, 0.97),
    (32, 32, 4, 8, 8): (0.35, 0.31, 0.97),
}
#: up to which width
_WIDE = 64
_SOFTWARE = (32, 32, 4, 8, 8)
#: blocks whose threads keep sixteen positions of a sum for each row; those of others at most eight
_REACHING = ((128, 64, 4, 8, 8),)
#: in how many parts columns may be split, and most bytes of the parts
_SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_SCRATCH = 1 << 26
#: threads with which a unit reaches its rate, where the rows' sides stay in its memory and where not
_ENOUGH, _ENOUGH_STREAMED = 128, 192


def attention_tiles(kernel: Attention, capabilities: Capabilities) -> Iterator[AttentionTile]:
    """Yield the tiles that an adapter has threads and workgroup memory for, with the columns split or not."""
    widest = max(_width(kernel, each.along) for each in kernel.sums)
    for block in _BLOCKS:
        if capabilities.software and block != _SOFTWARE:
            continue
        m, n, rows, across, deep = block
        least = 4 * across
        reach = (least, 2 * least) if block not in _REACHING else (least, 2 * least, 4 * least)
        for v in {min(-(-widest // least) * least, most) for most in reach}:
            # Small blocks hide what they wait for by their number, which their memory limits.
            for kept in (True, False) if m // rows * across >= _ENOUGH else (False,):
                tile = AttentionTile(m, n, v, rows, across, deep, kept, 1)
                if tile.threads > capabilities.invocations or tile.nbytes(kernel) > capabilities.workgroup_bytes:
                    continue
                for splits in _splits_of(kernel, tile, capabilities):
                    yield tile.replace(splits=splits)


def _splits_of(kernel: Attention, tile: AttentionTile, capabilities: Capabilities) -> Iterator[int]:
    """Yield in how many parts columns may be split: each has a block of them, and there is room for what they leave."""
    yield 1
    if kernel.score is None or len(kernel.sums) != 1 or capabilities.software:
        return
    batch, m, n = map(number_of_elements, (kernel.batch, kernel.m, kernel.n))
    nbytes = 4 * batch * m * (_width(kernel, kernel.sums[0].along) + 2)
    for splits in _SPLITS[1:]:
        if splits * tile.n <= n and splits * nbytes <= min(_MOST_SCRATCH, capabilities.binding_bytes):
            yield splits


def _width(kernel: Attention, along: str) -> int:
    return number_of_elements(kernel.k if along == "k" else kernel.v)


def columns_read(kernel: Attention) -> float:
    """Return which share of the columns rows attend to on average: half of them, where bounds follow the rows."""
    rows = range(len(kernel.batch), len(kernel.batch) + len(kernel.m))
    bounds = [each for each in (kernel.first, kernel.last) if each is not None]
    return 0.5 if any(node.step == "coordinate" and node.payload in rows for node in topological(*bounds)) else 1.0


def attention_seconds(kernel: Attention, tile: AttentionTile, facts: Facts) -> float:
    """Return an estimate of the time that a tile takes for an attention."""
    batch, m, n = map(number_of_elements, (kernel.batch, kernel.m, kernel.n))
    widest = max(_width(kernel, each.along) for each in kernel.sums)
    blocks = max(-(-m // tile.m) * -(-widest // tile.v) * batch * tile.splits, 1)
    depth = sum(tile.stages(_width(kernel, each.depth)) * tile.deep for each in kernel.products)
    columns = -(-n // (tile.n * tile.splits)) * tile.n
    work = 2 * tile.m * columns * (depth + len(kernel.sums) * tile.v)
    *shares, streamed = _BLOCKS[tile.m, tile.n, tile.rows, tile.across, tile.deep]
    share = shares[tile.v > _WIDE] * (1.0 if tile.kept else streamed)
    # Where rows attend to ever more columns, the longest of the blocks begin first, and the short ones fill what they leave.
    read = columns_read(kernel)
    rounds = -(-blocks // facts.units) if read == 1.0 else blocks * read / facts.units
    enough = _ENOUGH if tile.kept else _ENOUGH_STREAMED
    rounds = max(rounds, enough / min(tile.threads, enough))
    seconds = rounds * facts.units * work / (facts.flops * share) + facts.dispatch
    if tile.splits == 1:
        return seconds
    return seconds + 8 * tile.splits * batch * m * widest / facts.bandwidth + SPLITTING * facts.dispatch
