"""Integer arithmetic with PyTorch's results: signed division, shifts, powers, divisors; and random words.

The signed functions exist for i32 and, where the adapter has ``shader-int64``, for i64: ``wt_remainder_i32``,
``wt_remainder_i64``. Division by zero, an error in PyTorch, is defined here as quotient = numerator = remainder.
WGSL's ``%`` is not used on signed values: some drivers compute it wrongly for negative ones. Nor is ``<`` between an i64 and a
constant: Mesa compares a widened i32 wrongly with one.
"""

from __future__ import annotations

from webgpu_torch_core.ir.threefry import INJECTION, PARITY, ROTATIONS, ROUNDS

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


def _threefry_rounds() -> str:
    """Return WGSL text of Threefry's rounds, with the key added after every few."""
    keys, text = ("key.x", "key.y", "key.z", "key.w", "last"), ""
    for number in range(ROUNDS):
        first, second = ROTATIONS[number % len(ROTATIONS)]
        text += f"  state = wt_threefry_round(state, vec2<u32>({first}u, {second}u));\n"
        if (number + 1) % INJECTION == 0:
            times = (number + 1) // INJECTION
            added = ", ".join(keys[(times + each) % len(keys)] for each in range(4))
            text += f"  state += vec4<u32>({added} + {times}u);\n"
    return text.rstrip()


define("""
// One round of Threefry4x32: two mixes. The words that they rotate change places, as the next round wants them.
fn wt_threefry_round(state: vec4<u32>, bits: vec2<u32>) -> vec4<u32> {
  let sums = state.xz + state.yw;
  let mixed = ((state.yw << bits) | (state.yw >> (vec2<u32>(32u) - bits))) ^ sums;
  return vec4<u32>(sums.x, mixed.y, sums.y, mixed.x);
}
""")
define(
    """
// Threefry4x32-13: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
fn wt_threefry(counter: vec4<u32>, key: vec4<u32>) -> vec4<u32> {
  let last = ${PARITY}u ^ key.x ^ key.y ^ key.z ^ key.w;
  var state = counter + key;
$ROUNDS
  return state.xwzy;
}
""",
    PARITY=hex(PARITY),
    ROUNDS=_threefry_rounds(),
)
