"""The WGSL spelling of every primitive step: one table, by the operands' scalar type."""

from __future__ import annotations

#: ``{T}`` is the suffix of the integer helpers. A row without a type applies to all.
FLOAT_STEPS = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "wt_divide({0}, {1})", "negate": "-({0})",
    "floor_divide": "wt_floor_divide({0}, {1})", "truncate_divide": "wt_trunc_divide({0}, {1})",
    "remainder": "wt_remainder({0}, {1})", "fmod": "wt_fmod({0}, {1})", "absolute": "wt_abs({0})", "sign": "wt_sign({0})",
    "minimum": "wt_minimum({0}, {1})", "maximum": "wt_maximum({0}, {1})", "fused_multiply_add": "wt_fused({0}, {1}, {2})",
    "floor": "floor({0})", "ceil": "ceil({0})", "truncate": "wt_trunc({0})", "round": "wt_round({0})", "exp": "wt_exp({0})",
    "exp2": "wt_exp2({0})", "expm1": "wt_expm1({0})", "log": "wt_log({0})", "log2": "wt_log2({0})", "log10": "wt_log10({0})",
    "log1p": "wt_log1p({0})", "sqrt": "wt_sqrt({0})", "reciprocal_sqrt": "wt_rsqrt({0})", "power": "wt_pow({0}, {1})",
    "sin": "wt_sin({0})", "cos": "wt_cos({0})", "tan": "wt_tan({0})", "asin": "wt_asin({0})", "acos": "wt_acos({0})",
    "atan": "wt_atan({0})", "atan2": "wt_atan2({0}, {1})", "sinh": "wt_sinh({0})", "cosh": "wt_cosh({0})", "tanh": "wt_tanh({0})",
    "asinh": "wt_asinh({0})", "acosh": "wt_acosh({0})", "atanh": "wt_atanh({0})", "hypot": "wt_hypot({0}, {1})",
    "erf": "wt_erf({0})", "erfc": "wt_erfc({0})", "erfinv": "wt_erfinv({0})", "lgamma": "wt_lgamma({0})",
    "digamma": "wt_digamma({0})", "copysign": "wt_copysign({0}, {1})", "sign_bit": "wt_signbit({0})", "is_nan": "wt_isnan({0})",
    "is_infinite": "wt_isinf({0})", "nextafter": "wt_nextafter({0}, {1})", "equal": "{0} == {1}",
    "not_equal": "!({0} == {1})", "less": "{0} < {1}", "less_equal": "{0} <= {1}", "select": "select({2}, {1}, {0})",
}  # fmt: skip

INTEGER_STEPS = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negate": "-({0})",
    "floor_divide": "wt_floor_divide_{T}({0}, {1})", "truncate_divide": "wt_trunc_divide_{T}({0}, {1})",
    "remainder": "wt_remainder_{T}({0}, {1})", "fmod": "wt_fmod_{T}({0}, {1})", "absolute": "wt_abs_{T}({0})",
    "sign": "wt_sign_{T}({0})", "minimum": "min({0}, {1})", "maximum": "max({0}, {1})", "fused_multiply_add": "{0} * {1} + {2}",
    "floor": "{0}", "ceil": "{0}", "truncate": "{0}", "round": "{0}", "power": "wt_pow_{T}({0}, {1})",
    "sign_bit": "{0} < {Z}", "is_nan": "false", "is_infinite": "false", "equal": "{0} == {1}", "not_equal": "{0} != {1}",
    "less": "{0} < {1}", "less_equal": "{0} <= {1}", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}", "bitwise_not": "~{0}", "shift_left": "wt_shift_left_{T}({0}, {1})",
    "shift_right": "wt_shift_right_{T}({0}, {1})", "select": "select({2}, {1}, {0})",
    "greatest_common_divisor": "wt_gcd_{T}({0}, {1})",
}  # fmt: skip

UNSIGNED_STEPS = INTEGER_STEPS | {
    "floor_divide": "wt_divide_u32({0}, {1})", "truncate_divide": "wt_divide_u32({0}, {1})",
    "remainder": "wt_remainder_u32({0}, {1})", "fmod": "wt_remainder_u32({0}, {1})", "absolute": "{0}",
    "power": "wt_pow_u32({0}, {1})", "sign_bit": "false", "sign": "min({0}, 1u)", "negate": "(0u - {0})",
}  # fmt: skip

EMULATED_STEPS = {
    "add": "wt_i64_add({0}, {1})", "subtract": "wt_i64_sub({0}, {1})", "multiply": "wt_i64_mul({0}, {1})",
    "negate": "wt_i64_neg({0})", "floor_divide": "wt_i64_floor_divide({0}, {1})", "truncate_divide": "wt_i64_div({0}, {1})",
    "remainder": "wt_i64_remainder({0}, {1})", "fmod": "wt_i64_rem({0}, {1})", "absolute": "wt_i64_abs({0})",
    "sign": "wt_i64_sign({0})", "minimum": "wt_i64_min({0}, {1})", "maximum": "wt_i64_max({0}, {1})",
    "fused_multiply_add": "wt_i64_add(wt_i64_mul({0}, {1}), {2})", "floor": "{0}", "ceil": "{0}", "truncate": "{0}", "round": "{0}",
    "power": "wt_i64_pow({0}, {1})", "sign_bit": "(({0}).y >> 31u) != 0u", "is_nan": "false", "is_infinite": "false",
    "equal": "wt_i64_eq({0}, {1})", "not_equal": "!wt_i64_eq({0}, {1})", "less": "wt_i64_lt({0}, {1})",
    "less_equal": "wt_i64_le({0}, {1})", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
    "bitwise_not": "~{0}", "shift_left": "wt_i64_shl({0}, ({1}).x)", "shift_right": "wt_i64_shr({0}, ({1}).x)",
    "select": "select({2}, {1}, {0})", "greatest_common_divisor": "wt_i64_gcd({0}, {1})",
}  # fmt: skip

# Without short circuits: both sides are at hand, and drivers have lost results of nested ones.
BOOLEAN_STEPS = {
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "(!({0}) & ({1}))", "less_equal": "(!({0}) | ({1}))",
    "bitwise_and": "(({0}) & ({1}))", "bitwise_or": "(({0}) | ({1}))", "bitwise_xor": "({0} != {1})", "bitwise_not": "!({0})",
    "minimum": "(({0}) & ({1}))", "maximum": "(({0}) | ({1}))", "select": "select({2}, {1}, {0})", "is_nan": "false",
    "is_infinite": "false", "sign_bit": "false",
}  # fmt: skip

HALF_STEPS = {
    "select": "select({2}, {1}, {0})", "equal": "{0} == {1}", "not_equal": "!({0} == {1})", "less": "{0} < {1}",
    "less_equal": "{0} <= {1}", "minimum": "f16(wt_minimum(f32({0}), f32({1})))", "maximum": "f16(wt_maximum(f32({0}), f32({1})))",
    "is_nan": "wt_isnan(f32({0}))", "add": "{0} + {1}", "multiply": "{0} * {1}", "subtract": "{0} - {1}", "negate": "-({0})",
}  # fmt: skip

TABLES = {
    "f32": FLOAT_STEPS, "f16": HALF_STEPS, "i32": INTEGER_STEPS, "i64": INTEGER_STEPS, "u32": UNSIGNED_STEPS,
    "vec2<u32>": EMULATED_STEPS, "bool": BOOLEAN_STEPS,
}  # fmt: skip

_ZERO = {"i32": "0i", "i64": "0li", "u32": "0u"}


def spell(step: str, scalar: str, arguments: list[str]) -> str:
    """Return the WGSL text of a step on operands of a scalar type.

    Raises:
        NotImplementedError: there is no spelling; the message names step and type.
    """
    if step == "philox":
        *words, which = arguments
        return f"wt_philox(vec4<u32>({', '.join(words[:4])}), vec2<u32>({words[4]}, {words[5]}))[{which}]"
    template = TABLES[scalar].get(step)
    if template is None:
        raise NotImplementedError(f"the webgpu backend has no '{step}' for {scalar}")
    return template.format(*arguments, T=scalar, Z=_ZERO.get(scalar, ""))


def convert(value: str, source: tuple[str, str], target: tuple[str, str]) -> str:
    """Return the conversion of a value between element types, each given as (core name, WGSL scalar)."""
    (source_name, s), (target_name, t) = source, target
    if t == "bool":
        return {
            "f32": f"!({value} == 0.0f)",
            "f16": f"!({value} == 0.0h)",
            "vec2<u32>": f"any({value} != vec2<u32>())",
        }.get(s, f"{value} != {s}(0)" if s != "bool" else value)
    if s == "bool":
        ones = {"vec2<u32>": ("vec2<u32>(1u, 0u)", "vec2<u32>()")}.get(t, (f"{t}(1)", f"{t}(0)"))
        return f"select({ones[1]}, {ones[0]}, {value})"
    number = _to_scalar(value, s, t)
    return _narrow(number, source_name, target_name, t)


def _to_scalar(value: str, s: str, t: str) -> str:
    if s == t:
        return value
    if s == "f16":
        return _to_scalar(f"f32({value})", "f32", t) if t != "f32" else f"f32({value})"
    if t == "f16":
        return f"wt_half({_to_scalar(value, s, 'f32')})"
    table = {
        ("f32", "i32"): "wt_f32_to_i32({0})", ("f32", "u32"): "wt_f32_to_u32({0})", ("f32", "i64"): "wt_f32_to_i64({0})",
        ("f32", "vec2<u32>"): "wt_i64_from_f32({0})", ("vec2<u32>", "f32"): "wt_i64_to_f32({0})",
        ("vec2<u32>", "i32"): "wt_i64_to_i32({0})", ("vec2<u32>", "u32"): "({0}).x", ("i32", "vec2<u32>"): "wt_i64_from_i32({0})",
        ("u32", "vec2<u32>"): "wt_i64_from_u32({0})",
        # Some compilers extend the sign of an unsigned word.
        ("u32", "i64"): "(i64({0}) & 0xffffffffli)", ("i32", "u32"): "bitcast<u32>({0})", ("u32", "i32"): "bitcast<i32>({0})",
    }  # fmt: skip
    return table.get((s, t), t + "({0})").format(value)


def _narrow(value: str, source: str, target: str, scalar: str) -> str:
    """Wrap or round to a type narrower than the scalar that holds it."""
    if source == target:
        return value
    if target in ("int8", "int16"):
        return f"extractBits({value}, 0u, {8 if target == 'int8' else 16}u)"
    if target == "uint8":
        return f"({value} & 0xffi)"
    if target == "bfloat16":
        return f"wt_bf16_round({value})"
    if target == "float16" and scalar == "f32":
        return f"wt_f16_round({value})"
    return value
