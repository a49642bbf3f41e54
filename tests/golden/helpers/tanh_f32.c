static inline __attribute__((always_inline)) float tanh_f32(float x) {
  const float size = fabsf(x), square = x * x, fourth = square * square;
  const float p = (fourth * 2.058349492e-5f + 0.1337971836f) * square +
      ((fourth * 1.331909072e-8f + 3.494035453e-3f) * fourth + 1.0f);
  const float q = (fourth * 3.283094265e-4f + 0.4671303332f) * square +
      ((fourth * 7.762027394e-7f + 2.587107569e-2f) * fourth + 1.0f);
  return copysignf(select_f32(size > 9.02f, 1.0f, size * p / q), x);
}
