// Elements of arrays of whole numbers, of the type WHOLE, as int: arithmetic is in 32 bits.
typedef WHOLE Element;

template <int COUNT>
struct alignas(sizeof(Element) * COUNT) WholeVector {
  Element at[COUNT];
};

// Loads COUNT neighbours in vectors of at most 16 bytes, to whose size the address is aligned.
template <int COUNT>
__device__ __forceinline__ void load_elements(int (&to)[COUNT], const Element* from) {
  constexpr int WIDEST = 16 / sizeof(Element), STEP = COUNT < WIDEST ? COUNT : WIDEST;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) {
    const WholeVector<STEP> read = *reinterpret_cast<const WholeVector<STEP>*>(from + i);
#pragma unroll
    for (int j = 0; j < STEP; ++j) to[i + j] = read.at[j];
  }
}

// Stores COUNT neighbours one by one.
template <int COUNT>
__device__ __forceinline__ void store_elements(Element* to, const int (&from)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) to[i] = static_cast<Element>(from[i]);
}
