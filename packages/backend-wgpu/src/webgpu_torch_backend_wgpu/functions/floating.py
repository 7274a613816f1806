"""Bit tests, minimum and maximum, division and remainders, and the parts of a float."""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define, described

# Neither compiler evaluates a private variable at compile time, so that infinity and NaN built from it are no
# constant expressions (which WGSL refuses).
define("var<private> wt_zero: u32 = 0u;")
define("fn wt_inf() -> f32 { return bitcast<f32>(wt_zero | 0x7f800000u); }")
define("fn wt_nan() -> f32 { return bitcast<f32>(wt_zero | 0x7fc00000u); }")

define("fn wt_isnan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }")
define("fn wt_isinf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }")
define("fn wt_isfinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }")
define("fn wt_signbit(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) != 0u; }")
define("fn wt_abs(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu); }")
define("""
fn wt_copysign(x: f32, y: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
""")
define("""
// By bits: some drivers turn comparisons with zero into their own sign instruction, which gives -0 for 0.
fn wt_sign(x: f32) -> f32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  let one = (bitcast<u32>(x) & 0x80000000u) | 0x3f800000u;
  return bitcast<f32>(select(one, 0u, (magnitude == 0u) | (magnitude > 0x7f800000u)));
}
""")

# PyTorch's maximum, minimum, clamp, relu and amax pass NaN on; fmax and fmin drop it; WGSL's max and min may do either.
# Both arguments are tested: NVIDIA's compiler may turn ``a > b`` into ``!(a <= b)``, which holds for NaN.
define("fn wt_maximum(a: f32, b: f32) -> f32 { return select(b, a, ((a > b) & !wt_isnan(b)) | wt_isnan(a)); }")
define("fn wt_minimum(a: f32, b: f32) -> f32 { return select(b, a, ((a < b) & !wt_isnan(b)) | wt_isnan(a)); }")
define("fn wt_fmax(a: f32, b: f32) -> f32 { return select(b, a, ((a > b) & !wt_isnan(a)) | wt_isnan(b)); }")
define("fn wt_fmin(a: f32, b: f32) -> f32 { return select(b, a, ((a < b) & !wt_isnan(a)) | wt_isnan(b)); }")
# Beside a zero the operand keeps its own zero's sign, as in PyTorch's relu.
define("fn wt_maximum_number(x: f32, number: f32) -> f32 { return select(x, number, (x < number) & !wt_isnan(x)); }")
define("fn wt_minimum_number(x: f32, number: f32) -> f32 { return select(x, number, (x > number) & !wt_isnan(x)); }")
define("fn wt_clamp(x: f32, low: f32, high: f32) -> f32 { return wt_minimum(wt_maximum(x, low), high); }")

define("fn wt_power_of_two(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }")
define("""
// x * 2^n for n in [-252, 254]; two factors, since 2^n itself may not be representable.
fn wt_scale(x: f32, n: i32) -> f32 {
  let half = n >> 1u;
  return x * wt_power_of_two(half) * wt_power_of_two(n - half);
}
""")
define("fn wt_mask_low(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }")

define(
    """
// WGSL's fma may round the product first, and does where the device has none of its own. The product's error comes from its
// halves' products, which are exact, and the sum's from Knuth's; where they leave the range, the plain one will do.
fn wt_fused(a: f32, b: f32, c: f32) -> f32 {
  let product = a * b;
  let a_high = wt_mask_low(a);
  let b_high = wt_mask_low(b);
  let a_low = a - a_high;
  let b_low = b - b_high;
  let lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  let sum = product + c;
  let part = sum - product;
  let value = sum + (((product - (sum - part)) + (c - part)) + lost);
  let size = wt_abs(product);
  return select(fma(a, b, c), value, (size > 1e-25) & (size < 1e37) & wt_isfinite(sum));
}
""",
    accuracy=1,
)
#: in its place where fma itself rounds once: a driver that joins a product and the sum after it could also join those above
NATIVE_FUSED = described("fn wt_fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }", accuracy=0.5)

# WGSL promises division only for divisors up to 2^126.
define(
    """
fn wt_divide(a: f32, b: f32) -> f32 {
  let s = select(1.0, 0.25, wt_abs(b) >= 8.507059e37);
  return (a * s) / (b * s);
}
""",
    accuracy=3,
)
# Arithmetic of related values: compilers without NaN and infinity would cancel them against each other.
define("""
fn wt_sum(a: f32, b: f32) -> f32 {
  let opposed = wt_isinf(a) & wt_isinf(b) & (wt_signbit(a) != wt_signbit(b));
  let endless = select(b, a, wt_isinf(a));
  let special = select(endless, wt_nan(), opposed | wt_isnan(a) | wt_isnan(b));
  return select(special, a + b, wt_isfinite(a) & wt_isfinite(b));
}
""")
define("fn wt_difference(a: f32, b: f32) -> f32 { return wt_sum(a, bitcast<f32>(bitcast<u32>(b) ^ 0x80000000u)); }")
define("""
fn wt_product(a: f32, b: f32) -> f32 {
  let nothing = (wt_isinf(a) & ((bitcast<u32>(b) << 1u) == 0u)) | (wt_isinf(b) & ((bitcast<u32>(a) << 1u) == 0u));
  return select(a * b, wt_nan(), nothing | wt_isnan(a) | wt_isnan(b));
}
""")
define("""
fn wt_quotient(a: f32, b: f32) -> f32 {
  let both = (wt_isinf(a) & wt_isinf(b)) | (((bitcast<u32>(a) | bitcast<u32>(b)) << 1u) == 0u);
  // Some compilers know no quotient by zero.
  let endless = bitcast<f32>(((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u) | 0x7f800000u);
  let value = select(wt_divide(a, b), endless, (bitcast<u32>(b) << 1u) == 0u);
  return select(value, wt_nan(), both | wt_isnan(a) | wt_isnan(b));
}
""")
define("fn wt_reciprocal(x: f32) -> f32 { return wt_divide(1.0, x); }", accuracy=3)
define(
    """
fn wt_sqrt(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  // Zero, infinity, NaN and what is negative.
  if (bits - 1u >= 0x7f7fffffu) {
    if ((bits << 1u) == 0u || bits == 0x7f800000u) { return x; }
    return wt_nan();
  }
  return sqrt(x);
}
""",
    accuracy=3,
)
define(
    """
fn wt_rsqrt(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits << 1u) == 0u) { return wt_copysign(wt_inf(), x); }
  if ((bits >> 31u) != 0u || bits > 0x7f800000u) { return wt_nan(); }
  if (bits == 0x7f800000u) { return 0.0; }
  return inverseSqrt(x);
}
""",
    accuracy=3,
)

define("""
// Exact: long division of the significands, eight bits a step.
fn wt_fmod(x: f32, y: f32) -> f32 {
  let ix = bitcast<u32>(x) & 0x7fffffffu;
  let iy = bitcast<u32>(y) & 0x7fffffffu;
  let sign = bitcast<u32>(x) & 0x80000000u;
  if (iy == 0u || ix >= 0x7f800000u || iy > 0x7f800000u) { return wt_nan(); }
  if (ix < iy) { return x; }
  let ex = max(ix >> 23u, 1u);
  let ey = max(iy >> 23u, 1u);
  let mx = (ix & 0x7fffffu) | select(0u, 0x800000u, ix >= 0x800000u);
  let my = (iy & 0x7fffffu) | select(0u, 0x800000u, iy >= 0x800000u);
  var rest = mx % my;
  var left = ex - ey;
  while (left > 0u && rest != 0u) {
    let step = min(left, 8u);
    rest = (rest << step) % my;
    left -= step;
  }
  if (rest == 0u) { return bitcast<f32>(sign); }
  let shift = min(countLeadingZeros(rest) - 8u, ey - 1u);
  rest <<= shift;
  let exponent = select(0u, ey - shift, rest >= 0x800000u);
  return bitcast<f32>(sign | (exponent << 23u) | (rest & 0x7fffffu));
}
""")
define("""
// Python's remainder: the result has the sign of the divisor.
fn wt_remainder(x: f32, y: f32) -> f32 {
  let rest = wt_fmod(x, y);
  let other_sign = ((bitcast<u32>(rest) ^ bitcast<u32>(y)) >> 31u) != 0u;
  return select(rest, rest + y, other_sign & ((bitcast<u32>(rest) << 1u) != 0u));
}
""")
define(
    """
// As PyTorch: from the exact remainder, so that the quotient agrees with wt_remainder.
fn wt_floor_divide(dividend: f32, divisor: f32) -> f32 {
  // No return before the remainder's loop: where all invocations took it, llvmpipe was seen to write nothing at all.
  let by_zero = (bitcast<u32>(divisor) << 1u) == 0u;
  // Keep the remainder out of the subnormal range, where it would be lost.
  let tiny = (wt_abs(divisor) < 7.888609e-31) & (wt_abs(dividend) < 1.2676506e30);
  let x = dividend * select(1.0, 16777216.0, tiny);
  let y = select(divisor, 1.0, by_zero) * select(1.0, 16777216.0, tiny);
  let rest = wt_fmod(x, y);
  let other_sign = ((bitcast<u32>(rest) ^ bitcast<u32>(y)) >> 31u) != 0u;
  var quotient = wt_divide_exact(x - rest, y);
  if (other_sign && (bitcast<u32>(rest) << 1u) != 0u) { quotient -= 1.0; }
  let whole = floor(quotient);
  let rounded = select(whole, whole + 1.0, quotient - whole > 0.5);
  let nothing = wt_copysign(0.0, bitcast<f32>(bitcast<u32>(x) ^ bitcast<u32>(y)));
  return select(select(rounded, nothing, quotient == 0.0), wt_quotient(dividend, divisor), by_zero);
}
""",
    accuracy=1,
)
define(
    """
// Correctly rounded quotient by integer long division: a truncated quotient must not be off by one.
fn wt_divide_exact(x: f32, y: f32) -> f32 {
  let ix = bitcast<u32>(x) & 0x7fffffffu;
  let iy = bitcast<u32>(y) & 0x7fffffffu;
  let sign = (bitcast<u32>(x) ^ bitcast<u32>(y)) & 0x80000000u;
  if (ix >= 0x7f800000u || iy >= 0x7f800000u || ix < 0x800000u || iy < 0x800000u) { return wt_quotient(x, y); }
  let my = (iy & 0x7fffffu) | 0x800000u;
  var rest = (ix & 0x7fffffu) | 0x800000u;
  var quotient = rest / my;
  rest = rest % my;
  for (var step = 0u; step < 4u; step++) {
    rest <<= 7u;
    quotient = (quotient << 7u) | (rest / my);
    rest = rest % my;
  }
  // 28 or 29 significant bits and a sticky bit: rounded to 24 by hand, for u32 to f32 may round in any way.
  let drop = 8u - countLeadingZeros(quotient);
  let tail = quotient & ((1u << drop) - 1u);
  let middle = 1u << (drop - 1u);
  var head = quotient >> drop;
  if (tail > middle || (tail == middle && (rest != 0u || (head & 1u) == 1u))) { head += 1u; }
  let exponent = i32(ix >> 23u) - i32(iy >> 23u) - 28 + i32(drop);
  return bitcast<f32>(bitcast<u32>(wt_scale(f32(head), max(exponent, -252))) | sign);
}
""",
    accuracy=0.5,
)
define("fn wt_trunc_divide(x: f32, y: f32) -> f32 { return trunc(wt_divide_exact(x, y)); }")
define("fn wt_round(x: f32) -> f32 { return wt_copysign(round(x), x); }")
define("fn wt_trunc(x: f32) -> f32 { return wt_copysign(trunc(x), x); }")

define("""
fn wt_nextafter(x: f32, y: f32) -> f32 {
  if (wt_isnan(x) || wt_isnan(y)) { return wt_nan(); }
  let ix = bitcast<u32>(x);
  let iy = bitcast<u32>(y);
  if (ix == iy || ((ix | iy) << 1u) == 0u) { return y; }
  if ((ix << 1u) == 0u) { return bitcast<f32>((iy & 0x80000000u) | 1u); }
  // Order the patterns as signed integers, since subnormals may compare as equal to zero.
  let kx = select(bitcast<i32>(ix), -bitcast<i32>(ix & 0x7fffffffu), (ix >> 31u) != 0u);
  let ky = select(bitcast<i32>(iy), -bitcast<i32>(iy & 0x7fffffffu), (iy >> 31u) != 0u);
  return bitcast<f32>(select(ix - 1u, ix + 1u, (kx < ky) == ((ix >> 31u) == 0u)));
}
""")
define("""
// x * 2^n for every n: three factors reach from the largest to the smallest float.
fn wt_ldexp(x: f32, n: i32) -> f32 {
  let bounded = clamp(n, -378, 381);
  let third = bounded / 3;
  return x * wt_power_of_two(third) * wt_power_of_two(third) * wt_power_of_two(bounded - 2 * third);
}
""")
define("""
fn wt_frexp_exponent(x: f32) -> i32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits == 0u || bits >= 0x7f800000u) { return 0; }
  if (bits < 0x800000u) { return -117 - i32(countLeadingZeros(bits)); }
  return i32(bits >> 23u) - 126;
}
""")
define("""
fn wt_frexp_mantissa(x: f32) -> f32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits == 0u || bits >= 0x7f800000u) { return x; }
  let shift = select(0u, countLeadingZeros(bits) - 8u, bits < 0x800000u);
  return bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x3f000000u | ((bits << shift) & 0x7fffffu));
}
""")
define(
    """
fn wt_hypot(x: f32, y: f32) -> f32 {
  if (wt_isinf(x) || wt_isinf(y)) { return wt_inf(); }
  if (wt_isnan(x) || wt_isnan(y)) { return wt_nan(); }
  let large = max(wt_abs(x), wt_abs(y));
  let small = min(wt_abs(x), wt_abs(y));
  if (large == 0.0) { return large; }
  let exponent = clamp(i32(bitcast<u32>(large) >> 23u) - 127, -120, 120);
  let a = large * wt_power_of_two(-exponent);
  let b = small * wt_power_of_two(-exponent);
  return sqrt(a * a + b * b) * wt_power_of_two(exponent);
}
""",
    accuracy=4,
)
