// Copies of boxes of matrices by Hopper's bulk copy engine (sm_90a): one thread begins a copy, rows are placed as
// products of wgmma want them, and what lies outside of the matrix becomes 0. A box must not lie outside as a whole.
//
// The engine is told of a matrix by a tensor map of 128 bytes, which a driver makes for one address. Kernels here
// get plain pointers, so their maps are constants of the program, as tensor_map.py makes them: of address 0,
// with two dimensions more than a matrix has, along which places are 16 bytes and 2^32 bytes apart. A box is then
// asked for at column, row, and the two halves of its matrix's address.
struct TensorMap {
  unsigned words[32];
};

#ifdef AUTOTUNE_EMULATE
// Calls `visit` with the places of a box, rows of 128 bytes as the map says, and of a matrix; those outside of it
// are null.
template <class Item, class Visit>
static inline void emulate_box(
    unsigned box, const TensorMap& map, Item* matrix, int column, int row, Visit visit) {
  const unsigned* const words = map.words;
  char* const begin = static_cast<char*>(__cvta_shared_to_generic(box));
  const int columns = words[8] + 1, rows = words[9] + 1, height = (words[14] & 0xff) + 1;
  const size_t pitch = words[3] * 16 / sizeof(Item);
  if (row >= rows || column >= columns) abort();
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < static_cast<int>(128 / sizeof(Item)); ++j) {
      const bool exists = row + i < rows && column + j < columns;
      const unsigned place = i * 128 + (j * sizeof(Item) ^ i % 8 * 16);
      visit(begin + place, exists ? matrix + (row + i) * pitch + column + j : nullptr);
    }
}

static inline bool elected() { return threadIdx.x % 32 == 0; }
static inline void fetch_map(const TensorMap&) {}
static inline void barrier_expect(unsigned barrier, int) { barrier_arrive(barrier); }

template <int BLOCKS>
static inline void copy_box(
    unsigned to, const TensorMap& map, const Item* matrix, int column, int row, unsigned, unsigned = 0) {
  emulate_box(to, map, matrix, column, row,
              [](char* to, const Item* from) { *reinterpret_cast<Item*>(to) = from ? *from : Item(0); });
}

template <class Item>
static inline void store_box(Item* matrix, const TensorMap& map, int column, int row, unsigned from) {
  emulate_box(from, map, matrix, column, row,
              [](char* from, Item* to) { if (to) *to = *reinterpret_cast<Item*>(from); });
}

static inline void stores_commit() {}
template <int PENDING> static inline void stores_wait() {}
static inline void show_to_stores() {}

template <int BLOCKS>
static inline void arrive_at(unsigned barrier, unsigned, bool asked) {
  if (asked) barrier_arrive(barrier);
}

static inline void barriers_are_ready() {}
#else
// Whether this thread is the one of its warp that all of its threads, which call together, agree on. Of what only
// this one does the compiler knows that operands are the same for the whole warp.
__device__ __forceinline__ bool elected() {
  unsigned chosen;
  asm volatile(
      "{ .reg .pred chosen;\nelect.sync _|chosen, 0xffffffff;\nselp.u32 %0, 1, 0, chosen; }" : "=r"(chosen));
  return chosen;
}

// Begins to fetch a map, which the first copy would wait for.
__device__ __forceinline__ void fetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Arrives, and expects the bytes of copies in this phase.
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Copies the box whose first element is at `column` and `row` of a matrix; with several BLOCKS of a cluster, those
// whose bits are set, into the shared memory of each, and tells the barrier at this address in each.
template <int BLOCKS>
__device__ __forceinline__ void copy_box(
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

// Begins to copy a box of shared memory to a matrix: what lies outside is left out.
__device__ __forceinline__ void store_box(void* matrix, const TensorMap& map, int column, int row, unsigned from) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(matrix);
  const int low = static_cast<int>(address >> 4 & 0xfffffff), high = static_cast<int>(address >> 32);
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
      "r"(column), "r"(row), "r"(low), "r"(high), "r"(from)
      : "memory");
}

// Makes the stores that this thread has begun since the last time a group, which may be empty.
__device__ __forceinline__ void stores_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most PENDING groups of stores of this thread still read shared memory.
template <int PENDING>
__device__ __forceinline__ void stores_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Makes what this thread wrote to shared memory visible to the copy engine.
__device__ __forceinline__ void show_to_stores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives at the barrier of this address in the block `rank` of a cluster of BLOCKS, if asked to: without a branch, so
// that products around it stay in line. What it hands over was read by products, which are done; a release to the
// cluster would also wait for all that was written to memory.
template <int BLOCKS>
__device__ __forceinline__ void arrive_at(unsigned barrier, unsigned rank, bool asked) {
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

// Shows barriers that this thread has made to the copy engine, and to other blocks of a cluster.
__device__ __forceinline__ void barriers_are_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Waits for all threads of a cluster, of which none is to see what others wrote to memory.
__device__ __forceinline__ void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
#endif
