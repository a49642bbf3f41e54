#ifndef AUTOTUNE_STORE_WHOLE
#define AUTOTUNE_STORE_WHOLE
typedef unsigned short Bits;

// Stores whole vectors: the compiler would split plain stores under a condition.
#ifdef AUTOTUNE_EMULATE
static inline void store_whole(Bits* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  *reinterpret_cast<uint4*>(to) = make_uint4(a, b, c, d);
}
static inline void store_whole(Bits* to, unsigned a, unsigned b) { *reinterpret_cast<uint2*>(to) = make_uint2(a, b); }
#else
__device__ __forceinline__ void store_whole(Bits* to, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void store_whole(Bits* to, unsigned a, unsigned b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(a), "r"(b) : "memory");
}
#endif
#endif
