// Softmax over the rows of a matrix, float32, or with LOGARITHM the logarithm of it; TASK_ROWS rows per task. With KEEP
// exponentials are stored, then scaled; without, they are computed twice and stored once. The remainder of a row, which
// does not fill a vector, is loaded with -inf in the other lanes, whose exponential is 0.

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
