static __device__ __forceinline__ unsigned mma_m16n8k8_tf32_rounded(float value) {
  unsigned bits;
#ifdef AUTOTUNE_EMULATE
  bits = __float_as_uint(value);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#endif
  return bits;
}

static __device__ __forceinline__ void mma_m16n8k8_tf32(
    float& c0, float& c1, float& c2, float& c3, float a0, float a1, float a2, float a3,
    float b0, float b1) {
  const unsigned left0 = mma_m16n8k8_tf32_rounded(a0), left1 = mma_m16n8k8_tf32_rounded(a2);
  const unsigned left2 = mma_m16n8k8_tf32_rounded(a1), left3 = mma_m16n8k8_tf32_rounded(a3);
  const unsigned right0 = mma_m16n8k8_tf32_rounded(b0);
  const unsigned right1 = mma_m16n8k8_tf32_rounded(b1);
#ifdef AUTOTUNE_EMULATE
  const unsigned left[2][2] = {{left0, left2}, {left1, left3}};
  const unsigned right[2] = {right0, right1};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  float* const sums[4] = {&c0, &c1, &c2, &c3};
  for (int k = 0; k < 8; ++k) {
    for (int e = 0; e < 4; ++e) {
      const float a = __uint_as_float(left[e / 2][k / 4]), b = __uint_as_float(right[k / 4]);
      const float mine = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k % 4);
      const float other = __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e % 2) * 4 + k % 4);
      *sums[e] += mine * other;
    }
  }
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "r"(right0), "r"(right1));
#endif
}
