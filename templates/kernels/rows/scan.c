// Inclusive prefix sums of the rows of a matrix, float32; TASK_ROWS rows per task. The sums within a vector are those of
// Hillis and Steele ("Data parallel algorithms", 1986), in log2(LANES) steps; what precedes a vector is added to each.

// The lane that is `by` lanes before lane i, or one of the second vector.
#define BEFORE(i, by) ((i) >= (by) ? (i) - (by) : LANES)
#define BEFORE_1(i) BEFORE(i, 1)
#define BEFORE_2(i) BEFORE(i, 2)
#define BEFORE_4(i) BEFORE(i, 4)
#define BEFORE_8(i) BEFORE(i, 8)
#define LAST(i) (LANES - 1)

// Minus zero is the identity of sums: it keeps the sign of a zero.
INLINED vec scan(vec v) {
  const vec none = all(-0.0f);
  v += SHUFFLE(v, none, ORDER(BEFORE_1));
  v += SHUFFLE(v, none, ORDER(BEFORE_2));
#if LANES >= 8
  v += SHUFFLE(v, none, ORDER(BEFORE_4));
#endif
#if LANES == 16
  v += SHUFFLE(v, none, ORDER(BEFORE_8));
#endif
  return v;
}

void cumsum(const float* restrict data, float* restrict out) {
  const int whole = COLUMNS - COLUMNS % LANES;
  // Waking other threads takes longer than the smallest matrices.
#pragma omp parallel for schedule(static) if ((size_t)BATCH * COLUMNS > 30000)
  for (int task = 0; task < BATCH; task += TASK_ROWS)
    for (int row = task; row < SMALLER(task + TASK_ROWS, BATCH); ++row) {
      const float* from = data + (size_t)row * COLUMNS;
      float* to = out + (size_t)row * COLUMNS;
      vec before = all(-0.0f);
#pragma GCC unroll 4
      for (int i = 0; i < whole; i += LANES) {
        const vec sums = scan(*(const vec*)(from + i));
        *(vec*)(to + i) = before + sums;
        before += SHUFFLE(sums, sums, ORDER(LAST));
      }
      if (whole < COLUMNS) {
        const vec sums = scan(loaded(from + whole, COLUMNS - whole, all(0)));
        stored(to + whole, COLUMNS - whole, before + sums);
      }
    }
}
