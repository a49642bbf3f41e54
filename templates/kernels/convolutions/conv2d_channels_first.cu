// Copies around the NHWC convolution that computes one of images NCHW of 16-bit floats: filters, images, and the result.
//
// Each is a transposition of matrices of 16-bit elements, tile by tile through shared memory, in which a thread reads
// and writes pairs of neighbouring columns, so that both sides move in vectors.
constexpr int COPY_THREADS = 256, COPY_TILE = 64, COPY_PITCH = COPY_TILE / 2 + 1;

// Elements of the widest vector that divides rows of so many.
__host__ __device__ constexpr int vector_of(int extent) {
  return extent % 8 == 0 ? 8 : extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1;
}

// Matrices [Rows, From], of which Columns columns are read, become [Written, To], with zeros beyond the rows and columns
// that there are. Row c of the result is at c % Taps * (Written / Taps) + c / Taps.
template <int Rows, int Columns, int From, int Written, int To, int Taps>
struct Transposition {
  enum : int {
    FromVector = vector_of(From), ToVector = vector_of(To), Words = FromVector > 1 ? FromVector / 2 : 1,
    Loads = 8 / Words, LoadRows = 8 * Words, Stores = 8 / ToVector,
    TilesX = (Written + COPY_TILE - 1) / COPY_TILE, TilesY = (To + COPY_TILE - 1) / COPY_TILE,
  };

  // Loads a vector, in which `second` is how far the second element of a pair of odd rows is from the first.
  static __device__ __forceinline__ void load(unsigned (&to)[Words], const Bits* at, int second) {
    if (FromVector == 8) {
      const uint4 v = *reinterpret_cast<const uint4*>(at);
      to[0] = v.x, to[Words > 1] = v.y, to[Words > 2 ? 2 : 0] = v.z, to[Words > 3 ? 3 : 0] = v.w;
    } else if (FromVector == 4) {
      const uint2 v = *reinterpret_cast<const uint2*>(at);
      to[0] = v.x, to[Words > 1] = v.y;
    } else if (FromVector == 2) {
      to[0] = *reinterpret_cast<const unsigned*>(at);
    } else {
      to[0] = at[0] | static_cast<unsigned>(second ? at[second] : 0) << 16;
    }
  }

  // Loads a thread's part of a tile. Loads are under no condition, where each would wait for those before: what is
  // beyond the matrix is that of another place, and set to zero where it is written.
  static __device__ __forceinline__ void load_tile(unsigned (&read)[Loads][Words], const Bits* from, int row, int column) {
    const bool inside = column < Columns;
    const int second = inside && column + 1 < Columns;
    const Bits* const first = from + (inside ? column : 0);
    const Bits* const at = first + static_cast<size_t>(row) * From;
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      const bool exists = Rows % COPY_TILE == 0 || row + i * LoadRows < Rows;
      load(read[i], exists ? at + static_cast<size_t>(i) * LoadRows * From : first, second);
#pragma unroll
      for (int j = 0; j < Words; ++j)
        if (!exists || (Written > Columns && !inside)) read[i][j] = 0;
    }
  }

  static __device__ __forceinline__ void store(Bits* to, const unsigned (&words)[(ToVector + 1) / 2]) {
    enum : int { Last = (ToVector + 1) / 2 - 1 };
    if (ToVector == 8) {
      store_whole(to, words[0], words[Last > 1], words[Last > 2 ? 2 : 0], words[Last]);
    } else if (ToVector == 4) {
      store_whole(to, words[0], words[Last]);
    } else if (ToVector == 2) {
      *reinterpret_cast<unsigned*>(to) = words[0];
    } else {
      *to = static_cast<Bits>(words[0]);
    }
  }

  // Stores two neighbouring columns of ToVector rows from `row` on as rows of the result.
  static __device__ __forceinline__ void store_pair(Bits* to, const unsigned* tile, int row, int row0, int column) {
    unsigned low[(ToVector + 1) / 2], high[(ToVector + 1) / 2];
#pragma unroll
    for (int i = 0; i < (ToVector + 1) / 2; ++i) {
      const unsigned first = tile[2 * i * COPY_PITCH], second = ToVector > 1 ? tile[(2 * i + 1) * COPY_PITCH] : 0u;
      low[i] = __byte_perm(first, second, 0x5410), high[i] = __byte_perm(first, second, 0x7632);
    }
    if (row0 + row >= To) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = column + i, at = c % Taps * (Written / Taps) + c / Taps;
      if (c < Written) store(to + static_cast<size_t>(at) * To + row0 + row, i ? high : low);
    }
  }

  static __device__ __forceinline__ void copy(const Bits* __restrict__ from, Bits* __restrict__ to) {
    __shared__ unsigned tile[COPY_TILE * COPY_PITCH];
    const unsigned matrix = blockIdx.x / (TilesX * TilesY);
    const int column0 = blockIdx.x % TilesX * COPY_TILE, row0 = blockIdx.x / TilesX % TilesY * COPY_TILE;
    from += static_cast<size_t>(matrix) * Rows * From, to += static_cast<size_t>(matrix) * Written * To;
    const int tid = threadIdx.x, own_row = tid / (32 / Words), own_word = tid % (32 / Words) * Words;
    unsigned read[Loads][Words];
    load_tile(read, from, row0 + own_row, column0 + own_word * 2);
#pragma unroll
    for (int i = 0; i < Loads; ++i)
#pragma unroll
      for (int j = 0; j < Words; ++j) tile[(own_row + i * LoadRows) * COPY_PITCH + own_word + j] = read[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Stores; ++i) {
      const int at = i * COPY_THREADS + tid, row = at % (COPY_TILE / ToVector) * ToVector, word = at / (COPY_TILE / ToVector);
      store_pair(to, tile + row * COPY_PITCH + word, row, row0, column0 + word * 2);
    }
  }
};

#ifdef WEIGHT_MATRICES
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_weight(
    const Bits* __restrict__ from, Bits* __restrict__ to) {
  launch_dependent_grids();
  Transposition<WEIGHT_MATRICES>::copy(from, to);
}
#endif

// Overlaps with `arrange_weight`. Blocks of a product that waits for it may start when results are written: earlier ones
// would be as many as fit on the first multiprocessors that have room, and others idle.
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_data(
    const Bits* __restrict__ from, Bits* __restrict__ to) {
  Transposition<DATA_MATRICES>::copy(from, to);
  launch_dependent_grids();
  wait_on_dependent_grids();  // so that the filters too are written when this kernel ends
}

#ifdef OUT_MATRICES
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_out(
    const Bits* __restrict__ from, Bits* __restrict__ to) {
  Transposition<OUT_MATRICES>::copy(from, to);
}
#endif
