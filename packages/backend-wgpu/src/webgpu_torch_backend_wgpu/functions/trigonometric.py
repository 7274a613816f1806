"""Trigonometric functions and their inverses, accurate for arguments of any size.

Reduction: Cody and Waite with pi/2 in five parts for |x| < 12000, else Payne and Hanek, "Radian Reduction for
Trigonometric Functions" (1983), on 32-bit integers. Coefficients: see :mod:`.exponential`.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define, described, polynomial

define("""
// 32 bits of 2/pi from bit 32 (index - 1) behind the binary point; index 0 is the integer part.
fn wt_two_over_pi(index: u32) -> u32 {
  // Without control flow: compilers write it out at every use.
  let low = select(select(0xa2f9836eu, 0x4e441529u, index == 2u), 0xfc2757d1u, index == 3u);
  let middle = select(select(0xf534ddc0u, 0xdb629599u, index == 5u), 0x3c439041u, index == 6u);
  let high = select(select(0xfe5163abu, 0xdebbc561u, index == 8u), 0u, index > 8u);
  return select(select(select(low, middle, index > 3u), high, index > 6u), 0u, index == 0u);
}
""")
define("""
// The full 64-bit product, low word first, from 16-bit halves.
fn wt_multiply_wide(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
  return vec2<u32>(a * b, (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u));
}
""")
#: wt_multiply_wide for adapters with 64-bit integers, most of which have an instruction for it
NATIVE_PRODUCT = described("""
fn wt_multiply_wide(a: u32, b: u32) -> vec2<u32> {
  let product = u64(a) * u64(b);
  return vec2<u32>(u32(product & 0xfffffffflu), u32(product >> 32u));
}
""")
define("""
// Payne-Hanek for 2^9 <= |x|: (quadrant, bits of the rest in [-pi/4, pi/4]). The 96 bits of 2/pi that matter for
// x * 2/pi mod 4 are multiplied by the 24-bit significand; what is dropped is below 2^-70.
fn wt_reduce_huge(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  let significand = (bits & 0x7fffffu) | 0x800000u;
  // Bit (exponent - 151) behind the point is the first one needed; table word 0 holds 32 zeros before the point.
  let start = ((bits >> 23u) & 0xffu) - 151u + 31u;
  let word = start >> 5u;
  let shift = start & 31u;
  var window = vec3<u32>(wt_two_over_pi(word), wt_two_over_pi(word + 1u), wt_two_over_pi(word + 2u));
  if (shift != 0u) {
    let next = vec3<u32>(window.y, window.z, wt_two_over_pi(word + 3u));
    window = (window << vec3<u32>(shift)) | (next >> vec3<u32>(32u - shift));
  }
  let low = wt_multiply_wide(significand, window.z);
  let middle = wt_multiply_wide(significand, window.y);
  let t1 = middle.x + low.y;
  let t2 = significand * window.x + middle.y + select(0u, 1u, t1 < middle.x);
  var quadrant = t2 >> 30u;
  var high_part = (t2 << 2u) | (t1 >> 30u);
  var low_part = (t1 << 2u) | (low.x >> 30u);
  var sign = bits & 0x80000000u;
  if ((high_part >> 31u) != 0u) {
    quadrant += 1u;
    sign ^= 0x80000000u;
    low_part = ~low_part + 1u;
    high_part = ~high_part + select(0u, 1u, low_part == 0u);
  }
  let zeros = countLeadingZeros(high_part);
  if (zeros >= 32u) {
    high_part = low_part;
    low_part = 0u;
  } else if (zeros > 0u) {
    high_part = (high_part << zeros) | (low_part >> (32u - zeros));
  }
  // 2^-32 * pi/2 exactly rounded; the top 24 bits of high_part carry the value.
  let rest = f32(high_part >> 7u) * wt_power_of_two(7 - i32(zeros)) * 3.6572953e-10;
  quadrant = select(quadrant, 0u - quadrant, (bits >> 31u) != 0u);
  return vec2<u32>(quadrant & 3u, bitcast<u32>(rest) ^ sign);
}
""")
define("""
// (quadrant, bits of r): x = quadrant * pi/2 + r (mod 2 pi), |r| <= pi/4.
fn wt_reduce_angle(x: f32) -> vec2<u32> {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) { return vec2<u32>(0u, 0x7fc00000u); }
  if (magnitude >= 0x463b8000u) { return wt_reduce_huge(x); }
  let n = round(x * 0.63661975);
  // pi/2 in parts of 11 bits: their products with n (13 bits) are exact.
  let a = ((x - n * 0x1.92p+0f) - n * 0x1.fb4p-12f) - n * 0x1.444p-24f;
  let r = (a - n * 0x1.68cp-39f) - n * 0x1.1a6264p-54f;
  return vec2<u32>(bitcast<u32>(i32(n)) & 3u, bitcast<u32>(r));
}
""")
define(
    """
// sin(quadrant * pi/2 + r), |r| <= pi/4.
fn wt_sin_quadrant(quadrant: u32, r: f32) -> f32 {
  let z = r * r;
  let sine = r + r * z * $SIN;
  let cosine = 1.0 - (0.5 * z - z * z * $COS);
  let value = select(sine, cosine, (quadrant & 1u) != 0u);
  return bitcast<f32>(bitcast<u32>(value) ^ ((quadrant & 2u) << 30u));
}
""",
    accuracy=2,
    SIN=polynomial("z", (-0.16666667, 0.008333329, -0.00019839295, 2.7179399e-06)),
    COS=polynomial("z", (0.041666646, -0.0013887284, 2.4429437e-05)),
)
define(
    """
fn wt_sin(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x39800000u) { return x; }
  let angle = wt_reduce_angle(x);
  return wt_sin_quadrant(angle.x, bitcast<f32>(angle.y));
}
""",
    accuracy=3,
)
define(
    """
fn wt_cos(x: f32) -> f32 {
  let angle = wt_reduce_angle(x);
  return wt_sin_quadrant(angle.x + 1u, bitcast<f32>(angle.y));
}
""",
    accuracy=3,
)
define(
    """
fn wt_tan(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x39800000u) { return x; }
  let angle = wt_reduce_angle(x);
  let r = bitcast<f32>(angle.y);
  let z = r * r;
  let value = r + r * z * $TAN;
  return select(value, -1.0 / value, (angle.x & 1u) != 0u);
}
""",
    accuracy=4,
    TAN=polynomial("z", (0.33333352, 0.13332613, 0.054065756, 0.021251157, 0.0109183835, -1.7718623e-05, 0.0044303956)),
)
define("""
// (quadrant, bits of r) for pi * x: the reduction is exact before the multiplication by pi.
fn wt_reduce_pi(x: f32) -> vec2<u32> {
  if (!wt_isfinite(x)) { return vec2<u32>(0u, 0x7fc00000u); }
  let turn = x - 2.0 * round(0.5 * x);
  let n = round(2.0 * turn);
  return vec2<u32>(bitcast<u32>(i32(n)) & 3u, bitcast<u32>((turn - 0.5 * n) * 3.1415927));
}
""")
define(
    """
fn wt_sinpi(x: f32) -> f32 {
  let angle = wt_reduce_pi(x);
  return wt_sin_quadrant(angle.x, bitcast<f32>(angle.y));
}
""",
    accuracy=3,
)
define(
    """
// sin(pi x) / (pi x), from an exact reduction: zero at whole numbers.
fn wt_sinc(x: f32) -> f32 {
  if (x == 0.0) { return 1.0; }
  return wt_sinpi(x) / (3.1415927 * x);
}
""",
    accuracy=4,
)

define(
    """
// asin for |x| <= 1/2.
fn wt_asin_small(x: f32) -> f32 {
  let z = x * x;
  return x + x * z * $ASIN;
}
""",
    accuracy=2,
    ASIN=polynomial("z", (0.1666666, 0.07500504, 0.04451697, 0.031807594, 0.014439123, 0.03751569)),
)
define(
    """
fn wt_asin(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x) || a > 1.0) { return wt_nan(); }
  if (a <= 0.5) { return wt_asin_small(x); }
  let value = 1.5707964 - (2.0 * wt_asin_small(sqrt(0.5 * (1.0 - a))) + 4.371139e-8);
  return wt_copysign(value, x);
}
""",
    accuracy=4,
)
define(
    """
fn wt_acos(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x) || a > 1.0) { return wt_nan(); }
  if (a <= 0.5) { return 1.5707964 - (wt_asin_small(x) + 4.371139e-8); }
  let value = 2.0 * wt_asin_small(sqrt(0.5 * (1.0 - a)));
  return select(value, 3.1415927 - (value + 8.742278e-8), x < 0.0);
}
""",
    accuracy=4,
)
define(
    """
// atan for 0 <= x <= 1.
fn wt_atan_unit(x: f32) -> f32 {
  let upper = x > 0.41421357;
  let t = select(x, (x - 1.0) / (x + 1.0), upper);
  let z = t * t;
  let value = t + t * z * $ATAN;
  return select(value, 0.7853982 + (value - 2.1855694e-8), upper);
}
""",
    accuracy=3,
    ATAN=polynomial("z", (-0.33333316, 0.1999847, -0.14243515, 0.10593673, -0.060778487)),
)
define(
    """
fn wt_atan(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x)) { return x; }
  if (a > 1e9) { return wt_copysign(1.5707964, x); }
  if (a <= 1.0) { return wt_copysign(wt_atan_unit(a), x); }
  return wt_copysign(1.5707964 - (wt_atan_unit(1.0 / a) + 4.371139e-8), x);
}
""",
    accuracy=4,
)
define(
    """
fn wt_atan2(y: f32, x: f32) -> f32 {
  if (wt_isnan(x) || wt_isnan(y)) { return wt_nan(); }
  let ax = wt_abs(x);
  let ay = wt_abs(y);
  let large = max(ax, ay);
  let small = min(ax, ay);
  var ratio = 0.0;
  if (wt_isinf(small)) {
    ratio = 1.0;
  } else if (large > 0.0 && !wt_isinf(large)) {
    ratio = wt_divide(small, large);
  }
  var value = wt_atan_unit(ratio);
  if (ay > ax) { value = 1.5707964 - (value + 4.371139e-8); }
  if (wt_signbit(x)) { value = 3.1415927 - (value + 8.742278e-8); }
  return wt_copysign(value, y);
}
""",
    accuracy=4,
)
