// Writes two floats of a row of C at once, of which the second may lie behind it. Of a float2 that is assigned the
// compiler may make two stores, each of half of what neighbouring threads fill a sector of memory with: products of
// 1024 as TF32 took 13.6 us so, and 9.3 with whole sectors.
__device__ __forceinline__ void write_floats(float* out, size_t at, int n, float low, float high) {
#ifndef AUTOTUNE_EMULATE
  if (C_N % 2 == 0) {
    // Nothing here reads what was written, so nothing has to wait for it.
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(out + at)), "f"(low), "f"(high));
    return;
  }
#endif
  write_pair(out, at, n, low, high);
}
