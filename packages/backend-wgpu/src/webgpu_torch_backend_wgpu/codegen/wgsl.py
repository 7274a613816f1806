"""The spelling of statements in WGSL: how buffers are bound, which helpers a module needs, where sizes stand.

A module is printed in two steps. The accesses to each buffer tell how it is bound (:func:`~.layout.survey`). Then every statement is
spelled; on the way the printer collects the helper functions that are called and the extensions that types need. The result
is a list of text and sizes (:class:`~..program.Size`), which are joined as literals or as run-time values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..functions import FUNCTIONS, prelude
from ..functions.conversion import PACKED_HALVES, ROUNDING_HALF
from ..functions.floating import NATIVE_FUSED
from ..functions.trigonometric import NATIVE_PRODUCT
from ..gpu.interface import MATRIX_HEAD
from ..program import Capabilities, Piece, Size, part_bytes
from .ir import (
    SCALAR_OF,
    SIZE_OF,
    VECTORS,
    Array,
    Buffer,
    Call,
    Index,
    Literal,
    Load,
    LoadGroup,
    Member,
    Name,
    Node,
    Number,
    Operation,
    Prefix,
    Word,
    fixed,
    vector,
)
from .layout import Layout, survey
from .statements import (
    Assign,
    Atomic,
    Barrier,
    Break,
    Do,
    Exchange,
    For,
    Function,
    If,
    Let,
    Return,
    Statement,
    Store,
    StoreGroup,
    Var,
    While,
)

#: how tightly an operator binds, how tightly its operands must, and whether a chain of it needs no parentheses
_BINDING = {
    "*": (8, 8, 9), "/": (8, 8, 9), "%": (8, 8, 9), "+": (7, 7, 8), "-": (7, 7, 8), "<<": (6, 9, 9), ">>": (6, 9, 9),
    "==": (5, 6, 6), "!=": (5, 6, 6), "<": (5, 6, 6), "<=": (5, 6, 6), ">": (5, 6, 6), ">=": (5, 6, 6),
    "&": (4, 9, 9), "^": (4, 9, 9), "|": (4, 9, 9), "&&": (2, 5, 5), "||": (2, 5, 5),
}  # fmt: skip
_CHAINS = frozenset({"&", "|", "^", "&&", "||"})
_UNARY = 9
_SUFFIX = {"u32": "u", "i32": "i", "i64": "li"}
_BYTES = {"f16": 2, "f32": 4, "i32": 4, "u32": 4, "i64": 8}
#: functions by which threads of a subgroup exchange values, and what the entry point is then told besides
_OF_SUBGROUPS = frozenset({"quadBroadcast", "subgroupAdd", "subgroupMax", "subgroupShuffle", "subgroupShuffleXor"})
_SUBGROUP_THREAD = ", @builtin(subgroup_invocation_id) subgroup_thread: u32"
_HALVES = frozenset({"f16", *(VECTORS["f16", size] for size in (2, 3, 4))})


def type_bytes(kind: str) -> int:
    """Return the size of a value in a buffer."""
    return _BYTES[SCALAR_OF.get(kind, kind)] * SIZE_OF.get(kind, 1)


def spelled(size: Size) -> str:
    """Return a size as a literal."""
    return f"{size.value}{_SUFFIX[size.type]}"


def read_at(place: int, kind: str) -> str:
    """Return what reads the size at a place of the run-time sizes."""
    text = f"sizes[{place // 4}u].{'xyzw'[place % 4]}"
    return {"u32": text, "i32": f"bitcast<i32>({text})", "i64": f"i64({text})"}[kind]


def sizes_declaration(binding: int, count: int) -> str:
    """Return the declaration of ``count`` run-time sizes."""
    return f"@group(0) @binding({binding}) var<uniform> sizes: array<vec4<u32>, {-(-count // 4)}>;\n"


class Printer:
    """Spells the parts of one module into ``pieces``."""

    def __init__(self, layouts: dict[Buffer, Layout], capabilities: Capabilities) -> None:
        self.layouts = layouts
        self.capabilities = capabilities
        self.pieces: list[Piece] = []
        #: where in the pieces the sizes are
        self.places: list[int] = []
        self.helpers: set[str] = set()
        self.half = self.matrix = self.subgroups = False
        #: functions that find the part of a long buffer: (buffer, what they do)
        self.accessors: dict[tuple[Buffer, str], None] = {}

    def joined(self, head: str) -> tuple[Piece, ...]:
        """Return the pieces behind a text, with neighbouring texts joined."""
        result: list[Piece] = []
        start, before = 0, head
        for place in self.places:
            result += [before + "".join(self.pieces[start:place]), self.pieces[place]]  # pyright: ignore
            start, before = place + 1, ""
        return (*result, before + "".join(self.pieces[start:]))  # pyright: ignore

    def block(self, statements: Sequence[Statement], depth: int) -> None:
        """Spell statements, a line each."""
        indent = "  " * depth
        for each in statements:
            self.pieces.append(indent)
            STATEMENTS[type(each)](self, each, depth)
            self.pieces.append("\n")

    def braces(self, statements: Sequence[Statement], depth: int) -> None:
        """Spell a block in braces."""
        self.pieces.append("{\n")
        self.block(statements, depth + 1)
        self.pieces.append("  " * depth + "}")

    def node(self, node: Node, level: int = 0) -> None:
        """Spell an expression, in parentheses where it binds less tightly than ``level``."""
        if type(node) is Name:
            # Most nodes are: it saves a call. What a name stands for was spelled before.
            self.pieces.append(node.text)
            return
        if node.type in _HALVES:
            self.half = True
        NODES[type(node)](self, node, level)

    def say(self, *parts: str | Node) -> None:
        """Spell text and expressions one after another."""
        for each in parts:
            if type(each) is str:
                self.pieces.append(each)
            else:
                self.node(each)  # pyright: ignore

    def listed(self, nodes: Sequence[Node]) -> None:
        """Spell expressions with commas between them."""
        for number, each in enumerate(nodes):
            if number:
                self.pieces.append(", ")
            self.node(each)

    # Expressions

    def name(self, node: Name, level: int) -> None:
        self.pieces.append(node.text)

    def number(self, node: Number, level: int) -> None:
        if not node.fixed:
            self.places.append(len(self.pieces))
            self.pieces.append(Size(node.value, node.type))
        else:
            text = hex(node.value) if node.value > 9999 else str(node.value)
            self.pieces.append(text + _SUFFIX[node.type])

    def literal(self, node: Literal, level: int) -> None:
        if node.type == "bool":
            self.pieces.append("true" if node.value else "false")
        else:
            self.pieces.append(f"{node.value!r}{'h' if node.type == 'f16' else 'f'}")

    def prefix(self, node: Prefix, level: int) -> None:
        self.pieces.append(node.symbol)
        argument = node.arguments[0]
        # Two signs must not meet.
        self.node(argument, _UNARY + (isinstance(argument, Prefix) and argument.symbol == node.symbol == "-"))

    def operation(self, node: Operation, level: int) -> None:
        # Sums of hundreds of terms lean to the left: they are no recursion.
        chain: list[tuple[Operation, int, bool]] = []
        left: Node = node
        while type(left) is Operation:
            self.half = self.half or left.type in _HALVES
            own, left_level, right_level = _BINDING[left.symbol]
            if own < level:
                self.pieces.append("(")
            chain.append((left, right_level, own < level))
            symbol, left = left.symbol, left.arguments[0]
            level = own if symbol in _CHAINS and type(left) is Operation and left.symbol == symbol else left_level
        self.node(left, level)
        for each, right_level, closes in reversed(chain):
            self.pieces.append(f" {each.symbol} ")
            self.node(each.arguments[1], right_level)
            if closes:
                self.pieces.append(")")

    def call(self, node: Call, level: int) -> None:
        if node.function in FUNCTIONS:
            self.helpers.add(node.function)
        self.subgroups |= node.function in _OF_SUBGROUPS
        self.pieces.append(node.function + "(")
        self.listed(node.arguments)
        self.pieces.append(")")

    def helper(self, node: Helper, level: int) -> None:
        self.helpers.add(node.text)
        self.pieces.append(node.text)

    def member(self, node: Member, level: int) -> None:
        self.node(node.arguments[0], 10)
        self.pieces.append("." + node.field)

    def index(self, node: Index, level: int) -> None:
        self.node(node.arguments[0], 10)
        self.pieces.append("[")
        self.node(node.arguments[1])
        self.pieces.append("]")

    # Buffers

    def load(self, node: Load, level: int) -> None:
        encoding, index = node.buffer.encoding, node.arguments[0]
        if encoding.lanes == 1:
            self.word(Word(node.buffer, index), level)
            return
        word = Word(node.buffer, index >> encoding.lanes.bit_length() - 1)
        self.node(encoding.unpack(word, index & fixed(encoding.lanes - 1)), level)

    def word(self, node: Word, level: int) -> None:
        buffer, index = node.buffer, node.arguments[0]
        layout = self.layouts[buffer]
        words = buffer.encoding.words(layout.group) if layout.group else 1
        self._read(buffer, index if words == 1 else index // fixed(words))
        if words > 1:
            self.say("[", index % fixed(words), "]")

    def load_group(self, node: LoadGroup, level: int) -> None:
        buffer, index = node.buffer, node.arguments[0]
        if self.layouts[buffer].group:
            self._read(buffer, index // fixed(node.count))
            return
        first = index if buffer.encoding.lanes == 1 else index // fixed(buffer.encoding.lanes)
        words = range(buffer.encoding.words(node.count))
        self.node(
            vector(buffer.encoding.word, [Word(buffer, first + fixed(each) if each else first) for each in words])
        )

    def _read(self, buffer: Buffer, index: Node) -> None:
        atomic = self.layouts[buffer].atomic
        if len(buffer.bindings) > 1:
            self.accessors[buffer, "load"] = None
            self.say(f"{buffer.name}_load(", index, ")")
        else:
            self.say("atomicLoad(&" if atomic else "", f"{buffer.name}[", index, "])" if atomic else "]")

    def _write(self, buffer: Buffer, index: Node, value: Node) -> None:
        if len(buffer.bindings) > 1:
            self.accessors[buffer, "store"] = None
            self.say(f"{buffer.name}_store(", index, ", ", value, ");")
        else:
            self.say(f"{buffer.name}[", index, "] = ", value, ";")

    def _change(self, function: str, buffer: Buffer, index: Node, value: Node) -> None:
        if len(buffer.bindings) > 1:
            self.accessors[buffer, function] = None
            self.say(f"{buffer.name}_{function}(", index, ", ", value, ");")
        else:
            self.say(f"{function}(&{buffer.name}[", index, "], ", value, ");")

    # Statements

    def let(self, statement: Let, depth: int) -> None:
        self.say(f"let {statement.name} = ", statement.nodes[0], ";")

    def var(self, statement: Var, depth: int) -> None:
        kind = f": {statement.type}" if statement.type else ""
        self.half |= statement.type in _HALVES
        self.matrix |= statement.type.startswith("subgroup_matrix")
        self.say(f"var {statement.name}{kind}", *((" = ", statement.nodes[0]) if statement.nodes else ()), ";")

    def assign(self, statement: Assign, depth: int) -> None:
        self.say(statement.nodes[0], f" {statement.symbol} ", statement.nodes[1], ";")

    def store(self, statement: Store, depth: int) -> None:
        buffer, (index, value) = statement.buffer, statement.nodes
        encoding = buffer.encoding
        if encoding.lanes == 1:
            self._write(buffer, index, value)
            return
        at, shift = Name("packed_at", "u32"), Name("packed_shift", "u32")
        lane = (at & fixed(encoding.lanes - 1)) * fixed(encoding.bits)
        self.say("{ let packed_at = ", index, "; let packed_shift = ", lane, "; ")
        word = at >> encoding.lanes.bit_length() - 1
        self._change("atomicAnd", buffer, word, ~(fixed((1 << encoding.bits) - 1) << shift))
        self.pieces.append(" ")
        self._change("atomicOr", buffer, word, encoding.pack(value) << shift)
        self.pieces.append(" }")

    def store_group(self, statement: StoreGroup, depth: int) -> None:
        buffer, (index, *values) = statement.buffer, statement.nodes
        layout, encoding = self.layouts[buffer], buffer.encoding
        if layout.atomic or (encoding.lanes == 1 and not layout.group):
            self.pieces.append("{ ")
            for number, value in enumerate(values):
                self.store(Store(buffer, index + fixed(number) if number else index, value), depth)
                self.pieces.append(" ")
            self.pieces.append("}")
            return
        words = values if encoding.lanes == 1 else [encoding.packed(some) for some in _grouped(values, encoding.lanes)]
        if layout.group:
            self._write(buffer, index // fixed(len(values)), vector(encoding.word, words))
            return
        first = index // fixed(encoding.lanes)
        for number, word in enumerate(words):
            self._write(buffer, first + fixed(number) if number else first, word)

    def atomic(self, statement: Atomic, depth: int) -> None:
        self._change(statement.function, statement.buffer, *statement.nodes)

    def exchange(self, statement: Exchange, depth: int) -> None:
        buffer, (index, value) = statement.buffer, statement.nodes
        encoding = buffer.encoding
        shift, word, mask = (Name(each, "u32") for each in ("packed_shift", "packed_word", "packed_mask"))
        lane = (index & fixed(encoding.lanes - 1)) * fixed(encoding.bits)
        self.say("{ let packed_shift = ", lane, "; ")
        self.say("let packed_word = ", index >> encoding.lanes.bit_length() - 1, "; ")
        self.say("let packed_mask = ", fixed((1 << encoding.bits) - 1) << shift, "; ")
        self.say("let bits = ", encoding.pack(value) << shift, "; ")
        if len(buffer.bindings) > 1:
            self.accessors[buffer, "exchange"] = None
            self.pieces.append(f"{buffer.name}_exchange(packed_word, packed_mask, bits); }}")
            return
        self.say("var seen = ", Word(buffer, word), "; loop { ")
        self.say(
            f"let swap = atomicCompareExchangeWeak(&{buffer.name}[packed_word], seen, (seen & ", ~mask, ") | bits); "
        )
        self.pieces.append("if (swap.exchanged) { break; } seen = swap.old_value; } }")

    def do(self, statement: Do, depth: int) -> None:
        self.say(statement.nodes[0], ";")

    def condition(self, statement: If, depth: int) -> None:
        if statement.nodes:
            self.say("if (", statement.nodes[0], ") ")
        self.braces(statement.blocks[0], depth)
        if len(statement.blocks) > 1:
            self.pieces.append(" else ")
            self.braces(statement.blocks[1], depth)

    def loop(self, statement: For, depth: int) -> None:
        *start, condition, target, amount = statement.nodes
        self.pieces.append("for (")
        if statement.variable is not None:
            self.say(f"var {statement.variable.text} = ", start[0])
        self.say("; ", condition, "; ", target, f" {statement.symbol} ", amount, ") ")
        self.braces(statement.blocks[0], depth)

    def repetition(self, statement: While, depth: int) -> None:
        self.say("while (", statement.nodes[0], ") ")
        self.braces(statement.blocks[0], depth)

    def exit(self, statement: Return, depth: int) -> None:
        self.say("return", *((" ", statement.nodes[0]) if statement.nodes else ()), ";")

    def interruption(self, statement: Break, depth: int) -> None:
        self.pieces.append("break;")

    def barrier(self, statement: Barrier, depth: int) -> None:
        self.pieces.append(f"{statement.memory}Barrier();")


class Helper(Name):
    """A variable of the helper library."""

    __slots__ = ()


#: how each kind of expression is spelled: ``spell(printer, node, level)``, in parentheses where it binds less tightly
NODES: dict[type[Node], Callable[[Printer, Any, int], None]] = {
    Name: Printer.name, Array: Printer.name, Helper: Printer.helper, Number: Printer.number, Literal: Printer.literal,
    Prefix: Printer.prefix, Operation: Printer.operation, Call: Printer.call, Member: Printer.member, Index: Printer.index,
    Load: Printer.load, LoadGroup: Printer.load_group, Word: Printer.word,
}  # fmt: skip
#: how each statement is spelled: ``spell(printer, statement, depth)``
STATEMENTS: dict[type[Statement], Callable[[Printer, Any, int], None]] = {
    Let: Printer.let, Var: Printer.var, Assign: Printer.assign, Store: Printer.store, StoreGroup: Printer.store_group,
    Atomic: Printer.atomic, Exchange: Printer.exchange, If: Printer.condition, For: Printer.loop, While: Printer.repetition,
    Return: Printer.exit, Break: Printer.interruption, Barrier: Printer.barrier, Do: Printer.do,
}  # fmt: skip


def _grouped(values: Sequence[Node], size: int) -> list[Sequence[Node]]:
    return [values[first : first + size] for first in range(0, len(values), size)]


def print_module(
    declared: Sequence[tuple[str, Buffer | int]],
    shared: Sequence[Array | Function],
    body: list[Statement],
    workgroup: int,
    capabilities: Capabilities,
) -> tuple[Piece, ...]:
    """Return the pieces of a module.

    ``declared`` lists in the order of their bindings the storage buffers, and uniform buffers as (name, vectors); ``shared``
    holds workgroup memory and functions.
    """
    layouts = survey([body, *(each.body for each in shared if isinstance(each, Function))])
    printer = Printer(layouts, capabilities)
    for each in shared:
        if isinstance(each, Array):
            printer.half |= each.type in _HALVES
            printer.pieces.append(f"var<workgroup> {each.text}: array<{each.type}, {each.size}>;\n")
            continue
        parameters = ", ".join(f"{name}: {kind}" for name, kind in each.parameters.items())
        printer.pieces.append(f"fn {each.name}({parameters}) " + (f"-> {each.result} " if each.result else ""))
        printer.braces(each.body, 0)
        printer.pieces.append("\n")
    entry = len(printer.pieces)
    printer.pieces.append("")
    printer.braces(body, 0)
    printer.pieces[entry] = (
        f"@compute @workgroup_size({workgroup}, 1, 1)\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, "
        f"@builtin(local_invocation_index) thread: u32{_SUBGROUP_THREAD if printer.subgroups else ''}) "
    )
    bindings = _declarations(declared, printer)
    functions = [_accessor(buffer, what, printer) for buffer, what in printer.accessors]
    facts = capabilities.facts
    better = {ROUNDING_HALF: facts.rounds_halves, NATIVE_FUSED: facts.fuses, NATIVE_PRODUCT: capabilities.int64}
    better |= dict.fromkeys(PACKED_HALVES, facts.packs_halves)
    helpers = prelude(printer.helpers, {each.name: each for each, known in better.items() if known})
    head = "enable f16;\n" if printer.half or printer.matrix else ""
    head += "enable subgroups;\n" if printer.subgroups and capabilities.enables_subgroups else ""
    head += MATRIX_HEAD if printer.matrix else ""
    printer.pieces.append("\n")
    return printer.joined(head + "\n".join([*bindings, helpers, *functions, ""]))


def _declarations(declared: Sequence[tuple[str, Buffer | int]], printer: Printer) -> list[str]:
    lines: list[str] = []
    for name, what in declared:
        if isinstance(what, int):
            lines.append(f"@group(0) @binding({len(lines)}) var<uniform> {name}: array<vec4<u32>, {what}>;")
            continue
        layout = printer.layouts.get(what) or Layout()
        word = layout.word(what)
        printer.half |= word in _HALVES
        kind = f"atomic<{word}>" if layout.atomic else word
        access = "read_write" if what.writes else "read"
        for part in range(len(what.bindings)):
            suffix = f"_{part}" if len(what.bindings) > 1 else ""
            lines.append(f"@group(0) @binding({len(lines)}) var<storage, {access}> {name}{suffix}: array<{kind}>;")
    return lines


def _accessor(buffer: Buffer, what: str, printer: Printer) -> str:
    """Return the function that finds an element's part of a long buffer and does something with it."""
    layout = printer.layouts[buffer]
    word = layout.word(buffer)
    length = part_bytes(printer.capabilities.binding_bytes) // type_bytes(word)
    form = {
        "load": "return atomicLoad(&{0});" if layout.atomic else "return {0};",
        "store": "{0} = v; return;",
        "exchange": "var seen = atomicLoad(&{0}); loop {{ let swap = atomicCompareExchangeWeak(&{0}, seen, (seen & ~m) | v); "
        "if (swap.exchanged) {{ return; }} seen = swap.old_value; }}",
    }.get(what, what + "(&{0}, v); return;")
    lines: list[str] = []
    for part in range(len(buffer.bindings)):
        test = f"if (i < {(part + 1) * length}u) " if part + 1 < len(buffer.bindings) else ""
        at = f"{buffer.name}_{part}[{f'i - {part * length}u' if part else 'i'}]"
        lines.append(f"{test}{{ {form.format(at)} }}")
    heads = {"load": f"(i: u32) -> {word}", "exchange": "(i: u32, m: u32, v: u32)"}
    head = heads.get(what, f"(i: u32, v: {word})")
    return f"fn {buffer.name}_{what}{head} {{ {' '.join(lines)} }}"
