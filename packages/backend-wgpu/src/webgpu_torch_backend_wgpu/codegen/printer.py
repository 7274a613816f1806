"""Expressions as WGSL statements, each node once, and the frame of a module: bindings, helpers, entry point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webgpu_torch_core.expression import Expression, topological

from ..functions import prelude
from ..program import Binding, Capabilities, Pass, part_bytes
from .cancelling import guarded
from .steps import convert, spell
from .types import ElementType, element_type, literal

#: helpers that need a WGSL extension the library's table cannot assume
_EXTRA_HELPERS = {
    # Normal results are rounded by adding to the bits; the conversion itself is then exact however it rounds.
    "wt_half": (
        "fn wt_half(x: f32) -> f16 {\n  let bits = bitcast<u32>(x);\n  let magnitude = bits & 0x7fffffffu;\n"
        "  if ((magnitude == 0u) | ((magnitude >= 0x38800000u) & (magnitude < 0x477fe000u))) {\n"
        "    return f16(bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u));\n  }\n"
        "  return f16(wt_f16_bits_to_f32(wt_f32_to_f16_bits(x)));\n}"
    ),
    "wt_maximum_number": "fn wt_maximum_number(x: f32, number: f32) -> f32 { return select(max(x, number), x, wt_isnan(x)); }",
    "wt_minimum_number": "fn wt_minimum_number(x: f32, number: f32) -> f32 { return select(min(x, number), x, wt_isnan(x)); }",
    "wt_f16_round": "fn wt_f16_round(x: f32) -> f32 { return wt_f16_bits_to_f32(wt_f32_to_f16_bits(x)); }",
    "wt_f32_to_i64": (
        "fn wt_f32_to_i64(x: f32) -> i64 {\n"
        "  let inside = (x >= -9223372036854775808.0f) & (x < 9223372036854775808.0f) & !wt_isnan(x);\n"
        "  return select(-9223372036854775807li - 1li, i64(select(0.0f, x, inside)), inside);\n}"
    ),
}

TYPE_NAMES = frozenset({"f16", "f32", "f64", "i32", "i64", "u32", "u64"})


class Module:
    """Collects one WGSL module."""

    def __init__(self, kernel: Any, capabilities: Capabilities) -> None:
        self.kernel = kernel
        self.capabilities = capabilities
        self.bindings: list[Binding] = []
        self.declarations: list[str] = []
        self.names: dict[tuple[str, int], str] = {}
        self.lines: list[str] = []
        self.counter = 0
        self.shared: list[str] = []
        self.long: list[str] = []
        # Reductions over single elements: their results equal elements.
        self.single = False

    def type(self, kind: Any) -> ElementType:
        """Return the row of an element type on this adapter."""
        return element_type(kind.name, self.capabilities)

    def fresh(self, prefix: str = "t") -> str:
        """Return a variable name used nowhere else in the module, nor a type's (``i32``)."""
        self.counter += 1
        while f"{prefix}{self.counter}" in TYPE_NAMES:
            self.counter += 1
        return f"{prefix}{self.counter}"

    def buffer(self, kind: str, index: int, word: str, writes: bool, atomic: bool = False) -> str:
        """Declare a storage buffer once and return its name."""
        found = self.names.get((kind, index))
        if found is None:
            found = f"{kind}{index}"
            self.names[(kind, index)] = found
            access = "read_write" if writes else "read"
            element = f"atomic<{word}>" if atomic else word
            parts = self._parts(kind, index)
            if parts > 1:
                if atomic:
                    raise NotImplementedError(
                        f"kernel '{self.kernel.name}' changes single bytes of a buffer longer than the "
                        f"{self.capabilities.binding_bytes} bytes this adapter binds at once"
                    )
                self._declare_parts(found, kind, index, word, writes, parts)
                return found
            self.declarations.append(
                f"@group(0) @binding({len(self.bindings)}) var<storage, {access}> {found}: array<{element}>;"
            )
            self.bindings.append(Binding(kind, index, writes))
        return found

    def _parts(self, kind: str, index: int) -> int:
        """Return in how many bindings a buffer is bound: one unless it is longer than the adapter allows."""
        if kind not in ("operand", "output"):
            return 1
        described = (self.kernel.operands if kind == "operand" else self.kernel.outputs)[index]
        nbytes = described.numel * described.dtype.itemsize
        if nbytes <= self.capabilities.binding_bytes:
            return 1
        return -(-nbytes // part_bytes(self.capabilities.binding_bytes))

    def _declare_parts(self, name: str, kind: str, index: int, word: str, writes: bool, parts: int) -> None:
        """Declare the bindings of a long buffer and the functions that find an element's part."""
        length = part_bytes(self.capabilities.binding_bytes) // word_bytes(word)
        reads, stores = [], []
        for part in range(parts):
            access = "read_write" if writes else "read"
            self.declarations.append(
                f"@group(0) @binding({len(self.bindings)}) var<storage, {access}> {name}_{part}: array<{word}>;"
            )
            self.bindings.append(Binding(kind, index, writes, part))
            test = f"if (i < {(part + 1) * length}u) " if part + 1 < parts else ""
            at = f"i - {part * length}u" if part else "i"
            reads.append(f"{test}{{ return {name}_{part}[{at}]; }}")
            stores.append(f"{test}{{ {name}_{part}[{at}] = v; return; }}")
        self.shared.append(f"fn {name}_at(i: u32) -> {word} {{ {' '.join(reads)} }}")
        if writes:
            self.shared.append(f"fn {name}_put(i: u32, v: {word}) {{ {' '.join(stores)} }}")
        self.long.append(name)

    def parameter(self, index: int, kind: Any) -> str:
        """Return the text that reads a run-time scalar."""
        if ("parameters", 0) not in self.names:
            self.names[("parameters", 0)] = "parameters"
            total = sum(2 if each.itemsize == 8 else 1 for each in self.kernel.parameters)
            vectors = -(-total // 64) * 16
            self.declarations.append(
                f"@group(0) @binding({len(self.bindings)}) var<uniform> parameters: array<vec4<u32>, {vectors}>;"
            )
            self.bindings.append(Binding("parameters", 0, False))
        word = sum(2 if each.itemsize == 8 else 1 for each in self.kernel.parameters[:index])

        def read(at: int) -> str:
            return f"parameters[{at // 4}u].{'xyzw'[at % 4]}"

        if kind.name == "int64":
            if self.capabilities.int64:
                # Some compilers extend the sign of an unsigned word.
                low = f"(i64({read(word)}) & 0xffffffffli)"
                return f"((i64(bitcast<i32>({read(word + 1)})) << 32u) | {low})"
            return f"vec2<u32>({read(word)}, {read(word + 1)})"
        if kind.name == "bool":
            return f"({read(word)} != 0u)"
        scalar = self.type(kind).scalar
        return read(word) if scalar == "u32" else f"bitcast<{scalar}>({read(word)})"

    def text(self, workgroup: tuple[int, int, int]) -> str:
        """Return the module's source."""
        body = "\n".join(f"  {line}" for line in self.lines)
        for name in self.long:
            body = through_functions(body, name)
        used = "\n".join((*self.declarations, *self.shared, body))
        main = (
            f"@compute @workgroup_size({workgroup[0]}, {workgroup[1]}, {workgroup[2]})\n"
            "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, "
            "@builtin(local_invocation_index) thread: u32) {\n" + body + "\n}\n"
        )
        helpers = _helpers(used, self.capabilities)
        # Whole words only: helpers of other types have "f16" inside their names.
        words = (
            (used + helpers).replace("(", " ").replace(")", " ").replace("<", " ").replace(">", " ").replace(",", " ")
        )
        head = "enable f16;\n" if self.capabilities.half and "f16" in words.split() else ""
        return "\n".join((head + "\n".join(self.declarations), helpers, *self.shared, main))

    def finish(self, workgroup: tuple[int, int, int], workgroups: tuple[int, int, int], suffix: str = "") -> Pass:
        """Return the pass."""
        return Pass(self.kernel.name + suffix, self.text(workgroup), workgroups, tuple(self.bindings))


def word_bytes(word: str) -> int:
    """Return the size of a buffer's array element."""
    scalars = {"f16": 2, "f32": 4, "i32": 4, "u32": 4, "i64": 8}
    if word.startswith("vec"):
        return int(word[3]) * scalars[word[5:-1]]
    return scalars[word]


def through_functions(text: str, name: str) -> str:
    """Return statements with ``name[index]`` read and written through the functions of a buffer bound in parts."""
    result = []
    position = 0
    while True:
        start = text.find(f"{name}[", position)
        if start < 0:
            return "".join((*result, text[position:]))
        stop, depth = start + len(name) + 1, 1
        while depth:
            depth += {"[": 1, "]": -1}.get(text[stop], 0)
            stop += 1
        index = text[start + len(name) + 1 : stop - 1]
        result.append(text[position:start])
        if text.startswith(" = ", stop):
            end = text.index(";", stop)
            result.append(f"{name}_put({index}, {text[stop + 3 : end]})")
            position = end
        else:
            result.append(f"{name}_at({index})")
            position = stop


def _words(text: str) -> set[str]:
    found = set()
    position = text.find("wt_")
    while position >= 0:
        end = position
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        found.add(text[position:end])
        position = text.find("wt_", end)
    return found


def _helpers(used: str, capabilities: Capabilities) -> str:
    names = _words(used)
    extra = {name: _EXTRA_HELPERS[name] for name in sorted(names) if name in _EXTRA_HELPERS}
    if "wt_half" in extra and capabilities.facts.rounds_halves:
        # WGSL leaves the rounding open; where the adapter's own is to nearest even, it serves.
        extra["wt_half"] = "fn wt_half(x: f32) -> f16 { return f16(x); }"
    for source in extra.values():
        names |= _words(source)
    names -= set(_EXTRA_HELPERS)
    return prelude(names) + "\n".join(extra.values())


class Printer:
    """Writes the statements of expressions into a module; leaves are spelled by the caller.

    ``leaf(node, argument)`` returns the text of a load, load_at (``argument`` is its index), coordinate, reduced or
    accumulator.
    """

    def __init__(
        self, module: Module, leaf: Callable[[Expression, str | None], str], lines: list[str] | None = None
    ) -> None:
        self.module = module
        self.leaf = leaf
        self.lines = module.lines if lines is None else lines
        self.names: dict[Expression, str] = {}

    def value(self, root: Expression) -> str:
        """Return the name or literal of an expression's value."""
        for node in topological(root):
            if node not in self.names:
                self.names[node] = self._node(node)
        return self.names[root]

    def _cast(self, node: Expression, value: str) -> str:
        operand, module = node.arguments[0], self.module
        source = (operand.dtype.name, module.type(operand.dtype).scalar)
        if source[1] == "f16" and operand.step not in ("load", "load_at", "parameter", "constant"):
            # Some compilers drop a conversion to f16 that is followed by one back.
            value, source = f"wt_half_rounded(f32({value}))", ("float32", "f32")
        return convert(value, source, (node.dtype.name, module.type(node.dtype).scalar))

    def _node(self, node: Expression) -> str:
        module, step = self.module, node.step
        if step == "constant":
            return literal(node.payload, module.type(node.dtype))
        arguments = [self.names[each] for each in node.arguments]
        if step == "parameter":
            text = module.parameter(node.payload, node.dtype)
        elif step == "cast":
            text = self._cast(node, f"({arguments[0]})")
        elif step == "load_at":
            text = self.leaf(node, _index(arguments[0], module.type(node.arguments[0].dtype).scalar))
        elif step in ("load", "coordinate", "reduced", "accumulator", "argument"):
            text = self.leaf(node, None)
        else:
            kind = node.arguments[1 if step == "select" else 0].dtype
            scalar = module.type(kind).scalar
            text = _special(node, arguments, module.single) if kind.name == "float32" else None
            text = text or _compared_with_itself(node, arguments, scalar) or spell(step, scalar, arguments)
        if text.isidentifier():
            return text
        name = module.fresh()
        self.lines.append(f"let {name} = {text};")
        return name


def _compared_with_itself(node: Expression, arguments: list[str], scalar: str) -> str | None:
    """Return the text of ``x != x`` and its like, which ask for NaN: drivers take them for decided, but not the test by bits."""
    if node.step not in ("equal", "not_equal", "less_equal") or node.arguments[0] is not node.arguments[1]:
        return None
    if not node.arguments[0].dtype.is_floating_point:
        return None
    return f"{'' if node.step == 'not_equal' else '!'}{spell('is_nan', scalar, arguments[:1])}"


def _special(node: Expression, arguments: list[str], single: bool) -> str | None:
    """Return the text of a float32 step that has another one than usual here.

    Arithmetic that could be cancelled is tested; an extremum with a number is shorter, as only one side can be NaN.
    """
    function = guarded(node, single)
    if function is not None:
        return f"{function}({', '.join(arguments)})"
    if node.step not in ("maximum", "minimum"):
        return None
    for place, each in enumerate(node.arguments):
        if each.step == "constant" and each.payload == each.payload:
            return f"wt_{node.step}_number({arguments[1 - place]}, {arguments[place]})"
    return None


def _index(text: str, scalar: str) -> str:
    """Return an index expression as u32."""
    if scalar == "vec2<u32>":
        return f"({text}).x"
    return f"u32({text})"


def load_element(module: Module, name: str, kind: ElementType, index: str, atomic: bool = False) -> str:
    """Return the text that reads one element of a scalar-typed buffer."""
    if kind.lanes == 1:
        return f"{name}[{index}]"
    shift = 2 if kind.lanes == 4 else 1
    word = f"{name}[({index}) >> {shift}u]"
    if atomic:
        word = f"atomicLoad(&{word})"
    return kind.unpack(word, f"(({index}) & {kind.lanes - 1}u)")


def store_element(lines: list[str], name: str, kind: ElementType, index: str, value: str) -> None:
    """Write the statements that store one element; packed types change only their own bits of a shared word."""
    if kind.lanes == 1:
        lines.append(f"{name}[{index}] = {value};")
        return
    shift = 2 if kind.lanes == 4 else 1
    mask = "0xffu" if kind.bits == 8 else "0xffffu"
    lines.append(
        f"{{ let at = {index}; let s = (at & {kind.lanes - 1}u) * {kind.bits}u; "
        f"atomicAnd(&{name}[at >> {shift}u], ~({mask} << s)); atomicOr(&{name}[at >> {shift}u], ({kind.pack(value)}) << s); }}"
    )


def linear_index(offset: int, strides: tuple[int, ...], coordinates: list[str]) -> str:
    """Return ``offset + sum(stride * coordinate)`` as u32 text; negative strides subtract."""
    parts = [f"{offset}u"] if offset or not any(strides) else []
    minus = []
    for stride, coordinate in zip(strides, coordinates, strict=False):
        if stride > 0:
            parts.append(coordinate if stride == 1 else f"{coordinate} * {stride}u")
        elif stride < 0:
            minus.append(coordinate if stride == -1 else f"{coordinate} * {-stride}u")
    text = " + ".join(parts) if parts else "0u"
    return text + "".join(f" - {each}" for each in minus)


def split_index(lines: list[str], module: Module, flat: str, sizes: tuple[int, ...]) -> list[str]:
    """Write the statements that turn a row-major index into coordinates; return their names."""
    if len(sizes) == 1:
        return [flat]
    names = [""] * len(sizes)
    rest = flat
    for dimension in range(len(sizes) - 1, 0, -1):
        name, quotient = module.fresh("c"), module.fresh("q")
        lines.append(f"let {quotient} = {rest} / {sizes[dimension]}u;")
        lines.append(f"let {name} = {rest} - {quotient} * {sizes[dimension]}u;")
        names[dimension] = name
        rest = quotient
    if sizes:
        names[0] = rest
    return names


def spread_workgroups(count: int, limit: int) -> tuple[int, int, int]:
    """Return workgroups in two dimensions for a count that may pass the limit of one."""
    if count <= limit:
        return max(count, 1), 1, 1
    rows = -(-count // limit)
    return -(-count // rows), rows, 1


#: the linear number of this workgroup, for one- and two-dimensional dispatches
LINEAR_GROUP = "group.x + group.y * groups.x"
