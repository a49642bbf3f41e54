// Stores two floats of a row of C at once; the second may be beyond the row. The compiler may split the assignment of a
// float2 into two stores, each of which writes half of the sectors that neighbouring threads share: TF32 products of
// 1024 took 13.6 us so, and 9.3 us with whole sectors.
__device__ __forceinline__ void write_floats(float* out, size_t at, int n, float low, float high) {
#ifndef AUTOTUNE_EMULATE
  if (C_N % 2 == 0) {
    // No "memory" clobber: the kernel does not read C.
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(out + at)), "f"(low), "f"(high));
    return;
  }
#endif
  write_pair(out, at, n, low, high);
}
