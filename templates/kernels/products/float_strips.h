// Writes rows of floats of any alignment: a warp stages 16 rows of up to 32 columns in shared memory of its own, from where
// its lanes write a row at a time. Straight from registers, pairs of eight rows at a time touch two sectors of 32 bytes
// each where these are not aligned, and in odd rows floats are written one by one.
constexpr int STRIP_COLUMNS = 32, STRIP_PITCH_FLOATS = STRIP_COLUMNS + 8;  // pairs of eight rows are in different banks
constexpr int STRIP_FRAGMENTS = STRIP_COLUMNS / 8, FLOATS_OF_STRIP = 16 * STRIP_PITCH_FLOATS;

// Returns a float as an element of C.
template <typename Element>
__device__ __forceinline__ Element element_of(float x) {
  return x;
}

// Writes COUNT fragments of 16 x 8 sums, side by side. A thread has those of two rows, 8 apart or with BESIDE neighbours.
// `to` is the first of `rows` and `columns` that exist, with `pitch` floats from row to row.
template <int COUNT, bool BESIDE, typename Element>
__device__ __forceinline__ void write_float_strip(
    Element* __restrict__ to, float* strip, const float* sum, int rows, int columns, int pitch, int lane) {
  constexpr int AT_ONCE = 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = BESIDE ? lane / 4 * 2 + half : lane / 4 + half * 8;
#pragma unroll
    for (int j = 0; j < COUNT; ++j)
      store_vector<2>(strip + row * STRIP_PITCH_FLOATS + j * 8 + lane % 4 * 2, sum + j * 4 + half * 2);
  }
  __syncwarp();
  const bool exists = lane < COUNT * 8 && lane < columns;
#pragma unroll
  for (int first = 0; first < 16; first += AT_ONCE) {
    // All loads first: the compiler cannot know that stores do not alias.
    float results[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) results[i] = strip[(first + i) * STRIP_PITCH_FLOATS + lane];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
      if (exists && first + i < rows) to[static_cast<size_t>(first + i) * pitch + lane] = element_of<Element>(results[i]);
  }
  __syncwarp();
}
