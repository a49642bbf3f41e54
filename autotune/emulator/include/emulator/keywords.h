// What CUDA C++ adds to the language, as macros for a host C++ compiler.
#pragma once

// A shared array is one object per block. Blocks run one after another on one host thread, so a
// static object does; it is thread_local because the linker then gathers all such objects of a
// library, and nothing else, in one segment that can be found, poisoned and watched.
// `used` keeps the compiler from reasoning about who writes it. Each begins where vectors may, as
// many kernels rely on that of arrays of narrower types.
#define __shared__ static thread_local __attribute__((used, aligned(16)))
// An attribute that changes nothing, so that kernels can be told from other functions.
#define __global__ __attribute__((noclone))
#if defined(__has_builtin) && !defined(__clang__)
#if __has_builtin(__builtin_has_attribute)
#define EMULATOR_IS_KERNEL(function) __builtin_has_attribute(function, noclone)
#endif
#endif
#ifndef EMULATOR_IS_KERNEL
#define EMULATOR_IS_KERNEL(function) true
#endif
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)  // where a launch asks for it, another: build.py
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
// Where nothing is optimised a copy of a function for each call takes longer to compile than calls.
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline
#endif
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif

#define AUTOTUNE_EMULATE 1
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif

// Functions of the emulator itself: the compiler must not report their memory accesses to it.
#define EMULATOR_RAW __attribute__((no_sanitize("thread"), noinline))
// Those that are performed with each access, in the function that calls them.
#define EMULATOR_QUICK static inline __attribute__((no_sanitize("thread"), always_inline))

// The emulator is part of each library of a kernel, with a state of its own. It is compiled with the
// kernel; or once, apart (EMULATOR_LINKED), and linked with kernels that see what its functions are
// but neither emit nor inline them (EMULATOR_APART; beside gnu_inline GCC ignores noinline, and would
// compile the scheduler with each kernel, which takes as long as the kernel). The linker joins the
// variables of both, and takes the functions of the emulator where it has some that the kernel may emit
// too (EMULATOR_KEPT). EMULATOR_CALLED are functions that only the compiler names.
#if defined(EMULATOR_APART)
#define EMULATOR_EXPORTED inline __attribute__((gnu_inline, noipa)) EMULATOR_RAW
#define EMULATOR_OWN EMULATOR_EXPORTED __attribute__((visibility("hidden")))
#define EMULATOR_CALLED EMULATOR_OWN
#define EMULATOR_STATE inline __attribute__((visibility("hidden")))
#elif defined(EMULATOR_LINKED)
#define EMULATOR_EXPORTED EMULATOR_RAW
#define EMULATOR_OWN EMULATOR_RAW __attribute__((visibility("hidden")))
#define EMULATOR_CALLED EMULATOR_OWN
#define EMULATOR_STATE inline __attribute__((visibility("hidden"), used))
#define EMULATOR_KEPT __attribute__((no_sanitize("thread"), visibility("hidden"), used))
#else
#define EMULATOR_EXPORTED EMULATOR_RAW
#define EMULATOR_OWN EMULATOR_RAW static
#define EMULATOR_CALLED EMULATOR_RAW __attribute__((visibility("hidden")))
#define EMULATOR_STATE static
#endif
#ifndef EMULATOR_KEPT
#define EMULATOR_KEPT __attribute__((no_sanitize("thread"), visibility("hidden")))
#endif
