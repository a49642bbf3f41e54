// Takes the place of `write_swapped` where results are images NCHW: rows of a tile are filters, and its columns pixels,
// counted through all images, of which a plane has PLANE; of the filters that are multiplied FILTERS are written. A warp
// stages 16 filters of all columns that the block writes in shared memory, from where lanes write vectors of neighbouring
// pixels. Planes of an even number of pixels are written in the widest vectors that divide them, so that none has pixels of
// two images; others plane by plane, in words of two pixels.
#define write_swapped write_planes

// Persistent kernels have a part of the columns staged at a time, in the buffers of two boxes.
constexpr int STAGED_N = PERSISTENT ? 2 * BOX_ROWS : WRITTEN_N, STAGED_VECTORS = STAGED_N / 8;
constexpr int STAGED_ROW = STAGED_VECTORS * 16;
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

// Writes 16 staged rows, of filters from m0 and pixels from n0 to `end`, in vectors that are in one plane each.
__device__ __forceinline__ void write_even_planes(
    Finished* __restrict__ out, const char* staged, int m0, int n0, int end, int lane) {
  constexpr int WIDTH = PLANE % 8 == 0 ? 8 : PLANE % 4 == 0 ? 4 : 2, AT_ONCE = 4;
  constexpr int EACH = STAGED_N / WIDTH, ALL = 16 * EACH;
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
      if (at < ALL && m < FILTERS && n < end)
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
    Finished* __restrict__ out, const char* staged, int m0, int n0, int end, int lane) {
  const int rows = FILTERS - m0 < 16 ? FILTERS - m0 : 16, columns = end - n0;
  if (rows <= 0) return;
  int image = n0 / PLANE, pixel = n0 - image * PLANE;
#pragma unroll 1
  for (int column = 0; column < columns; ++image, pixel = 0) {
    const int left = PLANE - pixel, count = columns - column < left ? columns - column : left;
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
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int first = 0; first < WRITTEN_N; first += STAGED_N) {
      const int m = m0 + i * 64 + warp * 16, n = n0 + first, vectors = (WRITTEN_N - first) / 8;
      const int last = n + (WRITTEN_N - first < STAGED_N ? WRITTEN_N - first : STAGED_N);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < STAGED_VECTORS; j += 2)
        if (j < vectors)
          store_fragments(own + staged_at(lane % 16, j + lane / 16), sum[i] + (first / 8 + j) * 4,
                          j + 1 < STAGED_VECTORS && j + 1 < vectors);
      __syncwarp();
#if PLANE % 2
      write_odd_planes(out, staged, m, n, last < C_M ? last : C_M, lane);
#else
      write_even_planes(out, staged, m, n, last < C_M ? last : C_M, lane);
#endif
    }
}
