// Loads of every SX-th float, for SX of one and two; panels of such lines of an image are packed once if they are read
// in place, see panel.h.
#define COPIED (IN_PLACE && (SX > 1 || SY > 1))
#define STRETCH SX
#define COMING (SY * IW)
#if SX == 2 && LANES == 16
#define EVERY_SECOND(a, b) SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#elif SX == 2 && LANES == 8
// In two steps, neither of which needs a register of indices: that would be taken from the sums.
#define EVERY_SECOND(a, b) in_order(SHUFFLE(a, b, 0, 2, 9, 11, 4, 6, 13, 15))
INLINED vec in_order(const vec quarters) {
  typedef double pairs __attribute__((vector_size(32), may_alias));
  return (vec)__builtin_shuffle((pairs)quarters, (long long __attribute__((vector_size(32)))){0, 2, 1, 3});
}
#elif SX == 2
#define EVERY_SECOND(a, b) SHUFFLE(a, b, 0, 2, 5, 7)
#endif

#ifdef EVERY_SECOND
// Selects every second of `count` floats, a vector at most. The second part starts one element early, so that none
// beyond the last one is read.
INLINED vec load_every_second(const float* from, const int count) {
  if (count >= LANES) return EVERY_SECOND(*(const vec*)from, *(const vec*)(from + LANES - 1));
  const vec first = load_some(from, SMALLER(LANES, LARGER(0, 2 * count - 1)));
  if (2 * count <= LANES) return EVERY_SECOND(first, (vec){0});
  return EVERY_SECOND(first, load_some(from + LANES - 1, 2 * count - LANES));
}
#if COPIED
// Loads vector `v` of the first `wide` columns of a register tile.
#define LOAD_COPIED(row, v, wide) load_every_second(row + 2 * (v) * LANES, wide - (v) * LANES)
#endif
#endif

// Copies every SX-th element, `count` of them. The last vector overlaps the one before.
INLINED void gather(float* restrict to, const float* restrict from, const int count) {
#if SX == 1
  copy_floats(to, from, count);
  return;
#endif
#ifdef EVERY_SECOND
  for (int x = 0; count >= LANES; x = SMALLER(x + LANES, count - LANES)) {
    *(vec*)(to + x) = load_every_second(from + 2 * x, LANES);
    if (x + LANES == count) return;
  }
#endif
  for (int x = 0; x < count; ++x) to[x] = from[x * SX];
}
