// Operands of gemm_bf16x3_fused.cu: where their elements lie, and loads of those of the left one.
//
// With CONV the left operand is the im2col matrix of NHWC images, with PLANES that of NCHW ones (transposed, SWAPPED),
// and threads gather their elements of it.
//
// Sums do not depend on the order along K within a K tile of CHUNK. It is chosen such that a thread's elements of a row
// are in runs of RUN neighbours, which one vector load has, and the runs of four lanes are neighbours too.
constexpr int CHUNK = 32, ALL_K_TILES = (K + CHUNK - 1) / CHUNK;
// With SUBSAMPLED, B is an image stored as [K, IH, IW] of which every SY-th row and every SX-th column is multiplied.
#ifndef SUBSAMPLED
#define SUBSAMPLED 0
#define IMAGE 0
#define PIXEL(column) (column)
#else
#define IMAGE (IH * IW)
#define PIXEL(column) ((column) / OW * SY * IW + (column) % OW * SX)
#endif
#ifndef PLANES
#define PLANES 0
#define PLANE_GROUPS 1
#endif
constexpr bool LEFT_SAMPLED = SUBSAMPLED && SWAPPED, RIGHT_SAMPLED = SUBSAMPLED && !SWAPPED;
// Distances in memory of neighbours along K.
constexpr long long LEFT_STEP = LEFT_ALONG_K ? 1 : LEFT_SAMPLED ? IMAGE : LEFT_EXTENT;
constexpr long long RIGHT_STEP = RIGHT_ALONG_K ? 1 : RIGHT_SAMPLED ? IMAGE : IN_GROUPS ? ALL_N : RIGHT_EXTENT;
// Whether two neighbouring rows of the left operand are loaded at once.
constexpr bool PAIRS_OF_ROWS = !LEFT_ALONG_K && !LEFT_SAMPLED && LEFT_EXTENT % 2 == 0;

// The index along K of element `i` of the eight that lane `quarter` of four has of a row; i and i + 1 are neighbours in
// the operands of wgmma.
__device__ __forceinline__ constexpr int along_k(int quarter, int i) {
  return i / RUN * 4 * RUN + quarter * RUN + i % RUN;
}

__device__ __forceinline__ int clamped(int index, int extent) { return index < extent ? index : extent - 1; }

// Where a row of the left operand begins, and a column of the right one; behind the last one it is the last one.
__device__ __forceinline__ long long left_row(int row) {
  const int existing = clamped(row, LEFT_EXTENT);
  return LEFT_SAMPLED ? PIXEL(existing) : existing * (LEFT_ALONG_K ? static_cast<long long>(K) : 1);
}

__device__ __forceinline__ long long right_column(int column) {
  const int existing = clamped(column, RIGHT_EXTENT);
  return RIGHT_SAMPLED ? PIXEL(existing) : existing * (RIGHT_ALONG_K ? static_cast<long long>(K) : 1);
}

// Loads FLOATS neighbours; those from `exist` on are zeros. There are whole vectors.
template <bool WHOLE, int FLOATS>
__device__ __forceinline__ void load_existing(float* x, const float* from, int k, int exist) {
  if (WHOLE || k < exist) {
    load_vector<FLOATS>(x, from);
  } else {
#pragma unroll
    for (int i = 0; i < FLOATS; ++i) x[i] = 0.0f;
  }
}

// A consumer thread's elements of a K tile of the left operand: eight along K of two neighbouring rows.
typedef float LeftTile[2][8];

#if CONV || PLANES
// Windows of two output pixels: where they begin, which may be outside of the image, and the lane among four.
struct LeftSource {
  static constexpr int TAPS = K / GROUP_CI, KH = TAPS / KW;
  static constexpr bool INSIDE = PY == 0 && PX == 0 && (OH - 1) * SY + (KH - 1) * DY < IH &&
                                 (OW - 1) * SX + (KW - 1) * DX < IW;
  const float* row[2];
  int y[2], x[2], quarter;

  __device__ __forceinline__ void place(const float* images, int half, int pixel) {
    const int m = clamped(pixel, LEFT_EXTENT);
    y[half] = m / OW % OH * SY - PY, x[half] = m % OW * SX - PX;
    row[half] = images + ((static_cast<long long>(m / (OH * OW)) * IH + y[half]) * IW + x[half]) * (PLANES ? 1 : CI);
  }

  // An element along K of a window: its distances from the first one.
  struct Element {
    int down, across, offset;
  };

  // Element k, of the tap of element `near`.
  __device__ __forceinline__ static Element element_of(int k, int near) {
    const unsigned each = near;
    const int tap = PLANES ? each % TAPS : each / GROUP_CI, down = tap / KW * DY, across = tap % KW * DX;
    const int pixel = down * IW + across;
    return {down, across, PLANES ? static_cast<int>(each / TAPS) * (IH * IW) + pixel : pixel * CI + k - tap * GROUP_CI};
  }

  __device__ __forceinline__ bool is_inside(int half, const Element& at) const {
    return INSIDE || (static_cast<unsigned>(y[half] + at.down) < IH && static_cast<unsigned>(x[half] + at.across) < IW);
  }

  __device__ __forceinline__ float element(int half, int k) const {
    const Element at = element_of(k, k);
    return is_inside(half, at) ? row[half][at.offset] : 0.0f;
  }

  __device__ __forceinline__ void load(LeftTile& to, int k_tile) const {
#pragma unroll
    for (int i = 0; i < 8; i += RUN) {
      const int first = k_tile * CHUNK, k = first + quarter * RUN + along_k(0, i);
      // All of a K tile is of one tap where K tiles divide the channels, and a run of neighbours always is.
      const Element at = element_of(k, !PLANES && GROUP_CI % CHUNK == 0 ? first : k);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if ((K % CHUNK == 0 || k < K) && is_inside(half, at)) {
          load_vector<RUN>(to[half] + i, row[half] + at.offset);
        } else {
#pragma unroll
          for (int item = 0; item < RUN; ++item) to[half][i + item] = 0.0f;
        }
      }
    }
  }
};
#else
struct LeftSource {
  const float* row[2];
  int quarter;

  __device__ __forceinline__ void place(const float* left, int half, int index) {
    row[half] = left + left_row(index) + quarter * RUN * LEFT_STEP;
  }

  __device__ __forceinline__ float element(int half, int k) const {
    return row[half][k * LEFT_STEP - static_cast<long long>(quarter) * RUN * LEFT_STEP];
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_part(LeftTile& x, int k_tile) const {
    const long long at = static_cast<long long>(k_tile) * CHUNK * LEFT_STEP;
    const int exist = K - k_tile * CHUNK - quarter * RUN;
    if (PAIRS_OF_ROWS) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float two[2];
        load_existing<WHOLE, 2>(two, row[0] + at + along_k(0, i) * LEFT_STEP, along_k(0, i), exist);
        x[0][i] = two[0], x[1][i] = two[1];
      }
      return;
    }
    constexpr int FLOATS = LEFT_ALONG_K ? RUN : 1;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 8; i += FLOATS)
        load_existing<WHOLE, FLOATS>(x[half] + i, row[half] + at + along_k(0, i) * LEFT_STEP, along_k(0, i), exist);
  }

  __device__ __forceinline__ void load(LeftTile& x, int k_tile) const {
    if (K % CHUNK == 0 || k_tile + 1 < ALL_K_TILES) load_part<true>(x, k_tile);
    else load_part<false>(x, k_tile);
  }
};
#endif
