// Permutes the axes of an array of elements of BYTES bytes by tiles of any number of axes: those that are last in the
// data, and those that are last in the result. A block loads TILE elements in the order of the data, in vectors of V_IN,
// to shared memory, and stores them in the order of the result, in vectors of V_OUT.
//
// Offsets are expressions of `block`, of the number `i` of a vector and of its element `j`, made by tile_offsets.py, which
// also makes the statements before the elements of a vector.
#if BYTES == 1
typedef unsigned char Element;
#elif BYTES == 2
typedef unsigned short Element;
#elif BYTES == 4
typedef unsigned Element;
#else
typedef unsigned long long Element;
#endif
#if ELEMENTS < 1073741824
typedef int Index;
#else
typedef long long Index;
#endif

template <int EACH>
struct alignas(BYTES* EACH) Vector {
  Element at[EACH];
};

// Vectors of a thread that are in flight together.
constexpr int AT_ONCE = 4, LOADS = TILE / V_IN, STORES = TILE / V_OUT;

extern "C" __global__ void __launch_bounds__(THREADS) transpose_tiles(
    const Element* __restrict__ data, Element* __restrict__ out) {
  __shared__ __align__(16) Element tile[SHARED];
  const Index block = blockIdx.x;
  const Element* const from = data + static_cast<size_t>(BLOCK_IN);
  Element* const to = out + static_cast<size_t>(BLOCK_OUT);
#pragma unroll 1
  for (int begin = threadIdx.x; begin < LOADS; begin += AT_ONCE * THREADS) {
    Vector<V_IN> read[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
      const int i = begin + u * THREADS;
      if (i < LOADS && (IN_INSIDE)) read[u] = *reinterpret_cast<const Vector<V_IN>*>(from + (IN_AT));
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
      const int i = begin + u * THREADS;
      if (i >= LOADS) break;
      IN_BEGIN
#if IN_VECTOR
      *reinterpret_cast<Vector<V_IN>*>(tile + at) = read[u];
#else
#pragma unroll
      for (int j = 0; j < V_IN; ++j) tile[IN_SHARED] = read[u].at[j];
#endif
    }
  }
  __syncthreads();
#pragma unroll AT_ONCE
  for (int i = threadIdx.x; i < STORES; i += THREADS) {
    if (!(OUT_INSIDE)) continue;
    Vector<V_OUT> value;
    OUT_BEGIN
#pragma unroll
    for (int j = 0; j < V_OUT; ++j) value.at[j] = tile[OUT_SHARED];
    *reinterpret_cast<Vector<V_OUT>*>(to + (OUT_AT)) = value;
  }
}
