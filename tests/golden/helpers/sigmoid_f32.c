static inline __attribute__((always_inline)) float sigmoid_f32(float x) {
  const float below = -fabsf(x);
  const float e = exp_bounded_f32(select_f32(below < -104.0f, -104.0f, below));
  return select_f32(x < 0.0f, e, 1.0f) / (1.0f + e);
}
