// Softmax over the rows of a matrix, float32, or with LOGARITHM the logarithm of it; TASK_ROWS rows per task. With KEEP
// exponentials are stored, then scaled; without, they are computed twice and stored once. The remainder of a row, which
// does not fill a vector, is loaded with -inf in the other lanes, whose exponential is 0.

// exp(x) for x <= 0: 2^n times a polynomial of the reduced argument, to about 1e-7; 0 below -87.3, where results are
// denormal, as for masked elements. The library's expf does not vectorise without -ffast-math.
INLINED vec power(const vec x) {
  // Adding 1.5 * 2^23, whose last bit has the weight 1, rounds to an integer, which is in the last bits of the sum.
  const vec round = (vec){0} + 12582912.0f, shifted = x * 1.44269504f + round, n = shifted - round;
  const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  vec p = r * 1.98412698e-4f + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Multiplied, not added to the exponent: a NaN stays one, whatever its other bits are.
  const vec scaled = p * (vec)(((bits)shifted << 23) + 0x3f800000);
  return (vec)((bits)scaled & ~(x < -87.3f));
}

// Writes the exponentials of a vector, if they are kept, and adds them to the sum.
INLINED void raise(const float* from, float* to, int count, vec top, vec* sum) {
  const vec p = power(loaded(from, count, all(-__builtin_inff())) - top);
  *sum += p;
  if (KEEP) stored(to, count, p);
}

// Writes the results of a vector: `factor` is that of exponentials, or the logarithm of their sum.
INLINED void scale(const float* from, float* to, int count, vec top, vec factor) {
  vec x = loaded(KEEP ? to : from, count, top);
  if (LOGARITHM) x = x - top - factor;
  else if (KEEP) x *= factor;
  else x = power(x - top) * factor;
  stored(to, count, x);
}

static void one_row(const float* restrict from, float* restrict to) {
  const int remainder = COLUMNS % LANES, whole = COLUMNS - remainder;
  vec top, sum = {0};
#define ELEMENTS(i, n, other) loaded(from + (i), n, other)
  REDUCE_ROW(top, COLUMNS, all(-__builtin_inff()), larger, ELEMENTS);
#pragma GCC unroll 2
  for (int i = 0; i < whole; i += LANES) raise(from + i, to + i, LANES, top, &sum);
  if (remainder) raise(from + whole, to + whole, remainder, top, &sum);
  REDUCE(sum, plus);
  vec factor = 1.0f / sum;
  if (LOGARITHM) factor = all(__builtin_logf(sum[0]));
#pragma GCC unroll 4
  for (int i = 0; i < whole; i += LANES) scale(from + i, to + i, LANES, top, factor);
  if (remainder) scale(from + whole, to + whole, remainder, top, factor);
}

void softmax(const float* restrict data, float* restrict out) {
  // Waking other threads takes longer than the smallest matrices.
#pragma omp parallel for schedule(static) if ((size_t)BATCH * COLUMNS > 30000)
  for (int task = 0; task < BATCH; task += TASK_ROWS)
    for (int row = task; row < SMALLER(task + TASK_ROWS, BATCH); ++row)
      one_row(data + (size_t)row * COLUMNS, out + (size_t)row * COLUMNS);
}
