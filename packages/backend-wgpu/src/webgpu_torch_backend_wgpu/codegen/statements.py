"""The statements of a kernel, and the body that they are added to. What they compute with is in :mod:`.ir`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from .ir import Array, Buffer, Call, Load, LoadGroup, Name, Node, Number


class Statement:
    """A step of a body: ``nodes`` are the expressions in it, ``blocks`` the statements inside."""

    __slots__ = ()
    nodes: tuple[Node, ...] = ()
    blocks: tuple[list[Statement], ...] = ()


class Let(Statement):
    """Name a value."""

    __slots__ = ("name", "nodes")

    def __init__(self, name: str, value: Node) -> None:
        self.name, self.nodes = name, (value,)


class Var(Statement):
    """Declare a variable, with or without a value."""

    __slots__ = ("name", "nodes", "type")

    def __init__(self, name: str, kind: str, value: Node | None) -> None:
        self.name, self.type, self.nodes = name, kind, () if value is None else (value,)


class Assign(Statement):
    """Change a variable or an element of workgroup memory; ``symbol`` is ``=``, ``+=``, ``*=`` or ``/=``."""

    __slots__ = ("nodes", "symbol")

    def __init__(self, target: Node, value: Node, symbol: str = "=") -> None:
        self.nodes, self.symbol = (target, value), symbol


class Store(Statement):
    """Write one element of a buffer. Packed ones change only their own bits of a word that others may be writing, too."""

    __slots__ = ("buffer", "nodes")

    def __init__(self, buffer: Buffer, index: Node, value: Node) -> None:
        self.buffer, self.nodes = buffer, (index, value)


class StoreGroup(Statement):
    """Write neighbouring elements of a buffer from an aligned index on."""

    __slots__ = ("buffer", "nodes")

    def __init__(self, buffer: Buffer, index: Node, values: Sequence[Node]) -> None:
        self.buffer, self.nodes = buffer, (index, *values)


class Do(Statement):
    """Call a function for what it does."""

    __slots__ = ("nodes",)

    def __init__(self, call: Call) -> None:
        self.nodes = (call,)


class Atomic(Statement):
    """Combine a value into an element of a buffer of words: ``function`` is WGSL's, such as ``atomicAdd``."""

    __slots__ = ("buffer", "function", "nodes")

    def __init__(self, function: str, buffer: Buffer, index: Node, value: Node) -> None:
        self.function, self.buffer, self.nodes = function, buffer, (index, value)


class Exchange(Statement):
    """Write one packed element by compare and exchange: two writers of the same element do not mix their bits."""

    __slots__ = ("buffer", "nodes")

    def __init__(self, buffer: Buffer, index: Node, value: Node) -> None:
        self.buffer, self.nodes = buffer, (index, value)


class If(Statement):
    """Run a block where a condition holds, else another; without a condition the block is only a scope of names."""

    __slots__ = ("blocks", "nodes")

    def __init__(self, condition: Node | None) -> None:
        self.nodes = () if condition is None else (condition,)
        self.blocks: tuple[list[Statement], ...] = ([],)


class For(Statement):
    """Repeat a block: ``variable`` is declared with the first node, unless it exists already (None)."""

    __slots__ = ("blocks", "nodes", "symbol", "variable")

    def __init__(self, variable: Name | None, start: Node | None, condition: Node, update: Assign) -> None:
        self.variable = variable
        self.nodes = (*(() if start is None else (start,)), condition, *update.nodes)
        self.symbol = update.symbol
        self.blocks: tuple[list[Statement], ...] = ([],)


class While(Statement):
    """Repeat a block as long as a condition holds."""

    __slots__ = ("blocks", "nodes")

    def __init__(self, condition: Node) -> None:
        self.nodes = (condition,)
        self.blocks: tuple[list[Statement], ...] = ([],)


class Break(Statement):
    """Leave the innermost loop."""

    __slots__ = ()


class Return(Statement):
    """Leave the function, with a value or without."""

    __slots__ = ("nodes",)

    def __init__(self, value: Node | None = None) -> None:
        self.nodes = () if value is None else (value,)


class Barrier(Statement):
    """Wait for the workgroup: what its threads wrote to ``memory`` (workgroup or storage) is seen after it."""

    __slots__ = ("memory",)

    def __init__(self, memory: str) -> None:
        self.memory = memory


class Function:
    """A function of the module: parameters with their types, the type of the result, statements."""

    __slots__ = ("body", "name", "parameters", "result")

    def __init__(self, name: str, parameters: dict[str, str], result: str, body: list[Statement]) -> None:
        self.name, self.parameters, self.result, self.body = name, parameters, result, body


class Body:
    """Statements under construction: what is added goes to the innermost open block."""

    __slots__ = ("_block", "statements")

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._block = self.statements

    @contextmanager
    def inside(self, block: list[Statement]) -> Iterator[None]:
        """Add to another block for a while."""
        before, self._block = self._block, block
        try:
            yield
        finally:
            self._block = before

    def add(self, statement: Statement) -> None:
        """Add a statement."""
        self._block.append(statement)

    def let(self, name: str, value: Node) -> Name:
        """Name a value."""
        self._block.append(Let(name, value))
        return Name(name, value.type)

    def var(self, name: str, value: Node | None = None, kind: str = "") -> Name:
        """Declare a variable, of the value's type unless ``kind`` says another."""
        self._block.append(Var(name, kind, value))
        return Name(name, kind or (value.type if value is not None else ""))

    def set(self, target: Node, value: Node) -> None:
        """Change a variable or an element of workgroup memory."""
        self._block.append(Assign(target, value))

    def when(self, condition: Node | None) -> AbstractContextManager[None]:
        """Open a block that runs where the condition holds (always, with names of its own, without one)."""
        statement = If(condition)
        self._block.append(statement)
        return self.inside(statement.blocks[0])

    def otherwise(self) -> AbstractContextManager[None]:
        """Open the block for where the condition of the statement just added does not hold."""
        statement = self._block[-1]
        if not isinstance(statement, If):
            raise TypeError(f"otherwise() follows when(), not {type(statement).__name__}")
        statement.blocks = (*statement.blocks, [])
        return self.inside(statement.blocks[1])

    @contextmanager
    def loop(
        self, name: str, start: Node, condition: Callable[[Name], Node], step: Node | int, symbol: str = "+="
    ) -> Iterator[Name]:
        """Open ``for (var name = start; condition(name); name += step)``."""
        variable = Name(name, start.type)
        amount = step if isinstance(step, Node) else Number(step, start.type)
        statement = For(variable, start, condition(variable), Assign(variable, amount, symbol))
        self._block.append(statement)
        with self.inside(statement.blocks[0]):
            yield variable

    def advance(self, variable: Name, condition: Node, step: int) -> AbstractContextManager[None]:
        """Open ``for (; condition; variable += step)`` over a variable that exists."""
        statement = For(None, None, condition, Assign(variable, Number(step, variable.type), "+="))
        self._block.append(statement)
        return self.inside(statement.blocks[0])

    def repeat(self, condition: Node) -> AbstractContextManager[None]:
        """Open a block that runs as long as the condition holds."""
        statement = While(condition)
        self._block.append(statement)
        return self.inside(statement.blocks[0])

    def leave(self, condition: Node | None = None, value: Node | None = None) -> None:
        """Return, where a condition holds or always."""
        if condition is None:
            self.add(Return(value))
        else:
            with self.when(condition):
                self.add(Return(value))

    def barrier(self, memory: str = "workgroup") -> None:
        """Wait for the other threads of the workgroup."""
        self.add(Barrier(memory))


def loads_first(
    statements: Sequence[Statement], before: Sequence[Statement]
) -> tuple[list[Statement], list[Statement]]:
    """Return those statements that may stand before others that precede them, as they load elements from buffers that these do not
    write, or tell where; and those that are left."""
    blocked = {each.name for each in before if isinstance(each, (Let, Var))}
    known: dict[str, Let] = {}
    first: set[str] = set()
    for each in statements:
        if not isinstance(each, (Let, Var)):
            continue
        inside = list(_names(each.nodes[0])) if each.nodes else []
        if isinstance(each, Var) or any(isinstance(one, Array) or one.text in blocked for one in inside):
            blocked.add(each.name)
            continue
        known[each.name] = each
        if isinstance(each.nodes[0], (Load, LoadGroup)):
            waiting = [each]
            while waiting:
                one = waiting.pop()
                first.add(one.name)
                waiting += [known[name.text] for name in _names(one.nodes[0]) if name.text in known]
    early: list[Statement] = []
    late: list[Statement] = []
    for each in statements:
        (early if isinstance(each, Let) and each.name in first else late).append(each)
    return early, late


def _names(node: Node) -> Iterator[Name]:
    """Yield the names in an expression."""
    if isinstance(node, Name):
        yield node
    for each in node.arguments:
        yield from _names(each)
