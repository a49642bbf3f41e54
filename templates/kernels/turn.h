// Turns blocks of LANES vectors: element j of vector i becomes element i of vector j.
#if LANES == 16
#define EVEN 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ODD 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define EVEN 0, 8, 1, 9, 2, 10, 3, 11
#define ODD 4, 12, 5, 13, 6, 14, 7, 15
#else
#define EVEN 0, 4, 1, 5
#define ODD 2, 6, 3, 7
#endif
// GCC has the name that Clang gives it from version 12 on.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define WOVEN(a, b, ...) __builtin_shuffle(a, b, (bits){__VA_ARGS__})
#else
#define WOVEN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif

// Weaving both halves of a block into one another moves a bit of the number of a vector into the
// number of its elements; after as many times as there are bits, both have changed places.
INLINED void turn(vec block[LANES]) {
#pragma GCC unroll 4
  for (int times = 1; times < LANES; times *= 2) {
    vec woven[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES / 2; ++i) {
      woven[2 * i] = WOVEN(block[i], block[i + LANES / 2], EVEN);
      woven[2 * i + 1] = WOVEN(block[i], block[i + LANES / 2], ODD);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) block[i] = woven[i];
  }
}
