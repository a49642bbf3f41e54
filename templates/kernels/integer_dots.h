// Sums of products of unsigned by signed 8-bit integers, four at a time, for the CPU kernels of quantised layers.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define INLINED static inline __attribute__((always_inline))
#define LANES 16

// Functions of vectors are always inlined, so the calling convention of wide vectors does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
// Calls clobber all vector registers: a loop that copies must not become a call of memcpy.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC optimize("ira-region=one", "no-tree-loop-distribute-patterns")
#endif
// They are read from rows of bytes, too.
typedef int32_t words __attribute__((vector_size(64), aligned(1), may_alias));
typedef words bits;
typedef uint8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define SHUFFLE_BYTES(a, b, ...) __builtin_shuffle(a, b, (bytes16){__VA_ARGS__})
#else
#define SHUFFLE_BYTES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
typedef int32_t word __attribute__((aligned(1), may_alias));

// Signed data become unsigned ones that are 128 larger.
#if DATA_SIGNED
typedef int8_t data_t;
#define FLIPPED (int32_t)0x80808080
#else
typedef uint8_t data_t;
#define FLIPPED 0
#endif

// The result of a layer: floats, or whole numbers that are rounded to the nearest.
#if OUT_FLOAT
typedef float out_t;
#elif OUT_SIGNED
typedef int8_t out_t;
#else
typedef uint8_t out_t;
#endif

// Adds the products of the four bytes of each word, of which those on the left are unsigned.
INLINED words dot(words sum, words left, words right) {
#if defined(__AVX512VNNI__) && defined(__clang__)
  return (words)__builtin_ia32_vpdpbusd512((words)sum, left, right);
#elif defined(__AVX512VNNI__)
  typedef int full __attribute__((vector_size(64)));
  return (words)__builtin_ia32_vpdpbusd_v16si((full)sum, (full)left, (full)right);
#else
  for (int i = 0; i < 4; ++i) sum += ((left >> (8 * i)) & 255) * ((right << (24 - 8 * i)) >> 24);
  return sum;
#endif
}

INLINED words every(int32_t number) { return number - (words){0}; }

// A sum that becomes a result.
INLINED out_t finished(int32_t sum, float scale, float shift) {
  float value = (float)sum * scale + shift;
  value = value < LOW ? LOW : value;
  value = value > HIGH ? HIGH : value;
#if OUT_FLOAT
  return value;
#else
  return (out_t)((int32_t)__builtin_rintf(value) + OUT_ZERO);
#endif
}
