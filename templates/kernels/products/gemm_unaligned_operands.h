// Operand B of gemm_unaligned.cu: TMA loads of its lines by class, and loads of the left operand of wgmma from shared
// memory.
//
// Tensor maps of the classes of lines of B; where matrices of a batch are not aligned alike, one for each misalignment.
__constant__ __align__(128) TensorMap b_maps[LINE_CLASSES * MISALIGNMENTS] = {B_MAPS};

// The boxes of a tile's part of B that a producer warp loads, those of every PRODUCER_WARPS-th class, and the aligned
// addresses of the matrices that they are boxes of.
struct Boxes {
  const Item* matrix[LINE_CLASSES / PRODUCER_WARPS];
  int first;

  __device__ __forceinline__ void find(const Tile& tile, const Item* b) {
    b += static_cast<long long>(tile.matrix) * B_STRIDE;
#pragma unroll
    for (int j = 0; j < LINE_CLASSES / PRODUCER_WARPS; ++j) {
      const int i = first + j * PRODUCER_WARPS;
      matrix[j] = b + static_cast<long long>(class_of(tile, i)) * LINE - before(tile, i);
    }
  }

  // Returns whether this block loads a box, for all with tiles of its columns.
  static __device__ __forceinline__ bool is_own(int i) {
    return (i + i / PRODUCER_WARPS) % CLUSTER_M == down_in_cluster(blockIdx.x);
  }

  // Returns the class of the lines of a box; lines along N depend on the shift of the first K tile.
  static __device__ __forceinline__ int class_of(const Tile& tile, int i) {
    return TRANSPOSE_B ? i : (i - tile.shift) & (LINE_CLASSES - 1);
  }

  // Returns the misalignment of the lines of a box, in elements.
  static __device__ __forceinline__ int before(const Tile& tile, int i) {
    return (tile.shift_of_line(i) + (TRANSPOSE_B ? tile.shift : 0)) & 7;
  }

  // Returns the coordinate along K at which the box of a line of the first K tile would start, in rows or columns of
  // its class: 0, or negative, where TMA cannot start.
  static __device__ __forceinline__ int begin_of(const Tile& tile, int line) {
    if (TRANSPOSE_B) return -((tile.shift_of_line(line) + tile.shift) & 8);
    return -((tile.shift + LINE_CLASSES - 1 - line % LINE_CLASSES) / LINE_CLASSES);
  }

  // Returns the coordinate along K at which a box starts.
  static __device__ __forceinline__ int from(const Tile& tile, int i, int k_tile) {
    const int along = begin_of(tile, i) + k_tile * (TRANSPOSE_B ? CHUNK : BOX_LINES);
    return along > 0 ? along : 0;
  }

  // Returns whether a box has any line in bounds: only these may be loaded.
  static __device__ __forceinline__ bool exists(const Tile& tile, int i, int k_tile) {
    if (TRANSPOSE_B) return tile.n + i < N;
    return tile.n < N && from(tile, i, k_tile) * LINE_CLASSES + class_of(tile, i) < K;
  }

  // Returns the bytes of a K tile whose arrival a producer warp expects, whichever blocks load them.
  __device__ __forceinline__ int bytes(const Tile& tile, int k_tile) const {
    int all = 0;
#pragma unroll
    for (int i = 0; i < LINE_CLASSES; i += PRODUCER_WARPS) all += exists(tile, first + i, k_tile) ? BOX_BYTES : 0;
    return all;
  }

  __device__ __forceinline__ void copy(const Tile& tile, int k_tile, unsigned to, unsigned full) const {
#pragma unroll
    for (int j = 0; j < LINE_CLASSES / PRODUCER_WARPS; ++j) {
      const int i = first + j * PRODUCER_WARPS;
      if (!is_own(i) || !exists(tile, i, k_tile)) continue;
      const TensorMap& map = b_maps[class_of(tile, i) * MISALIGNMENTS + before(tile, i) % MISALIGNMENTS];
      const int column = TRANSPOSE_B ? from(tile, i, k_tile) : tile.n;
      const int row = TRANSPOSE_B ? tile.n / LINE_CLASSES : from(tile, i, k_tile);
      copy_lines(to + i * BOX_BYTES, map, matrix[j], column, row, full,
                 ((1 << CLUSTER_M) - 1) << across_in_cluster(blockIdx.x) * CLUSTER_M + first_of_range());
    }
  }
};

__device__ __forceinline__ unsigned element_at(unsigned address) {
  return *static_cast<const unsigned short*>(__cvta_shared_to_generic(address));
}

__device__ __forceinline__ unsigned pair_at(unsigned address) {
  return *static_cast<const unsigned*>(__cvta_shared_to_generic(address));
}

// A thread's fragments of the left operand, B transposed: for the four steps along K of a K tile, rows lane / 4 and
// lane / 4 + 8 of a wgmma. These are columns of C, permuted so that there are no bank conflicts.
typedef unsigned Left[CHUNK / DEPTH][4];

// Offsets of a thread's fragments in a stage. A thread loads two lines at a time: neighbours along K, or its two
// columns. At least one of them is aligned to 4 bytes there, and is loaded in words of two elements.
struct Lines {
  static constexpr bool ALL_EVEN = LINE % 2 == 0;
  unsigned even, other, first, second;

  // Returns the first of a thread's two neighbouring columns in the tile.
  static __device__ __forceinline__ int column() {
    const int i = threadIdx.x % 32 / 4, warp = threadIdx.x / 32;
    return warp / 4 * 64 + i % ALIKE * 2 + i / ALIKE * ALIKE * 8 + warp % 4 * ALIKE * 2;
  }

  // Returns whether the first row of the fragment is the second of a thread's columns.
  static __device__ __forceinline__ int swapped(const Tile& tile) {
    return TRANSPOSE_B && !ALL_EVEN ? tile.shift_of_line(column() % 8) & 1 : 0;
  }

  // Computes the offsets, for the first K tile or for the others.
  __device__ __forceinline__ void find(const Tile& tile, bool first_k_tile) {
    const int pair = threadIdx.x % 4 * 2, own = column();
    if (TRANSPOSE_B) {
      const int line = own % 8 + swapped(tile), next = line ^ 1, at = own / 8 * B_PITCH + pair * 2;
      even = A_BYTES + line * BOX_BYTES + at + tile.shift_of_line(line) * 2;
      other = A_BYTES + next * BOX_BYTES + at + tile.shift_of_line(next) * 2;
      if (first_k_tile) even += Boxes::begin_of(tile, line) * 2, other += Boxes::begin_of(tile, next) * 2;
    } else {
      const int odd = ALL_EVEN ? 0 : tile.shift_of_line(pair) & 1, line = pair + odd, next = line ^ 1;
      even = line_offset(line) + (own + tile.shift_of_line(line)) * 2;
      other = line_offset(next) + (own + tile.shift_of_line(next)) * 2;
      if (first_k_tile) even += Boxes::begin_of(tile, line) * B_PITCH, other += Boxes::begin_of(tile, next) * B_PITCH;
      first = odd ? 0x1054 : 0x5410, second = odd ? 0x3254 : ALL_EVEN ? 0x7632 : 0x5432;
    }
  }

  // Offset of a line along N in a stage.
  static __device__ __forceinline__ unsigned line_offset(int line) {
    return A_BYTES + line % LINE_CLASSES * BOX_BYTES + line / LINE_CLASSES * B_PITCH;
  }

  __device__ __forceinline__ void load(Left& left, unsigned stage) const {
#pragma unroll
    for (int eight = 0; eight < CHUNK / 8; ++eight) {
      const unsigned at = stage + eight * (TRANSPOSE_B ? 16 : ALIKE * B_PITCH);
      unsigned* const to = left[eight / 2] + eight % 2 * 2;
      const unsigned pair = pair_at(even + at);
      if (ALL_EVEN) {
        const unsigned next = pair_at(other + at);
        to[0] = TRANSPOSE_B ? pair : __byte_perm(pair, next, first);
        to[1] = TRANSPOSE_B ? next : __byte_perm(pair, next, second);
      } else {
        const unsigned next = element_at(other + at), last = element_at(other + at + 2);
        to[0] = TRANSPOSE_B ? pair : __byte_perm(pair, next, first);
        to[1] = TRANSPOSE_B ? next | last << 16 : __byte_perm(pair, last, second);
      }
    }
  }
};
