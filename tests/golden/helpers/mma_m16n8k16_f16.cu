static __device__ __forceinline__ unsigned mma_m16n8k16_f16_pair(__half low, __half high) {
  return (unsigned)__half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
}

static __device__ __forceinline__ void mma_m16n8k16_f16_words(
    float& c0, float& c1, float& c2, float& c3,
    __half a0, __half a1, __half a2, __half a3, __half a4, __half a5, __half a6, __half a7,
    unsigned right0, unsigned right1) {
#ifdef AUTOTUNE_EMULATE
  const __half left[2][4] = {{a0, a1, a4, a5}, {a2, a3, a6, a7}};
  const unsigned right[2] = {right0, right1};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  float* const sums[4] = {&c0, &c1, &c2, &c3};
  for (int k = 0; k < 16; ++k) {
    for (int e = 0; e < 4; ++e) {
      const float a = __half2float(left[e / 2][k / 8 * 2 + k % 2]);
      const float b = __half2float(__ushort_as_half((unsigned short)(right[k / 8] >> k % 2 * 16)));
      const float mine = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k % 8 / 2);
      const float other = __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e % 2) * 4 + k % 8 / 2);
      *sums[e] += mine * other;
    }
  }
#else
  const unsigned left0 = mma_m16n8k16_f16_pair(a0, a1), left1 = mma_m16n8k16_f16_pair(a2, a3);
  const unsigned left2 = mma_m16n8k16_f16_pair(a4, a5), left3 = mma_m16n8k16_f16_pair(a6, a7);
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
#endif
}

static __device__ __forceinline__ void mma_m16n8k16_f16(
    float& c0, float& c1, float& c2, float& c3,
    __half a0, __half a1, __half a2, __half a3, __half a4, __half a5, __half a6, __half a7,
    __half b0, __half b1, __half b2, __half b3) {
  mma_m16n8k16_f16_words(c0, c1, c2, c3, a0, a1, a2, a3, a4, a5, a6, a7,
               mma_m16n8k16_f16_pair(b0, b1), mma_m16n8k16_f16_pair(b2, b3));
}
