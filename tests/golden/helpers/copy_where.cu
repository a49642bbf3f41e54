template <int BYTES>
static __device__ __forceinline__ void copy_where(void* to, const void* from, bool allowed) {
#if defined(AUTOTUNE_EMULATE) || __CUDA_ARCH__ < 800
  if (allowed) __pipeline_memcpy_async(to, from, BYTES);
#else
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("{ .reg .pred allowed;\nsetp.ne.b32 allowed, %2, 0;\n"
                 "@allowed cp.async.cg.shared.global [%0], [%1], 16; }"
                 :: "r"(place), "l"(from), "r"((int)allowed) : "memory");
  else
    asm volatile("{ .reg .pred allowed;\nsetp.ne.b32 allowed, %2, 0;\n"
                 "@allowed cp.async.ca.shared.global [%0], [%1], %3; }"
                 :: "r"(place), "l"(from), "r"((int)allowed), "n"(BYTES) : "memory");
#endif
}
