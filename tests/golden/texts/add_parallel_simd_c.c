#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#endif
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES(type) ((int)(sizeof(type) / sizeof((type){0}[0])))

typedef float float_v64 __attribute__((vector_size(VECTOR_BYTES < 64 ? VECTOR_BYTES : 64),
    aligned(sizeof(float)), may_alias));

void add_parallel_simd_c(const float* restrict A, const float* restrict B, float* restrict C) {
  #pragma omp parallel for
  for (int i_outer = 0; i_outer < 64; ++i_outer) {
    #pragma GCC unroll 4
    for (int i_inner = 0; i_inner < 16; i_inner += LANES(float_v64)) {
      *(float_v64*)&C[i_outer * 16 + i_inner] = *(const float_v64*)&A[i_outer * 16 + i_inner] + *(const float_v64*)&B[i_outer * 16 + i_inner];
    }
  }
}
