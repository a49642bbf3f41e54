// How vectors of sums end, for the CPU kernels of layers of 8-bit integers: scaled, shifted, within limits, rounded. With
// RESIDUAL sums are first rounded within SUM_LOW and SUM_HIGH, and bytes are added, both times their scales.
#ifndef RESIDUAL
#define RESIDUAL 0
#endif
typedef float floats __attribute__((vector_size(64), aligned(1), may_alias));
// The offset of what is added to the data so that 0 stands for nothing.
#define SHIFTED (DATA_ZERO + (DATA_SIGNED ? 128 : 0))
// Added to a small number it leaves the nearest whole number in the low bits, halves to even.
#define ROUNDER 12582912.0f
#define ROUNDER_BITS 0x4b400000

#if defined(__clang__)
#define LARGER_OF(a, b) __builtin_elementwise_max(a, b)
#define SMALLER_OF(a, b) __builtin_elementwise_min(a, b)
#elif defined(__AVX512F__)
typedef float full_floats __attribute__((vector_size(64)));
#define OF_BOTH(name, a, b) \
  ((floats)__builtin_ia32_##name##512_mask((full_floats)(a), (full_floats)(b), (full_floats)(a), (short)-1, 4))
#define LARGER_OF(a, b) OF_BOTH(maxps, a, b)
#define SMALLER_OF(a, b) OF_BOTH(minps, a, b)
#else
INLINED floats chosen(words which, floats a, floats b) { return (floats)(((words)a & which) | ((words)b & ~which)); }
#define LARGER_OF(a, b) chosen((words)((a) > (b)), a, b)
#define SMALLER_OF(a, b) chosen((words)((a) < (b)), a, b)
#endif

#define WITHIN(value, low, high) SMALLER_OF(LARGER_OF(value, (low) - (floats){0}), (high) - (floats){0})

// Results in words: whole numbers, or floats.
INLINED words ended(words sum, float scale, float shift, words other) {
  floats value = __builtin_convertvector(sum, floats) * scale + shift;
#if RESIDUAL
  value = (WITHIN(value, SUM_LOW, SUM_HIGH) + ROUNDER) - ROUNDER;
  value = value * SUM_SCALE + __builtin_convertvector(other - RESIDUAL_ZERO, floats) * RESIDUAL_SCALE;
#endif
  (void)other;
  value = WITHIN(value, LOW, HIGH);
#if OUT_FLOAT
  return (words)value;
#else
  return (words)(value + ROUNDER) - (ROUNDER_BITS - OUT_ZERO);
#endif
}

// A part of the results of some pixels, in the order of memory: `count` from one on go to `to`.
typedef struct {
  int from, count, to;
} Piece;

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define HAS_MASKS 1
typedef int full_words __attribute__((vector_size(64)));
typedef char quarter __attribute__((vector_size(16)));
INLINED unsigned short mask_of(const Piece piece, int v) {
  return (unsigned short)((((1ull << piece.count) - 1) << piece.from) >> v * LANES);
}
#else
#define HAS_MASKS 0
#endif

#if RESIDUAL
// Loads what is added to the pixels of the pieces.
INLINED void load_residual(const uint8_t* from, words other[VECTORS], const int vectors, const Piece* piece, int pieces) {
#if HAS_MASKS
  quarter bytes[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) bytes[v] = (quarter){0};
  for (int i = 0; i < pieces; ++i) {
    const uint8_t* row = from + piece[i].to - piece[i].from;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      bytes[v] = __builtin_ia32_loaddquqi128_mask((const void*)(row + v * LANES), bytes[v], mask_of(piece[i], v));
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v)
#if RESIDUAL_SIGNED
    other[v] = (words)__builtin_ia32_pmovsxbd512_mask(bytes[v], (full_words){0}, (unsigned short)-1);
#else
    other[v] = (words)__builtin_ia32_pmovzxbd512_mask(bytes[v], (full_words){0}, (unsigned short)-1);
#endif
#else
  for (int v = 0; v < vectors; ++v) other[v] = (words){0};
  for (int i = 0; i < pieces; ++i)
    for (int j = 0; j < piece[i].count; ++j) {
      const uint8_t byte = from[piece[i].to + j];
      ((int32_t*)other)[piece[i].from + j] = RESIDUAL_SIGNED ? (int8_t)byte : byte;
    }
#endif
}
#endif

// Stores the pieces of the results of one filter.
INLINED void store_results(out_t* to, const words made[VECTORS], const int vectors, const Piece* piece, int pieces) {
#if HAS_MASKS && !OUT_FLOAT
  quarter bytes[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v)
    bytes[v] = __builtin_ia32_pmovdb512_mask((full_words)made[v], (quarter){0}, (unsigned short)-1);
  for (int i = 0; i < pieces; ++i) {
    out_t* row = to + piece[i].to - piece[i].from;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      __builtin_ia32_storedquqi128_mask((void*)(row + v * LANES), bytes[v], mask_of(piece[i], v));
  }
#else
  out_t row[VECTORS * LANES];
  for (int v = 0; v < vectors; ++v)
    for (int i = 0; i < LANES; ++i)
#if OUT_FLOAT
      row[v * LANES + i] = ((const floats*)made)[v][i];
#else
      row[v * LANES + i] = (out_t)made[v][i];
#endif
  for (int i = 0; i < pieces; ++i)
    for (int j = 0; j < piece[i].count; ++j) to[piece[i].to + j] = row[piece[i].from + j];
#endif
}
