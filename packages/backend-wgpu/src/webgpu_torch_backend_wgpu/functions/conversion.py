"""Conversions between float32, the 16-bit float formats and integers."""

from __future__ import annotations

from webgpu_torch_backend_wgpu.functions.table import define, described

define("""
// Towards zero; NaN and values out of range give -2147483648, as x86's cvttss2si and so PyTorch on CPU.
fn wt_f32_to_i32(x: f32) -> i32 {
  let inside = (x >= -2147483648.0) & (x < 2147483648.0) & !wt_isnan(x);
  return select(-2147483647 - 1, i32(select(0.0, x, inside)), inside);
}
""")
define("""
// Towards zero, negative values wrapping; NaN and values beyond the range of int64 give 0.
fn wt_f32_to_u32(x: f32) -> u32 { return wt_i64_from_f32(x).x; }
""")
define("""
// bfloat16 bits, round to nearest even; every NaN stays a NaN.
fn wt_f32_to_bf16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);
}
""")
define("fn wt_bf16_bits_to_f32(bits: u32) -> f32 { return bitcast<f32>(bits << 16u); }")
define("fn wt_bf16_low(word: u32) -> f32 { return bitcast<f32>(word << 16u); }")
define("fn wt_bf16_high(word: u32) -> f32 { return bitcast<f32>(word & 0xffff0000u); }")
define("fn wt_f16_round(x: f32) -> f32 { return wt_f16_bits_to_f32(wt_f32_to_f16_bits(x)); }")
define("""
// Normal results are rounded by adding to the bits; the conversion itself is then exact however it rounds.
fn wt_half(x: f32) -> f16 {
  let bits = bitcast<u32>(x);
  let magnitude = bits & 0x7fffffffu;
  if ((magnitude == 0u) | ((magnitude >= 0x38800000u) & (magnitude < 0x477fe000u))) {
    return f16(bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u));
  }
  return f16(wt_f16_bits_to_f32(wt_f32_to_f16_bits(x)));
}
""")
#: wt_half for adapters whose own conversion rounds to nearest even (WGSL leaves the rounding open)
ROUNDING_HALF = described("fn wt_half(x: f32) -> f16 { return f16(x); }")
define("""
fn wt_f32_to_i64(x: f32) -> i64 {
  let inside = (x >= -9223372036854775808.0f) & (x < 9223372036854775808.0f) & !wt_isnan(x);
  return select(-9223372036854775807li - 1li, i64(select(0.0f, x, inside)), inside);
}
""")
define("fn wt_bf16_round(x: f32) -> f32 { return bitcast<f32>(wt_f32_to_bf16_bits(x) << 16u); }")
define("""
// binary16 bits, round to nearest even, overflow to infinity. pack2x16float may round and saturate as it likes.
fn wt_f32_to_f16_bits(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if (bits > 0x7f800000u) { return sign | 0x7e00u; }
  if (bits >= 0x47800000u) { return sign | 0x7c00u; }
  if (bits >= 0x38800000u) {
    let shifted = bits - 0x38000000u;
    return sign | ((shifted + 0xfffu + ((shifted >> 13u) & 1u)) >> 13u);
  }
  let exponent = bits >> 23u;
  if (exponent < 102u) { return sign; }
  let significand = (bits & 0x7fffffu) | 0x800000u;
  let shift = 126u - exponent;
  let tail = significand & ((1u << shift) - 1u);
  let middle = 1u << (shift - 1u);
  let head = significand >> shift;
  return sign | (head + select(0u, 1u, (tail > middle) | ((tail == middle) & ((head & 1u) == 1u))));
}
""")
define("""
// A number computed as binary16 that may have been left in f32: rounded to nearest even, overflow to infinity. Idempotent.
fn wt_half_rounded(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) { return wt_f16_bits_to_f32(wt_f32_to_f16_bits(x)); }
  let rounded = bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
  let infinite = bitcast<f32>((bits & 0x80000000u) | 0x7f800000u);
  let finite = select(rounded, infinite, magnitude >= 0x477ff000u);
  return select(finite, x, magnitude > 0x7f800000u);
}
""")
define("""
fn wt_f16_bits_to_f32(bits: u32) -> f32 {
  let sign = (bits & 0x8000u) << 16u;
  let magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13u)); }
  if (magnitude < 0x400u) { return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8)); }
  return bitcast<f32>(sign | ((magnitude + 0x1c000u) << 13u));
}
""")
#: for adapters whose own packing rounds to nearest even
PACKED_HALVES = (
    described("""
// binary16 bits, round to nearest even, overflow to infinity.
fn wt_f32_to_f16_bits(x: f32) -> u32 {
  let magnitude = bitcast<u32>(x) & 0x7fffffffu;
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  return select(pack2x16float(vec2<f32>(x, 0.0)), sign | 0x7e00u, magnitude > 0x7f800000u);
}
"""),
    described("""
// A number computed as binary16 that may have been left in f32: rounded to nearest even, overflow to infinity. Idempotent.
// The sign goes its own way: drivers were seen to leave out unpacking what was just packed.
fn wt_half_rounded(x: f32) -> f32 {
  return unpack2x16float(pack2x16float(vec2<f32>(abs(x), 0.0)) | ((bitcast<u32>(x) >> 16u) & 0x8000u)).x;
}
"""),
)
