// Copies of a run of RUN elements, contiguous in global memory, to and from shared memory, in vectors of 16 bytes by the
// BLOCK threads of a block. Where the run of the last block is shorter, its elements are copied one by one.
constexpr int WIDE = 16 / sizeof(Element);

// Where elements begin whose index in the run is a multiple of WIDE: planes of PLANE elements may be PAD vectors apart.
__device__ __forceinline__ int staged_at(int element) {
  return PAD > 0 ? element + element / PLANE * (PAD * WIDE) : element;
}

__device__ __forceinline__ void load_run(Element* run, const Element* __restrict__ from, int count, int tid) {
  if (count == RUN) {
#pragma unroll 4
    for (int i = tid; i < RUN / WIDE; i += BLOCK)
      copy_async<4>(
          reinterpret_cast<float*>(run + staged_at(i * WIDE)),
          reinterpret_cast<const float*>(from + i * WIDE), true);
    copy_commit();
    copy_wait<0>();
  } else {
    for (int i = tid; i < count; i += BLOCK) run[staged_at(i)] = from[i];
  }
}

__device__ __forceinline__ void store_run(Element* __restrict__ to, const Element* run, int count, int tid) {
  if (count == RUN) {
#pragma unroll 4
    for (int i = tid; i < RUN / WIDE; i += BLOCK)
      reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(run)[i];
  } else {
    for (int i = tid; i < count; i += BLOCK) to[i] = run[i];
  }
}
