#ifndef AUTOTUNE_DEPENDENT_LAUNCH
#define AUTOTUNE_DEPENDENT_LAUNCH
// A kernel may be launched such that it begins while the one before it on its stream still runs ("programmatic
// dependent launch"): from where all blocks of that one have let it. It waits for its end where it first reads what
// it wrote. Where a kernel is launched as usual, neither does anything.
__device__ __forceinline__ void let_next_begin() {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_kernel_before() {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
