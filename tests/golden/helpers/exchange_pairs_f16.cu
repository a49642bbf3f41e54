static __device__ __forceinline__ void exchange_pairs_f16(__half& first, int x) {
  __half* const item = &first;
  unsigned pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pair[i] = (unsigned)__half_as_ushort(item[2 * i]) | (unsigned)__half_as_ushort(item[2 * i + 1]) << 16;
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = x & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? pair[i] : pair[i + step], step);
      if (upper) pair[i] = got;
      else pair[i + step] = got;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) item[i] = __ushort_as_half((unsigned short)(pair[i / 2] >> i % 2 * 16));
}
