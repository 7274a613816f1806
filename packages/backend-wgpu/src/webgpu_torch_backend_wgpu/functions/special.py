"""Error functions, gamma functions, modified Bessel functions.

Coefficients were fitted for this project; see :mod:`.exponential`.
"""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define, polynomial

define(
    """
// |x| < 1: x (1 + P(x^2)); else 1 - exp(P(|x|)), where P approximates log(erfc). The built-in exp is accurate enough for
// its argument in [-17, -1.8], whose result is small beside 1. The sign is not copied by bits: behind some arithmetic
// Mesa's llvmpipe (LLVM 15) compiles a choice between such a copy and NaN to a wrong exponent.
fn wt_erf(x: f32) -> f32 {
  let a = wt_abs(x);
  if (a < 1.0) {
    let z = x * x;
    return x + x * $NEAR;
  }
  let t = min(a, 4.0);
  let far = 1.0 - exp($FAR);
  return select(select(far, -far, x < 0.0), x, wt_isnan(x));
}
""",
    accuracy=2,
    NEAR=polynomial(
        "z", (0.12837917, -0.37612626, 0.112835854, -0.026853811, 0.0051883277, -0.00080101925, 7.853858e-05)
    ),
    FAR=polynomial(
        "t",
        (0.00018848755, -1.1295804, -0.6332162, -0.10842227, 0.025210446, -0.0042053224, 0.00044148, -2.1698212e-05),
    ),
)
define(
    """
// exp(x^2) erfc(x) (1 + 2 x) for 0.48 <= x <= 10.2, in the variable (x - 4) / (x + 4).
fn wt_erfcx_part(x: f32) -> f32 {
  let q = (x - 4.0) / (x + 4.0);
  return $P;
}
""",
    accuracy=2,
    P=polynomial(
        "q",
        (
            1.2329952, -0.13962108, 0.0153795965, 0.0680946, -0.10103885, 0.09377275,
            -0.066304825, 0.03692305, -0.016492637, 0.0055036168, 0.00012462685,
        ),
    ),
)  # fmt: skip
define(
    """
fn wt_erfc(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x)) { return x; }
  if (a < 0.48) { return 1.0 - wt_erf(x); }
  if (a > 10.1) { return select(0.0, 2.0, x < 0.0); }
  // x^2 = s^2 + (x - s)(x + s) with an exact s^2, since exp magnifies the rounding of its argument.
  let s = wt_mask_low(a);
  let value = wt_exp(-s * s) * wt_exp((s - a) * (s + a)) * (wt_erfcx_part(a) / (1.0 + 2.0 * a));
  return select(value, 2.0 - value, x < 0.0);
}
""",
    accuracy=6,
)
define(
    """
// Giles, "Approximating the erfinv function" (2010): x times a polynomial in w = -log(1 - x^2) or in sqrt(w).
fn wt_erfinv(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x) || a > 1.0) { return wt_nan(); }
  if (a == 1.0) { return wt_copysign(wt_inf(), x); }
  let w = -wt_log((1.0 - a) * (1.0 + a));
  if (w < 5.0) {
    let v = w - 2.5;
    return x * $NEAR;
  }
  let v = sqrt(w) - 3.0;
  return x * $FAR;
}
""",
    accuracy=6,
    NEAR=polynomial(
        "v",
        (
            1.5014094, 0.24664028, -0.004177387, -0.0012527419, 0.00021834444,
            -4.9633477e-06, -3.4627049e-06, 4.6617066e-07, 2.3232644e-08, -8.791057e-09,
        ),
    ),
    FAR=polynomial(
        "v",
        (
            2.8329768, 1.0016751, 0.009445689, -0.007639406, 0.005683129,
            -0.0035869887, 0.0014959922, -7.66753e-05, -0.00031885426, 0.00012905193,
        ),
    ),
)  # fmt: skip

define(
    """
// lgamma(1 + t) for -1/4 <= t <= 1/2.
fn wt_lgamma_near_one(t: f32) -> f32 { return t * $P; }
""",
    accuracy=3,
    P=polynomial(
        "t",
        (
            -0.5772157, 0.822467, -0.40068585, 0.27058375, -0.20737427, 0.16940422,
            -0.14406143, 0.12834404, -0.11696223, 0.088229716, -0.034799088,
        ),
    ),
)  # fmt: skip
define(
    """
// lgamma(2 + t) for -1/2 <= t <= 1.
fn wt_lgamma_near_two(t: f32) -> f32 { return t * $P; }
""",
    accuracy=3,
    P=polynomial(
        "t",
        (
            0.42278433, 0.32246703, -0.067352295, 0.02058101, -0.0073857647, 0.0028883275,
            -0.001189821, 0.0005177009, -0.0002386495, 9.582244e-05, -2.0516141e-05,
        ),
    ),
)  # fmt: skip
define(
    """
// x > 0: polynomials about the zeros 1 and 2, the recurrence up to 8, then Stirling's series.
fn wt_lgamma_positive(x: f32) -> f32 {
  if (x < 0.5) { return wt_lgamma_near_one(x) - wt_log(x); }
  if (x < 0.75) { return wt_lgamma_near_two(x - 1.0) - wt_log(x); }
  if (x < 1.5) { return wt_lgamma_near_one(x - 1.0); }
  if (x < 8.0) {
    var y = x;
    var product = 1.0;
    while (y >= 3.0) {
      y -= 1.0;
      product *= y;
    }
    return wt_lgamma_near_two(y - 2.0) + wt_log(product);
  }
  let logarithm = wt_log(x);
  let inverse = 1.0 / min(x, 1e30);
  let z = inverse * inverse;
  let series = inverse * (0.083333336 - z * (0.0027777778 - z * 7.9365081e-4));
  return x * (logarithm - 1.0) + ((0.9189385 - 0.5 * logarithm) + series);
}
""",
    accuracy=5,
)
define(
    """
// Reflection for x < 0, where the error is in ULP of the larger of |lgamma(x)|, |lgamma(1 - x)| and 1.
fn wt_lgamma(x: f32) -> f32 {
  if (wt_isnan(x)) { return x; }
  let a = wt_abs(x);
  if (wt_isinf(x) || a == 0.0 || (x < 0.0 && floor(x) == x)) { return wt_inf(); }
  if (a < 1e-7) { return -wt_log(a); }
  let value = wt_lgamma_positive(a);
  if (x > 0.0) { return value; }
  return (1.1447299 - wt_log(a * wt_abs(wt_sinpi(a)))) - value;
}
""",
    accuracy=5,
)
define(
    """
fn wt_digamma_positive(x: f32) -> f32 {
  if (x > 8.0) {
    let inverse = 1.0 / min(x, 1e18);
    let z = inverse * inverse;
    return wt_log(x) - (0.5 * inverse + z * (0.083333336 - z * (0.008333334 - z * 0.003968254)));
  }
  var y = x;
  var sum = 0.0;
  while (y >= 2.0) {
    y -= 1.0;
    sum += 1.0 / y;
  }
  if (y < 1.0) {
    sum -= 1.0 / y;
    y += 1.0;
  }
  let t = y - 1.5;
  // The zero of digamma in two parts, the lower one times the polynomial's value there: the difference of two
  // constants would be folded into one.
  return ((y - 1.4616321) * $P - 1.2036053e-8) + sum;
}
""",
    accuracy=5,
    P=polynomial(
        "t",
        (
            0.9510559, -0.4236275, 0.24054262, -0.14839879, 0.09498208, -0.062057078,
            0.040879335, -0.025781013, 0.016980417, -0.016384093, 0.01111864,
        ),
    ),
)  # fmt: skip
define(
    """
// Reflection for x < 0, where the error is in ULP of the larger of |digamma(x)|, |digamma(1 - x)| and pi.
fn wt_digamma(x: f32) -> f32 {
  if (x == 0.0) { return wt_copysign(wt_inf(), -x); }
  if (wt_isnan(x) || bitcast<u32>(x) == 0x7f800000u) { return x; }
  if (x > 0.0) { return wt_digamma_positive(x); }
  if (floor(x) == x) { return wt_nan(); }
  let angle = wt_reduce_pi(x);
  let r = bitcast<f32>(angle.y);
  let cotangent = wt_sin_quadrant(angle.x + 1u, r) / wt_sin_quadrant(angle.x, r);
  return wt_digamma_positive(1.0 - x) - 3.1415927 * cotangent;
}
""",
    accuracy=6,
)

define(
    """
// I0(x) for 0 <= x^2 <= 64: the power series, re-fitted; all terms are positive.
fn wt_i0_near(z: f32) -> f32 { return $P; }
""",
    accuracy=2,
    P=polynomial(
        "z",
        (
            1.0, 0.25, 0.015625, 0.0004340278, 6.781677e-06, 6.78177e-08, 4.7088755e-10,
            2.4056952e-12, 9.300185e-15, 3.0598476e-17, 5.3517125e-20, 2.6803494e-22,
        ),
    ),
)  # fmt: skip
define(
    """
// exp(-x) I0(x) for x >= 8.
fn wt_i0e_far(x: f32) -> f32 {
  let t = 1.0 / x;
  return $P * inverseSqrt(x);
}
""",
    accuracy=4,
    P=polynomial("t", (0.3989423, 0.049867418, 0.028094823, 0.027250709, 0.085128695, -0.30564836, 1.8277229)),
)
define(
    """
// I1(x) / x for 0 <= x^2 <= 64.
fn wt_i1_near(z: f32) -> f32 { return $P; }
""",
    accuracy=2,
    P=polynomial(
        "z",
        (
            0.5, 0.0625, 0.0026041667, 5.4253473e-05, 6.78168e-07, 5.651448e-09, 3.3636278e-11,
            1.5030707e-13, 5.1772067e-16, 1.516256e-18, 2.5326439e-21, 1.08549446e-23,
        ),
    ),
)  # fmt: skip
define(
    """
// exp(-x) I1(x) for x >= 8.
fn wt_i1e_far(x: f32) -> f32 {
  let t = 1.0 / x;
  return $P * inverseSqrt(x);
}
""",
    accuracy=4,
    P=polynomial("t", (0.3989423, -0.14960293, -0.046801835, -0.038659118, -0.1034055, 0.33763316, -2.0761206)),
)
define("""
// For positive normal x. By bits, for drivers reorder products: I0 is finite where e^x is not.
fn wt_times_256(x: f32) -> f32 {
  return bitcast<f32>(min(bitcast<u32>(x) + 0x04000000u, wt_zero | 0x7f800000u));
}
""")
define(
    """
// NaN at infinity, as in PyTorch.
fn wt_i0(x: f32) -> f32 {
  let a = wt_abs(x);
  if (!wt_isfinite(x)) { return wt_nan(); }
  if (a <= 8.0) { return wt_i0_near(x * x); }
  return wt_times_256(wt_exp_scaled(a, -8) * wt_i0e_far(a));
}
""",
    accuracy=5,
)
define(
    """
fn wt_i0e(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x)) { return x; }
  if (wt_isinf(x)) { return 0.0; }
  if (a <= 8.0) { return wt_i0_near(x * x) * wt_exp(-a); }
  return wt_i0e_far(a);
}
""",
    accuracy=5,
)
define(
    """
fn wt_i1(x: f32) -> f32 {
  let a = wt_abs(x);
  if (!wt_isfinite(x)) { return wt_nan(); }
  if (a <= 8.0) { return x * wt_i1_near(x * x); }
  return wt_copysign(wt_times_256(wt_exp_scaled(a, -8) * wt_i1e_far(a)), x);
}
""",
    accuracy=5,
)
define(
    """
fn wt_i1e(x: f32) -> f32 {
  let a = wt_abs(x);
  if (wt_isnan(x)) { return x; }
  if (wt_isinf(x)) { return wt_copysign(0.0, x); }
  if (a <= 8.0) { return x * wt_i1_near(x * x) * wt_exp(-a); }
  return wt_copysign(wt_i1e_far(a), x);
}
""",
    accuracy=5,
)
