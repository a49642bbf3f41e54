// Elements of arrays of the type STORED as values of the type VALUE, in which arithmetic is.
typedef STORED Element;

template <int COUNT>
struct alignas(sizeof(Element) * COUNT) StoredVector {
  Element at[COUNT];
};

// Loads COUNT neighbours in vectors of at most 16 bytes, to whose size the address is aligned.
template <int COUNT>
__device__ __forceinline__ void load_elements(VALUE (&to)[COUNT], const Element* from) {
  constexpr int WIDEST = 16 / sizeof(Element), STEP = COUNT < WIDEST ? COUNT : WIDEST;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) {
    const StoredVector<STEP> read = *reinterpret_cast<const StoredVector<STEP>*>(from + i);
#pragma unroll
    for (int j = 0; j < STEP; ++j) to[i + j] = read.at[j];
  }
}

// Stores COUNT neighbours in the same vectors.
template <int COUNT>
__device__ __forceinline__ void store_elements(Element* to, const VALUE (&from)[COUNT]) {
  constexpr int WIDEST = 16 / sizeof(Element), STEP = COUNT < WIDEST ? COUNT : WIDEST;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) {
    StoredVector<STEP> written;
#pragma unroll
    for (int j = 0; j < STEP; ++j) written.at[j] = static_cast<Element>(from[i + j]);
    *reinterpret_cast<StoredVector<STEP>*>(to + i) = written;
  }
}
