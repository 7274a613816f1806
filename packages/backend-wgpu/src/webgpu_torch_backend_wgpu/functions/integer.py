"""Integer arithmetic with PyTorch's results: signed division, shifts, powers, divisors; and random words.

The signed functions exist for i32 and, where the adapter has ``shader-int64``, for i64: ``wt_remainder_i32``,
``wt_remainder_i64``. Division by zero, an error in PyTorch, is defined here as quotient = numerator = remainder.
WGSL's ``%`` is not used on signed values: some drivers compute it wrongly for negative ones. Nor is ``<`` between an i64 and a
constant: Mesa compares a widened i32 wrongly with one.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define

_SIGNED = (
    """
fn wt_trunc_divide_$T(x: $T, y: $T) -> $T {
  let lowest = -$LARGEST - $ONE;
  let safe = (y != $ZERO) & !((x == lowest) & (y == -$ONE));
  return x / select($ONE, y, safe);
}
""",
    "fn wt_fmod_$T(x: $T, y: $T) -> $T { return select(x - wt_trunc_divide_$T(x, y) * y, $ZERO, y == -$ONE); }",
    """
// Python's remainder: the sign of the divisor.
fn wt_remainder_$T(x: $T, y: $T) -> $T {
  let rest = wt_fmod_$T(x, y);
  return select(rest, rest + y, (rest != $ZERO) & (((rest ^ y) >> $SIGN) != $ZERO) & (y != $ZERO));
}
""",
    """
fn wt_floor_divide_$T(x: $T, y: $T) -> $T {
  let quotient = wt_trunc_divide_$T(x, y);
  let rest = wt_fmod_$T(x, y);
  return select(quotient, quotient - $ONE, (rest != $ZERO) & (((rest ^ y) >> $SIGN) != $ZERO) & (y != $ZERO));
}
""",
    """
// Counts of the width or more, and negative ones, shift everything out: they have other bits than the lowest.
fn wt_shift_left_$T(x: $T, count: $T) -> $T {
  let inside = (count & ~$TOP) == $ZERO;
  return select($ZERO, x << u32(select($ZERO, count, inside)), inside);
}
""",
    """
fn wt_shift_right_$T(x: $T, count: $T) -> $T {
  let inside = (count & ~$TOP) == $ZERO;
  return x >> u32(select($TOP, count, inside));
}
""",
    """
// Wrapping power by squaring; for a negative exponent the truncated inverse: 1, -1 or 0.
fn wt_pow_$T(x: $T, y: $T) -> $T {
  if ((y >> $SIGN) != $ZERO) {
    if (x == $ONE) { return $ONE; }
    if (x == -$ONE) { return select($ONE, -$ONE, (y & $ONE) != $ZERO); }
    return $ZERO;
  }
  var result = $ONE;
  var factor = x;
  var left = y;
  while (left != $ZERO) {
    if ((left & $ONE) != $ZERO) { result = result * factor; }
    factor = factor * factor;
    left = left >> 1u;
  }
  return result;
}
""",
    """
// By the sign's bits: some drivers take a selection for their own 64-bit abs or sign, which fails on a widened i32.
fn wt_abs_$T(x: $T) -> $T {
  let sign = x >> $SIGN;
  return (x ^ sign) - sign;
}
""",
    "fn wt_sign_$T(x: $T) -> $T { return (x >> $SIGN) | select($ZERO, $ONE, x != $ZERO); }",
    """
fn wt_gcd_$T(x: $T, y: $T) -> $T {
  var a = x;
  var b = y;
  while (b != $ZERO) {
    let rest = wt_fmod_$T(a, b);
    a = b;
    b = rest;
  }
  return wt_abs_$T(a);
}
""",
    """
fn wt_lcm_$T(x: $T, y: $T) -> $T {
  let divisor = wt_gcd_$T(x, y);
  return wt_abs_$T(wt_trunc_divide_$T(x, select($ONE, divisor, divisor != $ZERO)) * y);
}
""",
)

for _type, _suffix, _top in (("i32", "i", 31), ("i64", "li", 63)):
    for _source in _SIGNED:
        define(
            _source,
            TOP=f"{_top}{_suffix}",
            SIGN=f"{_top}u",
            LARGEST=f"{2**_top - 1}{_suffix}",
            ZERO="0" + _suffix,
            ONE="1" + _suffix,
            T=_type,
        )

define("""
fn wt_less_i64(a: i64, b: i64) -> bool {
  let above = i32(a >> 32u);
  let below = i32(b >> 32u);
  return (above < below) | ((above == below) & (u32(a & 0xffffffffli) < u32(b & 0xffffffffli)));
}
""")
define("fn wt_divide_u32(x: u32, y: u32) -> u32 { return x / select(1u, y, y != 0u); }")
define("fn wt_remainder_u32(x: u32, y: u32) -> u32 { return x - wt_divide_u32(x, y) * y; }")
define("fn wt_shift_left_u32(x: u32, n: u32) -> u32 { return select(0u, x << (n & 31u), n < 32u); }")
define("fn wt_shift_right_u32(x: u32, n: u32) -> u32 { return select(0u, x >> (n & 31u), n < 32u); }")
define("""
fn wt_pow_u32(x: u32, y: u32) -> u32 {
  var result = 1u;
  var factor = x;
  var left = y;
  while (left > 0u) {
    if ((left & 1u) != 0u) { result = result * factor; }
    factor = factor * factor;
    left = left >> 1u;
  }
  return result;
}
""")

define("""
// Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
fn wt_philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var state = counter;
  var round_key = key;
  for (var step = 0u; step < 10u; step++) {
    let a = wt_multiply_wide(0xd2511f53u, state.x);
    let b = wt_multiply_wide(0xcd9e8d57u, state.z);
    state = vec4<u32>(b.y ^ state.y ^ round_key.x, b.x, a.y ^ state.w ^ round_key.y, a.x);
    round_key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return state;
}
""")
define("fn wt_uniform(word: u32) -> f32 { return f32(word >> 8u) * 5.9604644775390625e-8; }")
