// An elementwise function of several arrays of float32 with broadcasting. A task computes TASK elements, in runs of
// neighbours of at most RUN, in which each operand is one number or goes on by one: BEGIN_RUN finds the operands of a
// run, FETCH_EACH prefetches them, LOAD_EACH those of an element, and EXPRESSION is the function of the operands `x(i)`.
#define x(i) x_##i
// While a block of elements is computed, the cache lines of a later one are prefetched, also those that are written: of
// many operations per element, the processor holds too few elements at a time to wait for none. Floats of a cache line.
#define BLOCK 64
#define AHEAD 256
#define LINE 16
#define IS_FAR (SIZE > 1 << 17)

// log and exp by fewer operations, of numbers for which these suffice: log of what is neither denormal nor special, exp
// of -104 to 104. Others make `largest` at least RARE, and their block is computed again, before any of it is written: the
// result may be in the place of an operand.
#define RARE 0x7f000000u
INLINED void note(unsigned number, unsigned* largest) { *largest = number > *largest ? number : *largest; }
INLINED float usual_log(float v, unsigned* largest) {
  note(float_to_bits(v) - 0x00800000u, largest);
  return log_of_bits_f32(float_to_bits(v));
}
INLINED float usual_exp(float v, unsigned* largest) {
  note((float_to_bits(v) & 0x7fffffffu) + (RARE - 0x42d00000u), largest);
  return exp_bounded_f32(v);
}
#define log_f32(v) (is_usual ? usual_log(v, &largest) : log_f32(v))
#define exp_f32(v) (is_usual ? usual_exp(v, &largest) : exp_f32(v))
#define COMPUTE(result, begin, end, usual)   \
  {                                          \
    const int is_usual = usual;              \
    for (long j = begin; j < end; ++j) {     \
      LOAD_EACH                              \
      result = EXPRESSION;                   \
    }                                        \
    (void)is_usual;                          \
  }

// In the function of the parallel loop GCC would keep fewer constants in registers.
__attribute__((noinline)) static void one_task(long at, const long end, INPUTS, float* restrict out) {
  while (at < end) {
    const long row = at / RUN, column = at % RUN, left = RUN - column;
    const long count = left < end - at ? left : end - at;
    BEGIN_RUN
    float* restrict to = out + at;
    long next = 0;
    for (; next + BLOCK <= count; next += BLOCK) {
      if (IS_FAR)
        for (long ahead = next + AHEAD; ahead < next + AHEAD + BLOCK; ahead += LINE) {
          FETCH_EACH
          __builtin_prefetch(to + ahead, 1);
        }
      unsigned largest = 0;
#if SHORTENED
      float block[BLOCK];
      COMPUTE(block[j - next], next, next + BLOCK, 1)
      if (largest < RARE) {
        for (long j = 0; j < BLOCK; ++j) to[next + j] = block[j];
        continue;
      }
#endif
      COMPUTE(to[j], next, next + BLOCK, 0)
    }
    unsigned largest = 0;
    COMPUTE(to[j], next, count, 0)
    at += count;
  }
}

void elementwise(INPUTS, float* restrict out) {
  // Waking other threads takes longer than the smallest arrays.
#pragma omp parallel for schedule(static) if (SIZE > 30000)
  for (long at = 0; at < SIZE; at += TASK) one_task(at, at + TASK < SIZE ? at + TASK : SIZE, PASSED, out);
}
