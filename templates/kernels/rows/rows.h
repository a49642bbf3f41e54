// Vectors of a row: loads and stores of its remainder, and reductions of all lanes.

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

// Independent accumulators, which hide the latency of an operation.
#define ACCUMULATORS 4
// Combines the vectors of `count` elements by a function: `at(i, n, other)` is the vector of element i and those after
// it, with `other` in the lanes from n on.
#define REDUCE_ROW(result, count, identity, by, at)                                             \
  do {                                                                                          \
    const vec none = (identity);                                                                \
    const int end = (count);                                                                    \
    vec states[ACCUMULATORS];                                                                   \
    int i = 0;                                                                                  \
    _Pragma("GCC unroll 4") for (int s = 0; s < ACCUMULATORS; ++s) states[s] = none;            \
    for (; i + ACCUMULATORS * LANES <= end; i += ACCUMULATORS * LANES)                          \
      _Pragma("GCC unroll 4") for (int s = 0; s < ACCUMULATORS; ++s)                            \
          states[s] = by(states[s], at(i + s * LANES, LANES, none));                            \
    for (; i + LANES <= end; i += LANES) states[0] = by(states[0], at(i, LANES, none));         \
    if (i < end) states[1] = by(states[1], at(i, end - i, none));                               \
    result = by(by(states[0], states[1]), by(states[2], states[3]));                            \
    REDUCE(result, by);                                                                         \
  } while (0)

INLINED vec all(float value) { return value - (vec){0}; }
INLINED vec pick(bits first, vec a, vec b) { return (vec)((first & (bits)a) | (~first & (bits)b)); }
INLINED vec plus(vec a, vec b) { return a + b; }
// The larger one; of a NaN and a number b.
INLINED vec larger(vec a, vec b) { return pick(a > b, a, b); }

// Loads the first `count` elements of a vector, with `other` in the lanes beyond.
INLINED vec loaded(const float* from, int count, vec other) {
  if (count == LANES) return *(const vec*)from;
  bits lanes;
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j) lanes[j] = j;
  return pick(lanes < count, load_some(from, count), other);
}

INLINED void stored(float* to, int count, vec what) {
  if (count == LANES) *(vec*)to = what;
  else store_some(to, what, count);
}
