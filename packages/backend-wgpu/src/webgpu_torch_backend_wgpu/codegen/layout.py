"""How the buffers of a module are bound: as elements, vectors, packed or atomic words; it follows from the accesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .ir import VECTORS, Buffer, Load, LoadGroup, Node, Word
from .statements import Atomic, Exchange, Statement, Store, StoreGroup


class Layout:
    """How a buffer is bound: ``group`` neighbouring elements per word of the binding (0: one element), atomic or not."""

    __slots__ = ("atomic", "counts", "group", "single")

    def __init__(self) -> None:
        self.group = 0
        #: of how many elements the groups are that are read or written
        self.counts: set[int] = set()
        self.single = self.atomic = False

    def word(self, buffer: Buffer) -> str:
        """Return the type of an element of the binding."""
        count = buffer.encoding.words(self.group) if self.group else 1
        return buffer.encoding.word if count == 1 else VECTORS[buffer.encoding.word, count]


def survey(blocks: Iterable[list[Statement]]) -> dict[Buffer, Layout]:
    """Return the layout of each buffer from all accesses to it: vectors only where all of them are of one size."""
    layouts: dict[Buffer, Layout] = {}

    def visit_nodes(nodes: Sequence[Node]) -> None:
        for node in nodes:
            if type(node) is LoadGroup:
                _layout(layouts, node.buffer).counts.add(node.count)
            elif type(node) is Load:
                layout = _layout(layouts, node.buffer)
                layout.single |= not node.vector
            elif type(node) is Word:
                _layout(layouts, node.buffer).single = True
            if node.arguments:
                visit_nodes(node.arguments)

    def visit(block: list[Statement]) -> None:
        for statement in block:
            if isinstance(statement, (Store, StoreGroup, Atomic, Exchange)):
                layout = _layout(layouts, statement.buffer)
                if isinstance(statement, StoreGroup):
                    layout.counts.add(len(statement.nodes) - 1)
                else:
                    layout.single = True
                    layout.atomic |= not isinstance(statement, Store) or statement.buffer.encoding.lanes > 1
            visit_nodes(statement.nodes)
            for inner in statement.blocks:
                visit(inner)

    for block in blocks:
        visit(block)
    for layout in layouts.values():
        if not layout.single and len(layout.counts) < 2:
            layout.group = max(layout.counts, default=4)
    return layouts


def _layout(layouts: dict[Buffer, Layout], buffer: Buffer) -> Layout:
    found = layouts.get(buffer)
    if found is None:
        found = layouts[buffer] = Layout()
    return found
