// Loads the elements of a matrix behind its last whole vector (16 bytes), so many from `from` on, as a vector with
// zeros, as a whole one would go on behind the matrix.
template <int COUNT>
__device__ __forceinline__ uint4 load_left_over(const Element* from) {
  alignas(16) Element read[16 / sizeof(Element)] = {};
#pragma unroll
  for (int v = 0; v < COUNT; ++v) read[v] = from[v];
  return *reinterpret_cast<const uint4*>(read);
}
