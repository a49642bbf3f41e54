"""Functions of float32 for C whose loops compilers vectorise, unlike those of the C library.

They have no branches, errors of about one unit in the last place, and the values of the library's
for NaNs, infinities, zeros and denormal numbers. Coefficients of `log` and `tanh` are those of
Cephes (S. L. Moshier), the polynomials of `erf` those of N. Juffa.
"""

from __future__ import annotations

from autotune.codegen.lane_loops import INLINED

_BITS = """{word} unsigned float_to_bits(float value) {{
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}}
{word} float bits_to_float(unsigned bits) {{
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}}
// Selects without a branch, under which compilers would compute an operand and not vectorise it.
{word} float select_f32(int condition, float a, float b) {{
  const unsigned mask = -(unsigned)condition;
  return bits_to_float((mask & float_to_bits(a)) | (~mask & float_to_bits(b)));
}}
"""
# Adding 1.5 * 2^23 rounds to an integer, which is then in the last bits. Powers of two are
# multiplied in halves, so that results may be denormal.
_EXP = """{word} float exp_f32(float x) {{
  const float above = x < -104.0f ? -104.0f : x, y = above > 89.0f ? 89.0f : above;
  const float shifted = y * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = r * 1.98412698e-4f + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const unsigned power = float_to_bits(shifted) - 0x4b400000u, half = (unsigned)((int)power >> 1);
  return p * bits_to_float((half + 127u) << 23) * bits_to_float((power - half + 127u) << 23);
}}
"""
_LOG = """{word} float log_f32(float x) {{
  const unsigned given = float_to_bits(x), is_tiny = given < 0x00800000u;
  const unsigned bits = float_to_bits(select_f32(is_tiny, x * 8388608.0f, x));
  const int power = (int)(bits - 0x3f3504f3u) >> 23;
  const float f = bits_to_float(bits - ((unsigned)power << 23)) - 1.0f, square = f * f;
  const float n = (float)(power - 23 * (int)is_tiny);
  float p = f * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  p = p * f * square - n * 2.12194440e-4f;
  const float usual = (f + (p - 0.5f * square)) + n * 0.693359375f;
  // -inf of zeros, inf of inf, NaN of negative numbers and NaNs.
  const float other = select_f32(given == 0x7f800000u, x, bits_to_float(0x7fc00000u));
  const float unusual = select_f32((given << 1) == 0u, bits_to_float(0xff800000u), other);
  return select_f32(given - 1u < 0x7f7fffffu, usual, unusual);
}}
"""
_TANH = """{word} float tanh_f32(float x) {{
  const float size = fabsf(x), square = x * x;
  float p = square * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float large = 1.0f - 2.0f / (exp_f32(size + size) + 1.0f);
  return copysignf(select_f32(size < 0.625f, p * square * size + size, large), x);
}}
"""
_ERF = """{word} float erf_f32(float x) {{
  const float size = fabsf(x), square = x * x;
  float p = (-1.72853470e-5f * size + 3.83197126e-4f) * square;
  p = p + (-3.88396438e-3f * size + 2.42546219e-2f);
  p = p * size - 1.06777877e-1f;
  p = p * size - 6.34846687e-1f;
  p = p * size - 1.28717512e-1f;
  p = p * size - size;
  const float large = 1.0f - exp_f32(p);
  float q = square * -5.96761703e-4f + 4.99119423e-3f;
  q = q * square - 2.67681349e-2f;
  q = q * square + 1.12819925e-1f;
  q = q * square - 3.76125336e-1f;
  q = q * square + 1.28379166e-1f;
  return copysignf(select_f32(size > 0.927734375f, large, q * size + size), x);
}}
"""
_SIGMOID = """{word} float sigmoid_f32(float x) {{
  return 1.0f / (1.0f + exp_f32(-x));
}}
"""
# What else a helper needs.
_NEEDS_EXP = ("select_f32", "exp_f32")
NEEDS = {
    "exp_f32": ("select_f32",),
    "log_f32": ("select_f32",),
    "tanh_f32": ("math.h", *_NEEDS_EXP),
    "erf_f32": ("math.h", *_NEEDS_EXP),
    "sigmoid_f32": _NEEDS_EXP,
}
# In the order in which they are defined.
HELPERS = {
    name: text.format(word=INLINED)
    for name, text in (
        ("select_f32", _BITS), ("exp_f32", _EXP), ("log_f32", _LOG), ("tanh_f32", _TANH),
        ("erf_f32", _ERF), ("sigmoid_f32", _SIGMOID),
    )
}  # fmt: skip
FUNCTIONS = {name: f"#{name}_f32({{0}})" for name in ("exp", "log", "tanh", "erf", "sigmoid")}
