// Transposes a block of LANES vectors: element j of vector i becomes element i of vector j. First 4 x 4 elements within
// each 128-bit lane, as the shuffle instructions do, then the lanes.
#if LANES == 16
#define LOW_ONES 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_ONES 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_TWOS 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_TWOS 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_HALF 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_HALF 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#elif LANES == 8
#define LOW_ONES 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_ONES 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_TWOS 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_TWOS 2, 3, 10, 11, 6, 7, 14, 15
#define EVEN_FOURS 0, 1, 2, 3, 8, 9, 10, 11
#define ODD_FOURS 4, 5, 6, 7, 12, 13, 14, 15
#else
#define LOW_ONES 0, 4, 1, 5
#define HIGH_ONES 2, 6, 3, 7
#define LOW_TWOS 0, 1, 4, 5
#define HIGH_TWOS 2, 3, 6, 7
#endif

INLINED void transpose_vectors(vec block[LANES]) {
  vec fours[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < LANES; i += 4) {
    const vec low = SHUFFLE(block[i], block[i + 1], LOW_ONES);
    const vec high = SHUFFLE(block[i], block[i + 1], HIGH_ONES);
    const vec low2 = SHUFFLE(block[i + 2], block[i + 3], LOW_ONES);
    const vec high2 = SHUFFLE(block[i + 2], block[i + 3], HIGH_ONES);
    fours[i] = SHUFFLE(low, low2, LOW_TWOS), fours[i + 1] = SHUFFLE(low, low2, HIGH_TWOS);
    fours[i + 2] = SHUFFLE(high, high2, LOW_TWOS), fours[i + 3] = SHUFFLE(high, high2, HIGH_TWOS);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#if LANES == 16
    const vec low = SHUFFLE(fours[i], fours[i + 4], LOW_HALF);
    const vec high = SHUFFLE(fours[i], fours[i + 4], HIGH_HALF);
    const vec low2 = SHUFFLE(fours[i + 8], fours[i + 12], LOW_HALF);
    const vec high2 = SHUFFLE(fours[i + 8], fours[i + 12], HIGH_HALF);
    block[i] = SHUFFLE(low, low2, EVEN_FOURS), block[i + 4] = SHUFFLE(low, low2, ODD_FOURS);
    block[i + 8] = SHUFFLE(high, high2, EVEN_FOURS), block[i + 12] = SHUFFLE(high, high2, ODD_FOURS);
#elif LANES == 8
    block[i] = SHUFFLE(fours[i], fours[i + 4], EVEN_FOURS);
    block[i + 4] = SHUFFLE(fours[i], fours[i + 4], ODD_FOURS);
#else
    block[i] = fours[i];
#endif
  }
}
