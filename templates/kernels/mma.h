// mma.sync (sm_80): m16n8k16 of 16-bit floats, m16n8k8 of floats that are rounded to TF32 when fragments are loaded,
// and with INT8 m16n8k32 of 8-bit integers, of which a 16-bit item holds two; accumulators are float32 or int32.
// A fragment is what one thread of a warp holds, in 32-bit words. The emulator exchanges words by warp shuffles.
#ifdef AUTOTUNE_EMULATE
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#ifndef TF32
#define TF32 0
#endif

// Item is an element in memory; an mma takes DEPTH of them along K.
#if TF32
typedef float Item;
#else
typedef unsigned short Item;
#endif
enum : int { VECTOR = 16 / sizeof(Item), WORD = 4 / sizeof(Item), DEPTH = 2 * VECTOR };

#ifdef AUTOTUNE_EMULATE
static inline float float_of(unsigned short bits) {
  if (BFLOAT16) {
    const unsigned wide = static_cast<unsigned>(bits) << 16;
    return *reinterpret_cast<const float*>(&wide);
  }
  return __half2float(*reinterpret_cast<const __half*>(&bits));
}

static inline unsigned short bits_of(float value) {
  unsigned short bits;
  if (BFLOAT16) {
    const __nv_bfloat16 narrow = __float2bfloat16(value);
    bits = *reinterpret_cast<const unsigned short*>(&narrow);
  } else {
    const __half narrow = __float2half(value);
    bits = *reinterpret_cast<const unsigned short*>(&narrow);
  }
  return bits;
}

// The dot product of the items of two words.
static inline float product_of(unsigned a, unsigned b) {
#if TF32
  return __uint_as_float(a) * __uint_as_float(b);
#else
  return float_of(a & 0xffff) * float_of(b & 0xffff) + float_of(a >> 16) * float_of(b >> 16);
#endif
}
#endif

__device__ __forceinline__ unsigned pack_pair(float low, float high) {
#ifdef AUTOTUNE_EMULATE
  return bits_of(low) | static_cast<unsigned>(bits_of(high)) << 16;
#elif BFLOAT16
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}

// Transposes 4 x 4 words of four neighbouring threads by warp shuffles: word i of thread j becomes word j of thread i.
__device__ __forceinline__ void transpose_four(unsigned (&word)[4], int lane) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = lane & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + step], step);
      if (upper) word[i] = got;
      else word[i + step] = got;
    }
  }
}

#if TF32
// Rounds to TF32: to nearest, ties away from zero.
__device__ __forceinline__ unsigned rounded(unsigned bits) {
#ifdef AUTOTUNE_EMULATE
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
#else
  unsigned shorter;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(shorter) : "f"(__uint_as_float(bits)));
  return shorter;
#endif
}
#endif

// Loads a word of an operand: the elements along K from `k` on of row (of B: column) `across`.
template <bool ALONG_K>
__device__ __forceinline__ unsigned load_word(const Item* tile, int pitch, int across, int k) {
  const Item* at = ALONG_K ? tile + across * pitch + k : tile + k * pitch + across;
#if TF32
  return rounded(__float_as_uint(*at));
#else
  return at[0] | static_cast<unsigned>(at[ALONG_K ? 1 : pitch]) << 16;
#endif
}

// The row whose address this thread passes to ldmatrix.x4, which loads four matrices of 8 rows of 16 bytes: first those
// along the rows of the tile, or with ACROSS first those along its columns.
template <bool ACROSS>
__device__ __forceinline__ const Item* ldmatrix_row(const Item* tile, int pitch, int lane) {
  return ACROSS ? tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * VECTOR
                : tile + lane % 16 * pitch + lane / 16 * VECTOR;
}

// Loads four 8 x 8 matrices by the addresses of their rows; with TRANSPOSED each is transposed.
template <bool TRANSPOSED>
__device__ __forceinline__ void ldmatrix_x4(unsigned (&to)[4], const Item* row) {
#ifndef AUTOTUNE_EMULATE
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
#endif
#if TF32
#pragma unroll
  for (int r = 0; r < 4; ++r) to[r] = rounded(to[r]);
#endif
}

// ldmatrix transposes matrices of 16-bit elements only.
#ifdef AUTOTUNE_EMULATE
enum : bool { LDMATRIX_TRANSPOSES = false, HAS_LDMATRIX = false };
#else
enum : bool { LDMATRIX_TRANSPOSES = !TF32, HAS_LDMATRIX = true };
#endif

// Loads the 16 x DEPTH elements at `tile` as the left operand of one mma. Rows, with a pitch of `pitch` elements, are
// rows of A, or with ALONG_M contiguous along M.
template <bool ALONG_M>
__device__ __forceinline__ void load_left(
    unsigned (&to)[4], const Item* tile, int pitch, int lane) {
  if (ALONG_M ? LDMATRIX_TRANSPOSES : HAS_LDMATRIX) {
    ldmatrix_x4<ALONG_M>(to, ldmatrix_row<ALONG_M>(tile, pitch, lane));
  } else {
#pragma unroll
    for (int r = 0; r < 4; ++r)
      to[r] = load_word<!ALONG_M>(
          tile, pitch, lane / 4 + r % 2 * 8, lane % 4 * WORD + r / 2 * VECTOR);
  }
}

// Loads the DEPTH x 16 elements at `tile` as the right operands of two mma side by side. Rows, with a pitch of `pitch`
// elements, are rows of B, or with ALONG_K contiguous along K. Words 0 and 1 are for the first 8 columns, 2 and 3 for
// the others.
template <bool ALONG_K>
__device__ __forceinline__ void load_right(
    unsigned (&to)[4], const Item* tile, int pitch, int lane) {
  if (ALONG_K ? HAS_LDMATRIX : LDMATRIX_TRANSPOSES) {
    ldmatrix_x4<!ALONG_K>(to, ldmatrix_row<ALONG_K>(tile, pitch, lane));
  } else {
#pragma unroll
    for (int r = 0; r < 4; ++r)
      to[r] = load_word<ALONG_K>(
          tile, pitch, lane / 4 + r / 2 * 8, lane % 4 * WORD + r % 2 * VECTOR);
  }
}

// sum += left * right for one 16 x 8 tile; a thread holds the accumulators of rows lane / 4 (words 0 and 1) and
// lane / 4 + 8 (2 and 3), at columns lane % 4 * 2 and the next.
__device__ __forceinline__ void multiply_add(
    float (&sum)[4], const unsigned (&left)[4], unsigned right0, unsigned right1, int lane) {
#ifdef AUTOTUNE_EMULATE
  const unsigned right[2] = {right0, right1};
  for (int word = 0; word < 8; ++word) {
    for (int i = 0; i < 2; ++i) {
      const unsigned a = __shfl_sync(0xffffffffu, left[word / 4 * 2 + i], lane / 4 * 4 + word % 4);
      for (int j = 0; j < 2; ++j) {
        const int column = lane % 4 * 2 + j;
        const unsigned b = __shfl_sync(0xffffffffu, right[word / 4], column * 4 + word % 4);
        sum[i * 2 + j] += product_of(a, b);
      }
    }
  }
#else
#if TF32
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
#elif BFLOAT16
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
  asm volatile(MMA "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#endif
}

#if INT8
// The same of 8-bit integers, 32 along K: a word holds four neighbours along K.
__device__ __forceinline__ void multiply_add(
    int (&sum)[4], const unsigned (&left)[4], unsigned right0, unsigned right1, int lane) {
#ifdef AUTOTUNE_EMULATE
  const unsigned right[2] = {right0, right1};
  for (int four = 0; four < 8; ++four) {
    for (int i = 0; i < 2; ++i) {
      const unsigned a = __shfl_sync(0xffffffffu, left[four / 4 * 2 + i], lane / 4 * 4 + four % 4);
      for (int j = 0; j < 2; ++j) {
        const int column = lane % 4 * 2 + j;
        const unsigned b = __shfl_sync(0xffffffffu, right[four / 4], column * 4 + four % 4);
        sum[i * 2 + j] = __dp4a(static_cast<int>(a), static_cast<int>(b), sum[i * 2 + j]);
      }
    }
  }
#else
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#endif
}
#endif
