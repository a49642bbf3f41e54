// A function of one number that follows the sums of a kernel, ACTIVATION_FUNCTION of `x(0)`: applied to what a task wrote,
// while that is in the cache, so that loops of sums keep their registers.
#ifdef ACTIVATION_FUNCTION
#define x(i) x_##i
__attribute__((noinline)) static void follow(float* restrict row, const long count) {
  for (long j = 0; j < count; ++j) {
    const float x_0 = row[j];
    row[j] = ACTIVATION_FUNCTION;
  }
}
#undef x
// Applies it to rows of `count` neighbours, `pitch` floats apart.
static inline void follow_rows(float* first, int rows, size_t pitch, long count) {
  for (int i = 0; i < rows; ++i) follow(first + i * pitch, count);
}
#else
#define follow_rows(first, rows, pitch, count)
#endif
