static inline __attribute__((always_inline)) float erf_f32(float x) {
  const float size = fabsf(x), square = x * x, fourth = square * square;
  float p = fourth * 2.041976131e-6f + 3.779606428e-3f;
  p = (p * fourth + 0.1907836646f) * square +
      ((fourth * 2.848086588e-4f + 5.279026926e-2f) * fourth + 1.128379107f);
  float q = fourth * 3.800413833e-5f + 1.499742642e-2f;
  q = (q * fourth + 0.5024102330f) * square +
      ((fourth * 1.165212016e-3f + 0.1142574996f) * fourth + 1.0f);
  return copysignf(select_f32(size > 3.92f, 1.0f, size * p / q), x);
}
