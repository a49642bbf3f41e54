#ifndef AUTOTUNE_DEPENDENT_LAUNCH
#define AUTOTUNE_DEPENDENT_LAUNCH
// Programmatic dependent launch: a kernel may start when all blocks of the previous one on its stream have called
// `launch_dependent_grids`; `wait_on_dependent_grids` waits until that kernel is complete and its writes are visible.
// Both do nothing in a usual launch. (The names are CUTLASS's.)
__device__ __forceinline__ void launch_dependent_grids() {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_on_dependent_grids() {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif
