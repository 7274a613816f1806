"""The WGSL spelling of every primitive step: one table, by the operands' scalar type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from webgpu_torch_core.ir.expression import Expression

from ..functions.table import FUNCTIONS, printed_length
from ..program import Capabilities
from .ir import Call, Literal, Name, Node, Operation, bitcast, choose, convert_to, fixed, vector, zero
from .types import element_type

#: a row of the tables: an operator, a function's name, or what makes the node of the arguments
Spelling = str | Callable[..., Node]
_OPERATORS = frozenset({"+", "-", "*", "==", "!=", "<", "<=", "&", "|", "^"})


def _constant(value: bool) -> Spelling:
    return lambda *arguments: Literal(value, "bool")


def _same(value: Node) -> Node:
    return value


def _select(condition: Node, yes: Node, no: Node) -> Node:
    return choose(condition, yes, no)


def _negate(value: Node) -> Node:
    return -value


def _invert(value: Node) -> Node:
    return ~value


def _different(left: Node, right: Node) -> Node:
    # The negated test: right for NaN on drivers that take `!=` for an ordered comparison, too.
    return ~left.equals(right)


def _multiply_add(left: Node, right: Node, addend: Node) -> Node:
    return left * right + addend


#: steps that keep whole numbers as they are, and tests that these always fail
_WHOLE: dict[str, Spelling] = dict.fromkeys(("floor", "ceil", "truncate", "round"), _same)
_NUMBERS: dict[str, Spelling] = dict.fromkeys(("is_nan", "is_infinite"), _constant(False))
_COMMON: dict[str, Spelling] = {
    "add": "+", "subtract": "-", "multiply": "*", "negate": _negate, "equal": "==", "less": "<", "less_equal": "<=",
    "select": _select,
}  # fmt: skip
_BITS: dict[str, Spelling] = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_not": _invert}

FLOAT_STEPS: dict[str, Spelling] = _COMMON | {
    "divide": "wt_divide", "floor_divide": "wt_floor_divide", "truncate_divide": "wt_trunc_divide",
    "remainder": "wt_remainder", "fmod": "wt_fmod", "absolute": "wt_abs", "sign": "wt_sign", "minimum": "wt_minimum",
    "maximum": "wt_maximum", "fused_multiply_add": "wt_fused", "floor": "floor", "ceil": "ceil", "truncate": "wt_trunc",
    "round": "wt_round", "exp": "wt_exp", "exp2": "wt_exp2", "expm1": "wt_expm1", "log": "wt_log", "log2": "wt_log2",
    "log10": "wt_log10", "log1p": "wt_log1p", "sqrt": "wt_sqrt", "reciprocal_sqrt": "wt_rsqrt", "power": "wt_pow",
    "sin": "wt_sin", "cos": "wt_cos", "tan": "wt_tan", "asin": "wt_asin", "acos": "wt_acos", "atan": "wt_atan",
    "atan2": "wt_atan2", "sinh": "wt_sinh", "cosh": "wt_cosh", "tanh": "wt_tanh", "asinh": "wt_asinh", "acosh": "wt_acosh",
    "atanh": "wt_atanh", "hypot": "wt_hypot", "erf": "wt_erf", "erfc": "wt_erfc", "erfinv": "wt_erfinv",
    "lgamma": "wt_lgamma", "digamma": "wt_digamma", "copysign": "wt_copysign", "sign_bit": "wt_signbit",
    "is_nan": "wt_isnan", "is_infinite": "wt_isinf", "nextafter": "wt_nextafter", "not_equal": _different,
}  # fmt: skip


def _less_i64(left: Node, right: Node) -> Node:
    """Return ``left < right``; with a constant, which has no name, not by the operator (see the function)."""
    if isinstance(left, Name) and isinstance(right, Name):
        return left < right
    return Call("wt_less_i64", (left, right), "bool")


def _signed(kind: str) -> dict[str, Spelling]:
    """Return the steps of i32 or i64, whose helpers exist for both."""
    names = {"floor_divide": "floor_divide", "truncate_divide": "trunc_divide", "remainder": "remainder", "fmod": "fmod",
             "absolute": "abs", "sign": "sign", "power": "pow", "shift_left": "shift_left", "shift_right": "shift_right",
             "greatest_common_divisor": "gcd"}  # fmt: skip
    helpers: dict[str, Spelling] = {step: f"wt_{name}_{kind}" for step, name in names.items()}
    return helpers | _COMMON | _BITS | _WHOLE | _NUMBERS | {
        "minimum": "min", "maximum": "max", "fused_multiply_add": _multiply_add, "not_equal": "!=",
        "sign_bit": lambda value: value < fixed(0, kind),
    }  # fmt: skip


UNSIGNED_STEPS: dict[str, Spelling] = _signed("u32") | {
    "floor_divide": "wt_divide_u32", "truncate_divide": "wt_divide_u32", "fmod": "wt_remainder_u32",
    "absolute": _same, "sign_bit": _constant(False), "negate": lambda value: fixed(0) - value,
    "sign": lambda value: Call("min", (value, fixed(1)), "u32"),
}  # fmt: skip

LONG_STEPS: dict[str, Spelling] = _signed("i64") | {
    "less": _less_i64, "less_equal": lambda a, b: ~_less_i64(b, a), "sign_bit": lambda a: _less_i64(a, fixed(0, "i64")),
}  # fmt: skip

EMULATED_STEPS: dict[str, Spelling] = _BITS | _WHOLE | _NUMBERS | {
    "add": "wt_i64_add", "subtract": "wt_i64_sub", "multiply": "wt_i64_mul", "negate": "wt_i64_neg",
    "floor_divide": "wt_i64_floor_divide", "truncate_divide": "wt_i64_div", "remainder": "wt_i64_remainder",
    "fmod": "wt_i64_rem", "absolute": "wt_i64_abs", "sign": "wt_i64_sign", "minimum": "wt_i64_min", "maximum": "wt_i64_max",
    "fused_multiply_add": lambda a, b, c: Call("wt_i64_add", (Call("wt_i64_mul", (a, b), a.type), c), a.type),
    "power": "wt_i64_pow", "sign_bit": lambda value: (value.lane(1) >> 31).differs(fixed(0)), "equal": "wt_i64_eq",
    "not_equal": lambda a, b: ~Call("wt_i64_eq", (a, b), "bool"), "less": "wt_i64_lt", "less_equal": "wt_i64_le",
    "shift_left": lambda a, b: Call("wt_i64_shl", (a, b.lane(0)), a.type),
    "shift_right": lambda a, b: Call("wt_i64_shr", (a, b.lane(0)), a.type), "select": _select,
    "greatest_common_divisor": "wt_i64_gcd",
}  # fmt: skip

# Without short circuits: both sides are at hand, and drivers have lost results of nested ones.
BOOLEAN_STEPS: dict[str, Spelling] = _NUMBERS | {
    "equal": "==", "not_equal": "!=", "less": lambda a, b: ~a & b, "less_equal": lambda a, b: ~a | b, "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "!=", "power": lambda a, b: a | ~b, "bitwise_not": _invert, "minimum": "&", "maximum": "|", "select": _select,
    "sign_bit": _constant(False),
}  # fmt: skip


def _widened(function: str) -> Spelling:
    return lambda *values: convert_to("f16", Call(function, [convert_to("f32", each) for each in values], "f32"))


HALF_STEPS: dict[str, Spelling] = _COMMON | {
    "not_equal": _different, "minimum": _widened("wt_minimum"), "maximum": _widened("wt_maximum"),
    "is_nan": lambda value: Call("wt_isnan", (convert_to("f32", value),), "bool"),
}  # fmt: skip

TABLES = {
    "f32": FLOAT_STEPS, "f16": HALF_STEPS, "i32": _signed("i32"), "i64": LONG_STEPS, "u32": UNSIGNED_STEPS,
    "vec2<u32>": EMULATED_STEPS, "bool": BOOLEAN_STEPS,
}  # fmt: skip
_TESTS = frozenset({"equal", "not_equal", "less", "less_equal", "is_nan", "is_infinite", "sign_bit"})


def spell(step: str, scalar: str, arguments: Sequence[Node]) -> Node:
    """Return a step on operands of a scalar type.

    Raises:
        NotImplementedError: there is no spelling; the message names step and type.
    """
    found = TABLES[scalar].get(step)
    if found is None:
        raise NotImplementedError(f"the webgpu backend has no '{step}' for {scalar}")
    if not isinstance(found, str):
        return found(*arguments)
    if found in _OPERATORS:
        return Operation(found, *arguments)
    return Call(found, arguments, "bool" if step in _TESTS else scalar)


def step_length(step: str, scalar: str) -> int:
    """Return how many statements a step on operands of a scalar type becomes, the helpers that it calls written out."""
    found = "wt_threefry" if step == "threefry" else TABLES[scalar].get(step)
    return printed_length(found) if isinstance(found, str) and found in FUNCTIONS else 1


def length_of(nodes: Iterable[Expression], capabilities: Capabilities) -> int:
    """Return how many statements the steps of an expression's nodes become."""
    steps = [(node.step, node.arguments[-1].dtype.name) for node in nodes if node.arguments]
    return sum([step_length(step, element_type(kind, capabilities).scalar) for step, kind in steps])


def convert(value: Node, source: tuple[str, str], target: tuple[str, str]) -> Node:
    """Return the conversion of a value between element types, each given as (core name, WGSL scalar)."""
    (source_name, s), (target_name, t) = source, target
    if t == "bool":
        if s in ("f32", "f16"):
            return ~value.equals(Literal(0.0, s))
        if s == "vec2<u32>":
            return Call("any", (value.differs(zero(s)),), "bool")
        return value if s == "bool" else value.differs(fixed(0, s))
    if s == "bool":
        if t == "vec2<u32>":
            return choose(value, vector("u32", (fixed(1), fixed(0))), zero(t))
        return choose(value, _one(t, 1), _one(t, 0))
    return _narrow(_to_scalar(value, s, t), source_name, target_name, t)


def _one(scalar: str, value: int) -> Node:
    if scalar in ("f32", "f16"):
        return Literal(float(value), scalar)
    return fixed(value, scalar)


def _call(function: str, kind: str) -> Callable[[Node], Node]:
    return lambda value: Call(function, (value,), kind)


_CONVERSIONS: dict[tuple[str, str], Callable[[Node], Node]] = {
    ("f32", "i32"): _call("wt_f32_to_i32", "i32"), ("f32", "u32"): _call("wt_f32_to_u32", "u32"),
    ("f32", "i64"): _call("wt_f32_to_i64", "i64"), ("f32", "vec2<u32>"): _call("wt_i64_from_f32", "vec2<u32>"),
    ("vec2<u32>", "f32"): _call("wt_i64_to_f32", "f32"), ("vec2<u32>", "i32"): _call("wt_i64_to_i32", "i32"),
    ("vec2<u32>", "u32"): lambda value: value.lane(0), ("i32", "vec2<u32>"): _call("wt_i64_from_i32", "vec2<u32>"),
    ("u32", "vec2<u32>"): _call("wt_i64_from_u32", "vec2<u32>"), ("u32", "i64"): lambda value: widen_word(value),
    ("i32", "u32"): lambda value: bitcast("u32", value), ("u32", "i32"): lambda value: bitcast("i32", value),
}  # fmt: skip


def widen_word(value: Node) -> Node:
    """Return a u32 as i64; some compilers extend the sign of an unsigned word."""
    return convert_to("i64", value) & fixed(0xFFFFFFFF, "i64")


def _to_scalar(value: Node, s: str, t: str) -> Node:
    if s == t:
        return value
    if s == "f16":
        return _to_scalar(convert_to("f32", value), "f32", t)
    if t == "f16":
        return Call("wt_half", (_to_scalar(value, s, "f32"),), t)
    conversion = _CONVERSIONS.get((s, t))
    return conversion(value) if conversion is not None else convert_to(t, value)


def _narrow(value: Node, source: str, target: str, scalar: str) -> Node:
    """Wrap or round to a type narrower than the scalar that holds it."""
    if source == target:
        return value
    if target in ("int8", "int16"):
        return Call("extractBits", (value, fixed(0), fixed(8 if target == "int8" else 16)), "i32")
    if target == "uint8":
        return value & fixed(0xFF, "i32")
    if target == "uint16":
        return value & fixed(0xFFFF, "i32")
    if target == "bfloat16":
        return Call("wt_bf16_round", (value,), "f32")
    if target == "float16" and scalar == "f32":
        return Call("wt_f16_round", (value,), "f32")
    return value
