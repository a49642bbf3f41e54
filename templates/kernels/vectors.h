// Vectors of LANES floats, for the CPU kernels.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define INLINED static inline __attribute__((always_inline))

// Works around GCC 12. Tuned for some CPUs, it reloads an operand for each product. With register allocation by loop
// regions, sums are moved between registers from loop to loop. Calls clobber all vector registers: a loop that copies a
// part of a tile must not become a call of memcpy, or the other sums of the tile are spilled.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#pragma GCC optimize("ira-region=one", "no-tree-loop-distribute-patterns")
#endif

// Hides a trip count from the compiler: GCC 12 schedules loops that it unrolls completely so that sums are spilled,
// which takes twice as long.
#define HIDE(number) __asm__("" : "+r"(number))

// Functions of vectors are always inlined, so the calling convention of wide vectors does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Masked loads of the first `count` floats of a vector, the others zero, and masked stores of them. Builtins of GCC and
// Clang, since including <immintrin.h> takes longer than compiling the kernel.
#ifdef __has_builtin
#if defined(__AVX512VL__) && LANES <= 16 && __has_builtin(__builtin_ia32_storeups512_mask)
#define MASK(count) ((1u << (count)) - 1)
#if LANES == 16
#define LOAD(from, mask) __builtin_ia32_loadups512_mask(from, (full){0}, mask)
#define STORE __builtin_ia32_storeups512_mask
#elif LANES == 8
#define LOAD(from, mask) __builtin_ia32_loadups256_mask(from, (full){0}, mask)
#define STORE __builtin_ia32_storeups256_mask
#else
#define LOAD(from, mask) __builtin_ia32_loadups128_mask(from, (full){0}, mask)
#define STORE __builtin_ia32_storeups128_mask
#endif
#elif defined(__AVX2__) && LANES <= 8 && __has_builtin(__builtin_ia32_maskstoreps256)
// A mask is loaded from an offset in this table: one made by a comparison would take a register from the sums.
static const int mask_table[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#define MASK(count) ((full_bits)*(const bits*)(mask_table + 8 - (count)))
#if LANES == 8
#define LOAD(from, mask) __builtin_ia32_maskloadps256((const full*)(from), mask)
#define STORE(to, what, mask) __builtin_ia32_maskstoreps256((full*)(to), mask, what)
#else
#define LOAD(from, mask) __builtin_ia32_maskloadps((const full*)(from), mask)
#define STORE(to, what, mask) __builtin_ia32_maskstoreps((full*)(to), mask, what)
#endif
#endif
#endif
#ifdef STORE
typedef float full __attribute__((vector_size(4 * LANES)));
typedef int full_bits __attribute__((vector_size(4 * LANES)));
INLINED vec load_some(const float* from, int count) { return (vec)LOAD(from, MASK(count)); }
INLINED void store_some(float* to, vec what, int count) { STORE(to, (full)what, MASK(count)); }
#else
INLINED vec load_some(const float* from, int count) {
  vec some = {0};
  for (int j = 0; j < count; ++j) some[j] = from[j];
  return some;
}
INLINED void store_some(float* to, vec what, int count) {
  for (int j = 0; j < count; ++j) to[j] = what[j];
}
#endif

// Copies `count` floats: of constant sizes GCC makes string instructions, which start slowly. The last vector overlaps
// the one before.
INLINED void copy_floats(float* restrict to, const float* restrict from, const int count) {
  for (int x = 0; count >= LANES; x = SMALLER(x + LANES, count - LANES)) {
    *(vec*)(to + x) = *(const vec*)(from + x);
    if (x + LANES == count) return;
  }
  for (int x = 0; x < count; ++x) to[x] = from[x];
}
