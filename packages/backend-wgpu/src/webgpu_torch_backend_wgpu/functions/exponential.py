"""Exponentials, logarithms, powers and hyperbolic functions.

Polynomial coefficients were fitted for this project: least squares at Chebyshev nodes, re-weighted until the relative
error was even (Lawson's algorithm), and rounded to float32. The argument reductions are the classical ones of Cody
and Waite, "Software Manual for the Elementary Functions" (1980), and of Sun's fdlibm.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define, polynomial

_EXP = polynomial("r", (0.5, 0.16666666, 0.041666348, 0.0083333915, 0.0013941656, 0.00019846017))
_EXP2 = polynomial("r", (0.6931472, 0.2402265, 0.055504102, 0.009618035, 0.001333395, 0.00015468022, 1.5195025e-05))
_LOG = polynomial(
    "f",
    (
        0.33333313, -0.2500001, 0.20002124, -0.16668008, 0.14219451,
        -0.12405279, 0.118886456, -0.11677877, 0.06748309,
    ),
)  # fmt: skip
_POWER_LOG = polynomial("s2", (0.6, 0.4285713, 0.33334655, 0.2719709, 0.25103396))

define(
    """
// e^x * 2^bias for a small bias: n = round(x / ln 2), r = x - n ln 2 in two parts, e^r = 1 + r + r^2 Q(r).
fn wt_exp_scaled(x: f32, bias: i32) -> f32 {
  let bounded = clamp(x, -140.0, 140.0);
  let n = round(bounded * 1.442695);
  let r = (bounded - n * 0.693145751953125) - n * 1.4286067653e-6;
  let value = wt_scale(1.0 + (r + r * r * $EXP), i32(n) + bias);
  return select(value, x, wt_isnan(x));
}
""",
    accuracy=2,
    EXP=_EXP,
)
define("fn wt_exp(x: f32) -> f32 { return wt_exp_scaled(x, 0); }", accuracy=2)
define(
    """
fn wt_exp2(x: f32) -> f32 {
  let bounded = clamp(x, -200.0, 200.0);
  let n = round(bounded);
  let r = bounded - n;
  return select(wt_scale(1.0 + r * $EXP2, i32(n)), x, wt_isnan(x));
}
""",
    accuracy=2,
    EXP2=_EXP2,
)
define(
    """
fn wt_expm1(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x33000000u || wt_isnan(x)) { return x; }
  let bounded = clamp(x, -20.0, 89.0);
  let n = round(bounded * 1.442695);
  let r = (bounded - n * 0.693145751953125) - n * 1.4286067653e-6;
  let small = r + r * r * $EXP;
  let s = wt_power_of_two(i32(n) - 1);
  return 2.0 * (s * small + (s - 0.5));
}
""",
    accuracy=3,
    EXP=_EXP,
)

define("""
// (e, f) with x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for the bits of a positive normal x.
fn wt_log_normal_parts(bits: u32) -> vec2<f32> {
  let scale = (bits - 0x3f3504f3u) & 0xff800000u;
  return vec2<f32>(f32(bitcast<i32>(scale)) * 1.1920928955078125e-7, bitcast<f32>(bits - scale) - 1.0);
}
""")
define("""
// The same for a positive finite x (subnormal too).
fn wt_log_parts(x: f32) -> vec2<f32> {
  var bits = bitcast<u32>(x);
  var shift = 0u;
  if (bits < 0x800000u) {
    // The leading bit goes where an exponent of 1 would stand.
    shift = countLeadingZeros(bits) - 8u;
    bits <<= shift;
  }
  return wt_log_normal_parts(bits) - vec2<f32>(f32(shift), 0.0);
}
""")
define("""
// The value of a logarithm where x is zero, negative, infinite or NaN; else the given value.
fn wt_log_special(x: f32, value: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits << 1u) == 0u) { return -wt_inf(); }
  if (bits > 0x7f800000u) { return wt_nan(); }
  return select(value, x, bits == 0x7f800000u);
}
""")
define(
    """
// log(2^e (1 + f)) + c, where c is small.
fn wt_log_sum(e: f32, f: f32, c: f32) -> f32 {
  let z = f * f;
  let tail = f * z * $LOG + (e * 1.4286067653e-6 + c);
  return e * 0.693145751953125 + (f - (0.5 * z - tail));
}
""",
    accuracy=2,
    LOG=_LOG,
)
define(
    """
fn wt_log(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  var parts = wt_log_normal_parts(bits);
  // What is not positive, normal and finite is rare: one test for all of it.
  if (bits - 0x800000u >= 0x7f000000u) {
    if (bits == 0u || bits >= 0x7f800000u) { return wt_log_special(x, x); }
    parts = wt_log_parts(x);
  }
  return wt_log_sum(parts.x, parts.y, 0.0);
}
""",
    accuracy=2,
)
define(
    """
fn wt_log2(x: f32) -> f32 {
  let parts = wt_log_parts(x);
  let small = wt_log_sum(0.0, parts.y, 0.0);
  return wt_log_special(x, parts.x + (small * 1.925963e-8 + small * 1.442695));
}
""",
    accuracy=3,
)
define(
    """
fn wt_log10(x: f32) -> f32 {
  let parts = wt_log_parts(x);
  let small = wt_log_sum(0.0, parts.y, 0.0);
  return wt_log_special(x, parts.x * 0.301025390625 + (small * 0.4342945 + parts.x * 4.605039e-6));
}
""",
    accuracy=3,
)
define(
    """
fn wt_log1p(x: f32) -> f32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x33000000u) { return x; }
  let u = 1.0 + x;
  var parts = vec2<f32>(0.0, x);
  var lost = 0.0;
  if (x <= -0.2928 || x >= 0.4142) {
    parts = wt_log_parts(u);
    lost = select(x - (u - 1.0), 1.0 - (u - x), x > 1.0) / u;
  }
  return wt_log_special(u, wt_log_sum(parts.x, parts.y, lost));
}
""",
    accuracy=3,
)
define(
    """
// x^y for a positive finite x and a finite y. log2(x) as a sum of two floats, by the series of atanh((m - 1)/(m + 1))
// with the leading factors split by masking low bits, so that their products are exact (the algorithm of fdlibm's pow).
fn wt_pow_positive(x: f32, y: f32) -> f32 {
  let parts = wt_log_parts(x);
  let e = parts.x;
  let f = parts.y;
  let u_high = wt_mask_low(2.0 + f);
  let u_low = f - (u_high - 2.0);
  let s = f / (2.0 + f);
  let s_high = wt_mask_low(s);
  let s_low = ((f - s_high * u_high) - s_high * u_low) / (2.0 + f);
  var s2 = s * s;
  let tail = s2 * s2 * $POWER_LOG + s_low * (s_high + s);
  s2 = s_high * s_high;
  let t_high = wt_mask_low(3.0 + s2 + tail);
  let t_low = tail - ((t_high - 3.0) - s2);
  let v = s_low * t_high + t_low * s;
  let p_high = wt_mask_low(s_high * t_high + v);
  let p_low = v - (p_high - s_high * t_high);
  // 2 / (3 ln 2) in two parts.
  let z_high = 0.961669921875 * p_high;
  let z_low = 1.2677205e-4 * p_high + p_low * 0.9617967;
  let log_high = wt_mask_low((z_high + z_low) + e);
  let log_low = z_low - ((log_high - e) - z_high);
  let y_high = wt_mask_low(y);
  let product = y_high * log_high;
  if (product >= 160.0) { return wt_inf(); }
  if (product <= -160.0) { return 0.0; }
  let rest = (y - y_high) * log_high + y * log_low;
  let n = round(product + rest);
  let r = (product - n) + rest;
  return wt_scale(1.0 + r * $EXP2, i32(n));
}
""",
    accuracy=4,
    POWER_LOG=_POWER_LOG,
    EXP2=_EXP2,
)
define(
    """
fn wt_pow(x: f32, y: f32) -> f32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  let y_magnitude = bitcast<u32>(y) & 0x7fffffffu;
  if (y_magnitude == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1.0; }
  if (magnitude > 0x7f800000u || y_magnitude > 0x7f800000u) { return wt_nan(); }
  let y_positive = (bitcast<u32>(y) >> 31u) == 0u;
  if (y_magnitude == 0x7f800000u) {
    if (magnitude == 0x3f800000u) { return 1.0; }
    return select(0.0, wt_inf(), (magnitude > 0x3f800000u) == y_positive);
  }
  let whole = y_magnitude >= 0x4b000000u || floor(y) == y;
  let odd = y_magnitude < 0x4b800000u && whole && (i32(y) & 1) != 0;
  let negative = (bitcast<u32>(x) >> 31u) != 0u;
  let sign = select(0u, 0x80000000u, negative && odd);
  if (magnitude == 0u || magnitude == 0x7f800000u) {
    let value = select(0.0, wt_inf(), (magnitude != 0u) == y_positive);
    return bitcast<f32>(bitcast<u32>(value) | sign);
  }
  if (negative && !whole) { return wt_nan(); }
  return bitcast<f32>(bitcast<u32>(wt_pow_positive(bitcast<f32>(magnitude), y)) | sign);
}
""",
    accuracy=4,
)

define(
    """
fn wt_sinh(x: f32) -> f32 {
  let a = wt_abs(x);
  if (a < 1.0) {
    let z = x * x;
    return x + x * z * $SINH;
  }
  let half = wt_exp_scaled(min(a, 100.0), -1);
  return select(wt_copysign(half - 0.25 / half, x), x, wt_isnan(x));
}
""",
    accuracy=4,
    SINH=polynomial("z", (0.16666667, 0.00833335, 0.0001983616, 2.816952e-06)),
)
define(
    """
fn wt_cosh(x: f32) -> f32 {
  let half = wt_exp_scaled(min(wt_abs(x), 100.0), -1);
  return select(half + 0.25 / half, wt_abs(x), wt_isnan(x));
}
""",
    accuracy=4,
)
define(
    """
fn wt_tanh(x: f32) -> f32 {
  let a = wt_abs(x);
  let z = x * x;
  let value = 1.0 - 2.0 / (wt_exp(2.0 * min(a, 20.0)) + 1.0);
  // No early return: Mesa 22.3's llvmpipe forgets the lanes that go on where a kernel computes two such functions.
  let result = wt_copysign(select(value, x + x * z * $TANH, a < 0.625), x);
  return select(result, x, wt_isnan(x));
}
""",
    accuracy=3,
    TANH=polynomial("z", (-0.3333333, 0.13333206, -0.053946763, 0.0217007, -0.008177392, 0.002142957)),
)
define(
    """
fn wt_asinh(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x) || a < 2e-4) { return x; }
  if (a > 1e6) { return wt_copysign(wt_log(a) + 0.6931472, x); }
  return wt_copysign(wt_log1p(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}
""",
    accuracy=4,
)
define(
    """
fn wt_acosh(x: f32) -> f32 {
  if (wt_isnan(x) || x < 1.0) { return wt_nan(); }
  if (x > 1e6) { return wt_log(x) + 0.6931472; }
  let t = x - 1.0;
  return wt_log1p(t + sqrt(2.0 * t + t * t));
}
""",
    accuracy=4,
)
define(
    """
fn wt_atanh(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x) || a > 1.0) { return wt_nan(); }
  if (a == 1.0) { return wt_copysign(wt_inf(), x); }
  if (a < 2e-4) { return x; }
  let b = a + a;
  let argument = select(b / (1.0 - a), b + b * a / (1.0 - a), a < 0.5);
  return wt_copysign(0.5 * wt_log1p(argument), x);
}
""",
    accuracy=4,
)
define(
    """
fn wt_sigmoid(x: f32) -> f32 {
  let t = wt_exp(-wt_abs(x));
  return select(select(1.0, t, x < 0.0) / (1.0 + t), x, wt_isnan(x));
}
""",
    accuracy=4,
)
define(
    """
// log(e^a + e^b); the error is in ULP of the larger of |a|, |b| and 1, since the sum may cancel.
fn wt_logaddexp(a: f32, b: f32) -> f32 {
  if (wt_isnan(a) || wt_isnan(b)) { return wt_nan(); }
  let large = select(b, a, a > b);
  let small = select(a, b, a > b);
  if (wt_isinf(large) || wt_isinf(small)) { return large; }
  return large + wt_log1p(wt_exp(small - large));
}
""",
    accuracy=4,
)
define(
    """
// log2(2^a + 2^b), measured as wt_logaddexp.
fn wt_logaddexp2(a: f32, b: f32) -> f32 {
  if (wt_isnan(a) || wt_isnan(b)) { return wt_nan(); }
  let large = select(b, a, a > b);
  let small = select(a, b, a > b);
  if (wt_isinf(large) || wt_isinf(small)) { return large; }
  return large + wt_log1p(wt_exp2(small - large)) * 1.442695;
}
""",
    accuracy=4,
)
define(
    """
fn wt_xlogy(x: f32, y: f32) -> f32 {
  if (wt_isnan(y)) { return y; }
  return select(x * wt_log(y), 0.0, (bitcast<u32>(x) << 1u) == 0u);
}
""",
    accuracy=4,
)
define(
    """
fn wt_xlog1py(x: f32, y: f32) -> f32 {
  if (wt_isnan(y)) { return y; }
  return select(x * wt_log1p(y), 0.0, (bitcast<u32>(x) << 1u) == 0u);
}
""",
    accuracy=4,
)
