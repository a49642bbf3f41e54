// exp(x) of numbers from -104 to 104, and of NaNs.
static inline __attribute__((always_inline)) float exp_bounded_f32(float x) {
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
}
static inline __attribute__((always_inline)) float exp_f32(float x) {
  const float above = select_f32(x < -104.0f, -104.0f, x);
  return exp_bounded_f32(select_f32(above > 104.0f, 104.0f, above));
}
