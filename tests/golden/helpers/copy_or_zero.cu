static __device__ __forceinline__ void copy_or_zero(void* to, const void* from, bool copies) {
#if defined(AUTOTUNE_EMULATE) || __CUDA_ARCH__ < 800
  __pipeline_memcpy_async(to, from, 16, copies ? 0 : 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(copies ? 16 : 0)
               : "memory");
#endif
}
