// Makes the compiler use vectors of LANES floats, though it prefers narrower ones for some CPUs.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#if LANES == 16
#pragma GCC target("prefer-vector-width=512")
#elif LANES == 8
#pragma GCC target("prefer-vector-width=256")
#else
#pragma GCC target("prefer-vector-width=128")
#endif
#endif
#include <math.h>
