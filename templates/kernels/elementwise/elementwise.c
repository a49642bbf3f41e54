// An elementwise function of several arrays of float32 with broadcasting. A task computes TASK elements, in runs of
// neighbours of at most RUN, in which each operand is one number or goes on by one: BEGIN_RUN finds the operands of a
// run, LOAD_EACH those of an element, and EXPRESSION is the function of the operands `x(i)`.
#define x(i) x_##i

#define INLINED static inline __attribute__((always_inline))

INLINED float rsqrt(float v) { return 1.0f / sqrtf(v); }
// Results are NaN where an operand is.
INLINED float relu(float v) { return select_f32(v < 0.0f, 0.0f, v); }
INLINED float larger(float a, float b) { return select_f32((a > b) | (a != a), a, b); }
INLINED float smaller(float a, float b) { return select_f32((a < b) | (a != a), a, b); }
INLINED float gelu(float v) { return 0.5f * v * (1.0f + erf_f32(v * 0.70710678f)); }

static void one_task(long at, const long end, INPUTS, float* restrict out) {
  while (at < end) {
    const long row = at / RUN, column = at % RUN, left = RUN - column;
    const long count = left < end - at ? left : end - at;
    BEGIN_RUN
    float* restrict to = out + at;
    for (long j = 0; j < count; ++j) {
      LOAD_EACH
      to[j] = EXPRESSION;
    }
    at += count;
  }
}

void elementwise(INPUTS, float* restrict out) {
  // Waking other threads takes longer than the smallest arrays.
#pragma omp parallel for schedule(static) if (SIZE > 30000)
  for (long at = 0; at < SIZE; at += TASK) one_task(at, at + TASK < SIZE ? at + TASK : SIZE, PASSED, out);
}
