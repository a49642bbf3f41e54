// TMA loads and stores of boxes of matrices (sm_90a): one thread issues a copy; rows are placed with the 128-byte
// swizzle that wgmma reads, and elements outside of the matrix are loaded as 0. A box must not be outside as a whole.
//
// A tensor map of 128 bytes describes a matrix to TMA; the driver encodes one for a given address. Kernels here take
// plain pointers, so their maps are constants of the program, encoded by tensor_map.py: of address 0, with two further
// dimensions of strides 16 bytes and 2^32 bytes. The coordinates of a box are then column, row, and the two halves of
// the matrix's address.
struct TensorMap {
  unsigned words[32];
};

#ifdef AUTOTUNE_EMULATE
// Calls `visit` with the addresses of each element of a box, in shared memory and in the matrix; null outside of it.
template <class Item, class Visit>
static inline void emulate_box(
    unsigned box, const TensorMap& map, Item* matrix, int column, int row, Visit visit) {
  const unsigned* const words = map.words;
  char* const begin = static_cast<char*>(__cvta_shared_to_generic(box));
  const int columns = words[8] + 1, rows = words[9] + 1, height = (words[14] & 0xff) + 1;
  const size_t pitch = words[3] * 16 / sizeof(Item);
  assert(row < rows && column < columns);
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < static_cast<int>(128 / sizeof(Item)); ++j) {
      const bool exists = row + i < rows && column + j < columns;
      const unsigned place = i * 128 + (j * sizeof(Item) ^ i % 8 * 16);
      visit(begin + place, exists ? matrix + (row + i) * pitch + column + j : nullptr);
    }
}

static inline bool elect_one() { return threadIdx.x % 32 == 0; }
static inline void prefetch_tensor_map(const TensorMap&) {}

template <int BLOCKS>
static inline void tma_load(
    unsigned to, const TensorMap& map, const Item* matrix, int column, int row, unsigned barrier, unsigned = 0) {
  emulate_box(to, map, matrix, column, row,
              [](char* to, const Item* from) { *reinterpret_cast<Item*>(to) = from ? *from : Item(0); });
  barrier_complete_tx(barrier, ((map.words[14] & 0xff) + 1) * 128);
}

template <class Item>
static inline void tma_store(Item* matrix, const TensorMap& map, int column, int row, unsigned from) {
  emulate_box(from, map, matrix, column, row,
              [](char* from, Item* to) { if (to) *to = *reinterpret_cast<Item*>(from); });
}

static inline void tma_store_commit() {}
template <int PENDING> static inline void tma_store_wait() {}

template <int BLOCKS>
static inline void cluster_barrier_arrive(unsigned barrier, unsigned, bool asked) {
  if (asked) barrier_arrive(barrier);
}
#else
// Elects one thread of a converged warp. In a branch on this, unlike on a lane index, the compiler knows operands to be
// warp-uniform.
__device__ __forceinline__ bool elect_one() {
  unsigned chosen;
  asm volatile(
      "{ .reg .pred chosen;\nelect.sync _|chosen, 0xffffffff;\nselp.u32 %0, 1, 0, chosen; }" : "=r"(chosen));
  return chosen;
}

// Prefetches a tensor map, for which the first copy would wait.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads the box at `column` and `row` of a matrix and signals the mbarrier; with several BLOCKS, into the shared memory
// of each block of the cluster whose bit is set, and signals the barrier at the same offset there (multicast).
template <int BLOCKS>
__device__ __forceinline__ void tma_load(
    unsigned to, const TensorMap& map, const void* matrix, int column, int row, unsigned barrier,
    unsigned blocks = (1 << BLOCKS) - 1) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(matrix);
  const int low = static_cast<int>(address >> 4 & 0xfffffff), high = static_cast<int>(address >> 32);
  if (BLOCKS == 1)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(low), "r"(high), "r"(barrier)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(low), "r"(high), "r"(barrier),
        "h"(static_cast<unsigned short>(blocks))
        : "memory");
}

// Issues the store of a box from shared memory; elements outside of the matrix are skipped.
__device__ __forceinline__ void tma_store(void* matrix, const TensorMap& map, int column, int row, unsigned from) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(matrix);
  const int low = static_cast<int>(address >> 4 & 0xfffffff), high = static_cast<int>(address >> 32);
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
      "r"(column), "r"(row), "r"(low), "r"(high), "r"(from)
      : "memory");
}

// Commits this thread's stores since the last commit as a group, which may be empty.
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most PENDING groups of stores of this thread still read shared memory.
template <int PENDING>
__device__ __forceinline__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Arrives at the mbarrier at this offset in the block `rank` of a cluster of BLOCKS, predicated, so that there is no
// branch between wgmma. Buffers that it releases were read by completed wgmma; a release at cluster scope would also
// wait for all stores to global memory.
template <int BLOCKS>
__device__ __forceinline__ void cluster_barrier_arrive(unsigned barrier, unsigned rank, bool asked) {
  if (BLOCKS == 1) {
    if (asked) barrier_arrive(barrier);
    return;
  }
  asm volatile(
      "{ .reg .u32 remote;\n.reg .pred asked;\n"
      "setp.ne.u32 asked, %2, 0;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "@asked mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier), "r"(rank), "r"(asked ? 1 : 0)
      : "memory");
}
#endif
