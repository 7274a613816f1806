"""64-bit integers as ``vec2<u32>``, low word first, for adapters without ``shader-int64``.

Results wrap as in two's complement. Shift counts of 64 or more shift everything out. Division by zero, an error in
PyTorch, is defined as quotient = numerator = remainder.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define

define("fn wt_i64_from_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }")
define("fn wt_i64_from_u32(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }")
define("fn wt_i64_to_i32(a: vec2<u32>) -> i32 { return bitcast<i32>(a.x); }")
define("fn wt_i64_and(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a & b; }")
define("fn wt_i64_or(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a | b; }")
define("fn wt_i64_xor(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a ^ b; }")
define("fn wt_i64_not(a: vec2<u32>) -> vec2<u32> { return ~a; }")
define("fn wt_i64_eq(a: vec2<u32>, b: vec2<u32>) -> bool { return (a.x == b.x) & (a.y == b.y); }")
define("fn wt_i64_ult(a: vec2<u32>, b: vec2<u32>) -> bool { return (a.y < b.y) | ((a.y == b.y) & (a.x < b.x)); }")
define("""
fn wt_i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
  return (bitcast<i32>(a.y) < bitcast<i32>(b.y)) | ((a.y == b.y) & (a.x < b.x));
}
""")
define("fn wt_i64_le(a: vec2<u32>, b: vec2<u32>) -> bool { return !wt_i64_lt(b, a); }")
define("fn wt_i64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(b, a, wt_i64_lt(a, b)); }")
define("fn wt_i64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, wt_i64_lt(a, b)); }")
define("""
fn wt_i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
""")
define("fn wt_i64_neg(a: vec2<u32>) -> vec2<u32> { return wt_i64_add(~a, vec2<u32>(1u, 0u)); }")
define("""
fn wt_i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
""")
define("""
fn wt_i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = wt_multiply_wide(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}
""")
define("fn wt_i64_abs(a: vec2<u32>) -> vec2<u32> { return select(a, wt_i64_neg(a), (a.y >> 31u) != 0u); }")
define("""
fn wt_i64_sign(a: vec2<u32>) -> vec2<u32> {
  if ((a.y >> 31u) != 0u) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  return vec2<u32>(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}
""")
define("""
fn wt_i64_shl(a: vec2<u32>, count: u32) -> vec2<u32> {
  if (count >= 64u) { return vec2<u32>(0u, 0u); }
  if (count >= 32u) { return vec2<u32>(0u, a.x << (count & 31u)); }
  if (count == 0u) { return a; }
  return vec2<u32>(a.x << count, (a.y << count) | (a.x >> (32u - count)));
}
""")
define("""
fn wt_i64_shr(a: vec2<u32>, count: u32) -> vec2<u32> {
  let fill = bitcast<u32>(bitcast<i32>(a.y) >> 31u);
  if (count >= 64u) { return vec2<u32>(fill, fill); }
  let high = bitcast<u32>(bitcast<i32>(a.y) >> (count & 31u));
  if (count >= 32u) { return vec2<u32>(high, fill); }
  if (count == 0u) { return a; }
  return vec2<u32>((a.x >> count) | (a.y << (32u - count)), high);
}
""")
define("""
// (quotient, remainder) of unsigned values; b is not zero.
fn wt_i64_divide_unsigned(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if ((a.y | b.y) == 0u) {
    let small = a.x / b.x;
    return vec4<u32>(small, 0u, a.x - small * b.x, 0u);
  }
  var quotient = a;
  var rest = vec2<u32>(0u, 0u);
  for (var step = 0u; step < 64u; step++) {
    // The bit shifted out of the rest counts: the rest may reach 2^64 before the subtraction.
    let carry = (rest.y >> 31u) != 0u;
    rest = vec2<u32>((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
    quotient = vec2<u32>(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
    if (carry || !wt_i64_ult(rest, b)) {
      rest = wt_i64_sub(rest, b);
      quotient.x |= 1u;
    }
  }
  return vec4<u32>(quotient, rest);
}
""")
define("""
// Truncated quotient and its remainder, which has the sign of a.
fn wt_i64_divide(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if ((b.x | b.y) == 0u) { return vec4<u32>(a, a); }
  let parts = wt_i64_divide_unsigned(wt_i64_abs(a), wt_i64_abs(b));
  let quotient = select(parts.xy, wt_i64_neg(parts.xy), ((a.y ^ b.y) >> 31u) != 0u);
  return vec4<u32>(quotient, select(parts.zw, wt_i64_neg(parts.zw), (a.y >> 31u) != 0u));
}
""")
define("fn wt_i64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return wt_i64_divide(a, b).xy; }")
define("fn wt_i64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return wt_i64_divide(a, b).zw; }")
define("""
// Euclid's algorithm on magnitudes.
fn wt_i64_gcd(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
  var a = wt_i64_abs(x);
  var b = wt_i64_abs(y);
  while ((b.x | b.y) != 0u) {
    let rest = wt_i64_divide_unsigned(a, b).zw;
    a = b;
    b = rest;
  }
  return a;
}
""")
define("""
// Whether a non-zero remainder must move to the divisor's sign.
fn wt_i64_crosses(rest: vec2<u32>, b: vec2<u32>) -> bool {
  return ((rest.x | rest.y) != 0u) & ((b.x | b.y) != 0u) & (((rest.y ^ b.y) >> 31u) != 0u);
}
""")
define("""
fn wt_i64_remainder(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let rest = wt_i64_divide(a, b).zw;
  return select(rest, wt_i64_add(rest, b), wt_i64_crosses(rest, b));
}
""")
define("""
fn wt_i64_floor_divide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let parts = wt_i64_divide(a, b);
  return select(parts.xy, wt_i64_sub(parts.xy, vec2<u32>(1u, 0u)), wt_i64_crosses(parts.zw, b));
}
""")
define("""
// Wrapping power by squaring; for a negative exponent the truncated inverse: 1, -1 or 0.
fn wt_i64_pow(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let one = vec2<u32>(1u, 0u);
  if ((b.y >> 31u) != 0u) {
    if (wt_i64_eq(a, one)) { return one; }
    if ((a.x & a.y) == 0xffffffffu) { return select(one, a, (b.x & 1u) != 0u); }
    return vec2<u32>(0u, 0u);
  }
  var result = one;
  var factor = a;
  var left = b;
  while ((left.x | left.y) != 0u) {
    if ((left.x & 1u) != 0u) { result = wt_i64_mul(result, factor); }
    factor = wt_i64_mul(factor, factor);
    left = wt_i64_shr(left, 1u);
  }
  return result;
}
""")
define("""
// Round to nearest even: the top 24 bits are rounded by hand, since u32 to f32 may round in any way.
fn wt_i64_to_f32(a: vec2<u32>) -> f32 {
  let magnitude = wt_i64_abs(a);
  if ((magnitude.x | magnitude.y) == 0u) { return 0.0; }
  let zeros = select(countLeadingZeros(magnitude.y), 32u + countLeadingZeros(magnitude.x), magnitude.y == 0u);
  let shifted = wt_i64_shl(magnitude, zeros);
  let tail = (shifted.y & 0xffu) | select(0u, 0x100u, shifted.x != 0u);
  var head = shifted.y >> 8u;
  let up = ((tail & 0x80u) != 0u) & (((tail & 0x17fu) != 0u) | ((head & 1u) == 1u));
  head += select(0u, 1u, up);
  let value = f32(head) * bitcast<f32>((167u - zeros) << 23u);
  return select(value, -value, (a.y >> 31u) != 0u);
}
""")
define("""
// Towards zero; NaN and values out of range give the lowest int64, as x86's cvttss2si and so PyTorch on CPU.
fn wt_i64_from_f32(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits < 0x3f800000u) { return vec2<u32>(0u, 0u); }
  if (bits >= 0x5f000000u) { return vec2<u32>(0u, 0x80000000u); }
  let significand = (bits & 0x7fffffu) | 0x800000u;
  let exponent = bits >> 23u;
  var value = vec2<u32>(0u, 0u);
  if (exponent < 150u) {
    value.x = significand >> (150u - exponent);
  } else {
    value = wt_i64_shl(vec2<u32>(significand, 0u), exponent - 150u);
  }
  return select(value, wt_i64_neg(value), (bitcast<u32>(x) >> 31u) != 0u);
}
""")
