"""Functions of float32 for C whose loops compilers vectorise, unlike those of the C library.

They have no branches, and the values of the library's for NaNs, infinities, zeros and denormal
numbers. Of others errors are less than 1.6 units in the last place (`exp`), 1.1 (`log`), 2.1
(`log1p`), 2.9 (`sigmoid`), 5.1 (`tanh`, `erf`). The polynomials of `exp` and `log` and the
quotients of polynomials of `tanh` and `erf` are minimax approximations, found by least squares
whose weights grow where errors are large (C. L. Lawson, 1961); but for `log`, coefficients were
moved by units in the last place to where rounding errors are least.
"""

from __future__ import annotations

from collections.abc import Iterable

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
# x is h * 2 ln(2) + r, and e^r is multiplied by 2^h twice, so that results may be denormal. Adding
# 1.5 * 2^23 rounds to an integer, which is then in the last bits, here as a biased exponent.
_EXP = """// exp(x) of numbers from -104 to 104, and of NaNs.
{word} float exp_bounded_f32(float x) {{
  const float shifted = x * 0.721347511f + 12583039.0f, h = shifted - 12583039.0f;
  const float r = (x - h * 1.38671875f) + h * 4.24388883e-4f;
  float p = r * 1.960673981e-4f + 1.410841593e-3f;
  p = p * r + 8.336212486e-3f;
  p = p * r + 4.166107252e-2f;
  p = p * r + 0.1666661054f;
  p = p * r + 0.5000003576f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float power = bits_to_float(float_to_bits(shifted) << 23);
  return p * power * power;
}}
{word} float exp_f32(float x) {{
  const float above = select_f32(x < -104.0f, -104.0f, x);
  return exp_bounded_f32(select_f32(above > 104.0f, 104.0f, above));
}}
"""
# x is 2^n (1 + f) with f from -1/3 to 1/3, and `power` is n * 2^23. Denormal numbers are scaled
# first. What is added last is zero for positive finite numbers: infinity and NaNs have their own
# value, zeros -inf, negative numbers NaN.
_LOG = """// log of a positive number, neither denormal nor infinite, that has these bits.
{word} float log_of_bits_f32(unsigned bits) {{
  const unsigned power = (bits - 0x3f2aaaabu) & 0xff800000u;
  const float f = bits_to_float(bits - power) - 1.0f, square = f * f;
  float p = f * -0.128916830f + 0.139844388f;
  p = p * f - 0.121842615f;
  p = p * f + 0.140058681f;
  p = p * f - 0.16680488f;
  p = p * f + 0.200104058f;
  p = p * f - 0.249997973f;
  p = p * f + 0.333332151f;
  p = p * f - 0.5f;
  return (float)(int)power * (0.693147182f / 8388608) + (p * square + f);
}}
{word} float log_f32(float x) {{
  const unsigned scaled = float_to_bits(x * 8388608.0f) - (23u << 23);
  const float usual = log_of_bits_f32(
      float_to_bits(select_f32(x < 1.17549435e-38f, bits_to_float(scaled), x)));
  const unsigned below =
      (-(unsigned)(x < 0.0f) & 0x7fc00000u) | (-(unsigned)(x == 0.0f) & 0xff800000u);
  const unsigned above = -(unsigned)!(x < bits_to_float(0x7f800000u)) & float_to_bits(x);
  return usual + bits_to_float(below | above);
}}
"""
# What rounding 1 + x lost is added again; the sign is that of x, also of zeros.
_LOG1P = """{word} float log1p_f32(float x) {{
  const float total = 1.0f + x, lost = (x - (total - 1.0f)) / total;
  const int finite = (total > 0.0f) & (total < bits_to_float(0x7f800000u));
  return copysignf(log_f32(total) + select_f32(finite, lost, 0.0f), x);
}}
"""
_TANH = """{word} float tanh_f32(float x) {{
  const float size = fabsf(x), square = x * x, fourth = square * square;
  const float p = (fourth * 2.058349492e-5f + 0.1337971836f) * square +
      ((fourth * 1.331909072e-8f + 3.494035453e-3f) * fourth + 1.0f);
  const float q = (fourth * 3.283094265e-4f + 0.4671303332f) * square +
      ((fourth * 7.762027394e-7f + 2.587107569e-2f) * fourth + 1.0f);
  return copysignf(select_f32(size > 9.02f, 1.0f, size * p / q), x);
}}
"""
_ERF = """{word} float erf_f32(float x) {{
  const float size = fabsf(x), square = x * x, fourth = square * square;
  float p = fourth * 2.041976131e-6f + 3.779606428e-3f;
  p = (p * fourth + 0.1907836646f) * square +
      ((fourth * 2.848086588e-4f + 5.279026926e-2f) * fourth + 1.128379107f);
  float q = fourth * 3.800413833e-5f + 1.499742642e-2f;
  q = (q * fourth + 0.5024102330f) * square +
      ((fourth * 1.165212016e-3f + 0.1142574996f) * fourth + 1.0f);
  return copysignf(select_f32(size > 3.92f, 1.0f, size * p / q), x);
}}
"""
# Of exp(-|x|), which cannot overflow, so that results of the smallest arguments are denormal.
_SIGMOID = """{word} float sigmoid_f32(float x) {{
  const float below = -fabsf(x);
  const float e = exp_bounded_f32(select_f32(below < -104.0f, -104.0f, below));
  return select_f32(x < 0.0f, e, 1.0f) / (1.0f + e);
}}
"""
# What else a helper needs.
_NEEDS_EXP = ("select_f32", "exp_f32")
NEEDS = {
    "exp_f32": ("select_f32",),
    "log_f32": ("select_f32",),
    "log1p_f32": ("math.h", "select_f32", "log_f32"),
    "tanh_f32": ("math.h", "select_f32"),
    "erf_f32": ("math.h", "select_f32"),
    "sigmoid_f32": ("math.h", *_NEEDS_EXP),
}
# In the order in which they are defined.
HELPERS = {
    name: text.format(word=INLINED)
    for name, text in (
        ("select_f32", _BITS), ("exp_f32", _EXP), ("log_f32", _LOG), ("log1p_f32", _LOG1P),
        ("tanh_f32", _TANH), ("erf_f32", _ERF), ("sigmoid_f32", _SIGMOID),
    )
}  # fmt: skip
FUNCTIONS = {
    name: f"#{name}_f32({{0}})" for name in ("exp", "log", "log1p", "tanh", "erf", "sigmoid")
}


def text_of(names: Iterable[str]) -> str:
    """Return the definitions of helpers, in order."""
    wanted = set(names)
    return "".join(text for name, text in HELPERS.items() if name in wanted)
