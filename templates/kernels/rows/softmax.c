// Softmax over the rows of a matrix, float32; TASK_ROWS rows per task. With KEEP exponentials are stored, then scaled;
// without, they are computed twice and stored once. The remainder of a row, which does not fill a vector, is loaded
// with -inf in the other lanes, whose exponential is 0.
#define REMAINDER (COLUMNS % LANES)
#define WHOLE (COLUMNS - REMAINDER)
// Independent accumulators of the maximum, which hide the latency of comparing and selecting.
#define ACCUMULATORS 4

#if LANES == 16
#define ORDER(a) a(0), a(1), a(2), a(3), a(4), a(5), a(6), a(7), a(8), a(9), a(10), a(11), a(12), a(13), a(14), a(15)
#elif LANES == 8
#define ORDER(a) a(0), a(1), a(2), a(3), a(4), a(5), a(6), a(7)
#else
#define ORDER(a) a(0), a(1), a(2), a(3)
#endif
#define XOR_8(i) ((i) ^ 8)
#define XOR_4(i) ((i) ^ 4)
#define XOR_2(i) ((i) ^ 2)
#define XOR_1(i) ((i) ^ 1)

// A butterfly reduction: combines all lanes of a vector by a function, in each lane of the result.
#if LANES == 16
#define REDUCE_EIGHTHS(v, by) v = by(v, SHUFFLE(v, v, ORDER(XOR_8)))
#else
#define REDUCE_EIGHTHS(v, by)
#endif
#if LANES >= 8
#define REDUCE_FOURTHS(v, by) v = by(v, SHUFFLE(v, v, ORDER(XOR_4)))
#else
#define REDUCE_FOURTHS(v, by)
#endif
#define REDUCE(v, by)                               \
  do {                                              \
    REDUCE_EIGHTHS(v, by);                          \
    REDUCE_FOURTHS(v, by);                          \
    v = by(v, SHUFFLE(v, v, ORDER(XOR_2)));         \
    v = by(v, SHUFFLE(v, v, ORDER(XOR_1)));         \
  } while (0)

INLINED vec larger(vec a, vec b) {
  const bits first = a > b;
  return (vec)((first & (bits)a) | (~first & (bits)b));
}

INLINED vec plus(vec a, vec b) { return a + b; }

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

// Loads `count` columns of a row from `i` on.
INLINED vec loaded(const float* row, const int i, const int count) {
  if (count == LANES) return *(const vec*)(row + i);
  bits exists;
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j) exists[j] = -(j < count);
  return (vec)(((bits)load_some(row + i, count) & exists) | ((bits)((vec){0} - __builtin_inff()) & ~exists));
}

INLINED void stored(float* row, const int i, const int count, const vec what) {
  if (count == LANES) *(vec*)(row + i) = what;
  else store_some(row + i, what, count);
}

// Writes the exponentials of a vector, if they are kept, and adds them to the sum.
INLINED void raise(const float* from, float* to, const int i, const int count, vec top, vec* sum) {
  const vec p = power(loaded(from, i, count) - top);
  *sum += p;
  if (KEEP) stored(to, i, count, p);
}

INLINED void scale(
    const float* from, float* to, const int i, const int count, vec top, vec factor) {
  stored(to, i, count, (KEEP ? loaded(to, i, count) : power(loaded(from, i, count) - top)) * factor);
}

static void one_row(const float* restrict from, float* restrict to) {
  vec tops[ACCUMULATORS], sum = {0};
  int i = 0;
#pragma GCC unroll 4
  for (int s = 0; s < ACCUMULATORS; ++s) tops[s] = (vec){0} - __builtin_inff();
  for (; i + ACCUMULATORS * LANES <= COLUMNS; i += ACCUMULATORS * LANES)
#pragma GCC unroll 4
    for (int s = 0; s < ACCUMULATORS; ++s) tops[s] = larger(*(const vec*)(from + i + s * LANES), tops[s]);
#pragma GCC unroll 4
  for (; i < WHOLE; i += LANES) tops[0] = larger(*(const vec*)(from + i), tops[0]);
  if (REMAINDER) tops[1] = larger(loaded(from, WHOLE, REMAINDER), tops[1]);
  vec top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
  REDUCE(top, larger);
#pragma GCC unroll 2
  for (int i = 0; i < WHOLE; i += LANES) raise(from, to, i, LANES, top, &sum);
  if (REMAINDER) raise(from, to, WHOLE, REMAINDER, top, &sum);
  REDUCE(sum, plus);
  const vec factor = 1.0f / sum;
#pragma GCC unroll 4
  for (int i = 0; i < WHOLE; i += LANES) scale(from, to, i, LANES, top, factor);
  if (REMAINDER) scale(from, to, WHOLE, REMAINDER, top, factor);
}

void softmax(const float* restrict data, float* restrict out) {
  // Waking other threads takes longer than the smallest matrices.
#pragma omp parallel for schedule(static) if ((size_t)BATCH * COLUMNS > 30000)
  for (int task = 0; task < BATCH; task += TASK_ROWS)
    for (int row = task; row < SMALLER(task + TASK_ROWS, BATCH); ++row)
      one_row(data + (size_t)row * COLUMNS, out + (size_t)row * COLUMNS);
}
