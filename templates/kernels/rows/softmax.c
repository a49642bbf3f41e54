// Softmax over the rows of a matrix, float32; TASK_ROWS rows per task. With KEEP exponentials are stored, then scaled;
// without, they are computed twice and stored once.
#include <stdint.h>
#include <string.h>

// exp(x) for x <= 0: 2^n times a polynomial of the reduced argument, to about 1e-7; 0 below
// 2^-126.5, as for masked elements. The library's expf does not vectorise without
// -ffast-math.
static inline __attribute__((always_inline)) float power(float x) {
  x = x < -88.0f ? -88.0f : x;  // n is -127 there, and the scale 0
  const int n = (int)(x * 1.44269504f - 0.5f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = (n + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

static void one_row(const float* restrict from, float* restrict to) {
  float top = from[0], sum = 0.0f;
#pragma omp simd simdlen(LANES) reduction(max : top)
  for (int i = 0; i < COLUMNS; ++i) top = from[i] > top ? from[i] : top;
#pragma omp simd simdlen(LANES) reduction(+ : sum)
  for (int i = 0; i < COLUMNS; ++i) {
    const float p = power(from[i] - top);
    sum += p;
#if KEEP
    to[i] = p;
#endif
  }
  const float scale = 1.0f / sum;
#pragma omp simd simdlen(LANES)
  for (int i = 0; i < COLUMNS; ++i) to[i] = (KEEP ? to[i] : power(from[i] - top)) * scale;
}

void softmax(const float* restrict data, float* restrict out) {
#pragma omp parallel for schedule(static)
  for (int task = 0; task < BATCH; task += TASK_ROWS)
    for (int row = task; row < task + TASK_ROWS && row < BATCH; ++row)
      one_row(data + (size_t)row * COLUMNS, out + (size_t)row * COLUMNS);
}
