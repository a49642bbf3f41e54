// Takes the place of `write_swapped` where results are images NCHW: rows of a tile are filters, and its columns pixels,
// counted through all images, of which a plane has PLANE; of the filters that are multiplied FILTERS are written. A warp
// stages 16 filters of all columns that the block writes in shared memory, from where lanes write vectors of neighbouring
// pixels. Planes of an even number of pixels are written in the widest vectors that divide them, so that none has pixels of
// two images; others plane by plane, in words of two pixels.
#define write_swapped write_planes

constexpr int STAGED_VECTORS = WRITTEN_N / 8, STAGED_ROW = STAGED_VECTORS * 16;
constexpr bool ODD_PLANES = PLANE % 2 > 0;

// Returns where 8 pixels of a row are staged, in bytes. An even number of vectors is rotated from row to row, so that
// those of 8 rows are in different banks.
__device__ __forceinline__ int staged_at(int row, int vector) {
  return row * STAGED_ROW + (STAGED_VECTORS % 2 || ODD_PLANES ? vector : (vector + row) % STAGED_VECTORS) * 16;
}

template <int WIDTH> struct PixelVector;
template <> struct PixelVector<8> { typedef uint4 type; };
template <> struct PixelVector<4> { typedef uint2 type; };
template <> struct PixelVector<2> { typedef unsigned type; };

// Writes 16 staged rows, of filters from m0 and pixels from n0 on, in vectors that are in one plane each.
__device__ __forceinline__ void write_even_planes(
    Finished* __restrict__ out, const char* staged, int m0, int n0, int lane) {
  constexpr int WIDTH = PLANE % 8 == 0 ? 8 : PLANE % 4 == 0 ? 4 : 2, AT_ONCE = 4;
  constexpr int EACH = WRITTEN_N / WIDTH, ALL = 16 * EACH;
  typedef typename PixelVector<WIDTH>::type Vector;
#pragma unroll 1
  for (int first = lane; first < ALL; first += 32 * AT_ONCE) {
    // All loads first: the compiler cannot know that stores do not alias.
    Vector pixels[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = first + i * 32, row = at / EACH, column = at % EACH * WIDTH;
      if (at < ALL)
        pixels[i] = *reinterpret_cast<const Vector*>(staged + staged_at(row, column / 8) + column % 8 * 2);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = first + i * 32, m = m0 + at / EACH, n = n0 + at % EACH * WIDTH, image = n / PLANE;
      if (at < ALL && m < FILTERS && n < C_M)
        *reinterpret_cast<Vector*>(out + (static_cast<size_t>(image) * FILTERS + m) * PLANE + (n - image * PLANE)) = pixels[i];
    }
  }
}

// Writes `count` pixels of `rows` rows of one plane each, which are staged from `column` on. Words are combined from two
// where they are not aligned alike.
__device__ __forceinline__ void write_part_of_planes(
    Finished* __restrict__ to, const char* staged, int column, int count, int rows, int lane) {
  constexpr int AT_ONCE = 4;
  const int first_odd = static_cast<int>(reinterpret_cast<unsigned long long>(to) / 2 % 2);
#pragma unroll 1
  for (int first = 0; first < rows; first += AT_ONCE)
#pragma unroll 1
    for (int pair = lane * 2; pair < count; pair += 64) {
      unsigned words[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const int at = pair + (first_odd + first + i & 1), element = column + at;
        const unsigned* const from = reinterpret_cast<const unsigned*>(staged + (first + i) * STAGED_ROW) + element / 2;
        if (at + 2 <= count) words[i] = __funnelshift_r(from[0], from[element % 2], element % 2 * 16);
      }
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const int row = first + i, at = pair + (first_odd + row & 1);
        if (row < rows && at + 2 <= count) *reinterpret_cast<unsigned*>(to + static_cast<size_t>(row) * PLANE + at) = words[i];
      }
    }
  // The first and the last pixel may lack a neighbour.
  if (lane < rows) {
    const int odd = first_odd + lane & 1;
    const Finished* const pixels = reinterpret_cast<const Finished*>(staged + lane * STAGED_ROW) + column;
    if (odd) to[static_cast<size_t>(lane) * PLANE] = pixels[0];
    if (count - odd & 1) to[static_cast<size_t>(lane) * PLANE + count - 1] = pixels[count - 1];
  }
}

// Writes 16 staged rows plane by plane.
__device__ __forceinline__ void write_odd_planes(
    Finished* __restrict__ out, const char* staged, int m0, int n0, int lane) {
  const int rows = FILTERS - m0 < 16 ? FILTERS - m0 : 16, end = C_M - n0 < WRITTEN_N ? C_M - n0 : WRITTEN_N;
  if (rows <= 0) return;
  int image = n0 / PLANE, pixel = n0 - image * PLANE;
#pragma unroll 1
  for (int column = 0; column < end; ++image, pixel = 0) {
    const int left = PLANE - pixel, count = end - column < left ? end - column : left;
    write_part_of_planes(out + (static_cast<size_t>(image) * FILTERS + m0) * PLANE + pixel, staged, column, count, rows, lane);
    column += count;
  }
}

__device__ __forceinline__ void write_planes(
    Finished* __restrict__ out, const float (&sum)[FRAGS_M][WRITTEN_N / 2], int m0, int n0, int lane,
    EpilogueBuffers& buffers) {
  const int warp = threadIdx.x / 32 % 4;
  const unsigned own = buffers.at + warp * (16 * STAGED_ROW);
  const char* const staged = static_cast<const char*>(__cvta_shared_to_generic(own));
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
    const int m = m0 + i * 64 + warp * 16;
    if (i > 0) __syncwarp();
#pragma unroll
    for (int j = 0; j < STAGED_VECTORS; j += 2)
      store_fragments(own + staged_at(lane % 16, j + lane / 16), sum[i] + j * 4, j + 1 < STAGED_VECTORS);
    __syncwarp();
#if PLANE % 2
    write_odd_planes(out, staged, m, n0, lane);
#else
    write_even_planes(out, staged, m, n0, lane);
#endif
  }
}
