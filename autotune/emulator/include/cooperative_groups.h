// Cooperative groups: the cluster, the block, tiles of up to 32 threads, and active lanes. What all blocks
// of a grid do together needs a cooperative launch, which is not emulated.
#pragma once

#include "autotune_emulator.h"

namespace cooperative_groups {

struct thread_block {
  void sync(int line = __builtin_LINE()) const { __syncthreads(line); }
  static unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 dim_threads() { return blockDim; }
  static dim3 group_dim() { return blockDim; }
};

static inline thread_block this_thread_block() { return {}; }

struct cluster_group {
  struct arrival_token {};

  void sync(emulator::Line line = emulator::Line::caller()) const { emulator::cluster_sync(line); }
  arrival_token barrier_arrive(emulator::Line line = emulator::Line::caller()) const {
    emulator::cluster_arrive(line);
    return {};
  }
  void barrier_wait(emulator::Line line = emulator::Line::caller()) const { emulator::cluster_wait(line); }
  void barrier_wait(arrival_token&&, emulator::Line line = emulator::Line::caller()) const {
    emulator::cluster_wait(line);
  }
  static unsigned block_rank() { return emulator::cluster_rank(); }
  static unsigned num_blocks() { return static_cast<unsigned>(emulator::block_count); }
  static dim3 dim_blocks() { return emulator::cluster_dims; }
  static dim3 block_index() {
    const dim3 dims = emulator::cluster_dims;
    return {blockIdx.x % dims.x, blockIdx.y % dims.y, blockIdx.z % dims.z};
  }
  static unsigned thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
  static unsigned num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned size() { return num_threads(); }
  template <class T>
  static T* map_shared_rank(T* own, int rank) {
    return static_cast<T*>(emulator::of_rank(own, static_cast<uint32_t>(rank)));
  }
};

static inline cluster_group this_cluster() { return {}; }

struct grid_group {
  static bool is_valid() { return false; }
  static unsigned block_rank() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
  static unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long thread_rank() {
    return static_cast<unsigned long long>(block_rank()) * thread_block::size() + thread_block::thread_rank();
  }
  static unsigned long long size() { return static_cast<unsigned long long>(num_blocks()) * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 block_index() { return dim3(blockIdx); }
  void sync(int line = __builtin_LINE()) const {
    emulator::fail("grid_group::sync in line %d: " EMULATOR_THREAD " waits for the whole grid, but the launch is "
                   "not cooperative; end the kernel there, and let another go on (calls=)",
                   line, EMULATOR_WHERE(emulator::current));
  }
};

static inline grid_group this_grid() { return {}; }

// Some lanes of a warp, and what they do together; their ranks are in the order of lanes.
class lanes_group {
 public:
  unsigned thread_rank() const { return static_cast<unsigned>(__popc(lanes_ & ((1u << emulator::own_lane()) - 1))); }
  unsigned size() const { return static_cast<unsigned>(__popc(lanes_)); }
  unsigned num_threads() const { return size(); }
  unsigned meta_group_rank() const { return number_; }
  unsigned meta_group_size() const { return count_; }
  unsigned mask() const { return lanes_; }

  void sync(int line = __builtin_LINE()) const { __syncwarp(lanes_, line); }
  template <class T>
  T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
    return __shfl_sync(lanes_, value, static_cast<int>(__fns(lanes_, 0, static_cast<int>(rank % size()) + 1)), 32, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    const unsigned rank = thread_rank();
    return shfl(value, rank < delta ? rank : rank - delta, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    const unsigned rank = thread_rank();
    return shfl(value, rank + delta < size() ? rank + delta : rank, line);
  }
  int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(lanes_, predicate, line); }
  int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(lanes_, predicate, line); }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return packed(__ballot_sync(lanes_, predicate, line));
  }
  template <class T>
  unsigned match_any(T value, int line = __builtin_LINE()) const {
    return packed(__match_any_sync(lanes_, value, line));
  }
  template <class T>
  unsigned match_all(T value, int& all, int line = __builtin_LINE()) const {
    return packed(__match_all_sync(lanes_, value, &all, line));
  }

 protected:
  lanes_group() = default;
  lanes_group(unsigned lanes, unsigned number, unsigned count) : lanes_(lanes), number_(number), count_(count) {}

 private:
  // The bits of the lanes of this group, beside each other.
  unsigned packed(unsigned lanes) const {
    unsigned result = 0, rank = 0;
    for (unsigned rest = lanes_; rest; rest &= rest - 1, ++rank) result |= (lanes >> (__ffs(rest) - 1) & 1u) << rank;
    return result;
  }

  unsigned lanes_, number_, count_;  // among the groups that its parent was divided into
};

class coalesced_group : public lanes_group {
 public:
  coalesced_group() = default;
  coalesced_group(unsigned lanes, unsigned number, unsigned count) : lanes_group(lanes, number, count) {}
};

static inline coalesced_group coalesced_threads(int line = __builtin_LINE()) { return {__activemask(line), 0, 1}; }

template <unsigned Size, class Parent = void>
class thread_block_tile : public lanes_group {
 public:
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, ... or 32 threads");

  thread_block_tile(unsigned lanes, unsigned number, unsigned count) : lanes_group(lanes, number, count) {}
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& tile) : lanes_group(tile) {}
  static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }

  template <class T>
  T shfl(T value, int rank, int line = __builtin_LINE()) const {
    return __shfl_sync(mask(), value, rank, Size, line);
  }
  template <class T>
  T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    return __shfl_up_sync(mask(), value, delta, Size, line);
  }
  template <class T>
  T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    return __shfl_down_sync(mask(), value, delta, Size, line);
  }
  template <class T>
  T shfl_xor(T value, int lanes, int line = __builtin_LINE()) const {
    return __shfl_xor_sync(mask(), value, lanes, Size, line);
  }
};

// A group of which only the program knows what it is.
class thread_group {
 public:
  thread_group(const thread_block&) : block_(true), lanes_(0, 0, 1) {}
  thread_group(const lanes_group& lanes) : lanes_(lanes.mask(), lanes.meta_group_rank(), lanes.meta_group_size()) {}
  unsigned thread_rank() const { return block_ ? thread_block::thread_rank() : lanes_.thread_rank(); }
  unsigned size() const { return block_ ? thread_block::size() : lanes_.size(); }
  unsigned num_threads() const { return size(); }
  void sync(int line = __builtin_LINE()) const {
    if (block_) __syncthreads(line);
    else lanes_.sync(line);
  }
  unsigned mask() const { return block_ ? 0xffffffffu : lanes_.mask(); }

 private:
  bool block_ = false;
  coalesced_group lanes_;
};

// Those of the lanes of a group whose ranks, divided by the size of parts, are that of the calling thread.
template <class Group>
static inline coalesced_group part_of(const Group& group, unsigned size, unsigned lanes) {
  const unsigned number = group.thread_rank() / size;
  unsigned part = 0;
  for (unsigned rank = 0; lanes; lanes &= lanes - 1, ++rank)
    if (rank / size == number % (32 / size)) part |= lanes & -lanes;
  return {part, number, (static_cast<unsigned>(group.size()) + size - 1) / size};
}

template <unsigned Size, class Parent>
static inline thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  const unsigned first = thread_block::thread_rank() % 32 & ~(Size - 1);
  const unsigned count = (static_cast<unsigned>(parent.size()) + Size - 1) / Size;
  return {(Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << first,
          static_cast<unsigned>(parent.thread_rank()) / Size, count};
}
static inline thread_group tiled_partition(const thread_block& parent, unsigned size) {
  return part_of(parent, size, 0xffffffffu);
}
static inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  return part_of(parent, size, parent.mask());
}
static inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  return part_of(parent, size, parent.mask());
}

// The lanes of a group that have the same label.
template <class Label>
static inline coalesced_group labeled_partition(const lanes_group& group, Label label, int line = __builtin_LINE()) {
  const unsigned lanes = __match_any_sync(group.mask(), label, line) & group.mask();
  unsigned number = 0, count = 0;
  for (unsigned rest = group.mask(); rest; ++count) {
    const int lane = __ffs(rest) - 1;
    const unsigned others = __shfl_sync(group.mask(), lanes, lane, 32, line);
    if (others == lanes) number = count;
    rest &= ~others;
  }
  return {lanes, number, count};
}
static inline coalesced_group binary_partition(const lanes_group& group, bool label, int line = __builtin_LINE()) {
  return labeled_partition(group, static_cast<int>(label), line);
}

template <class Group>
static inline void sync(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}

template <class T> struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};

template <class T> struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

template <unsigned Size, class Parent, class T, class Operator>
static inline T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operator combine,
                       int line = __builtin_LINE()) {
  for (unsigned lanes = Size / 2; lanes > 0; lanes /= 2)
    value = combine(value, tile.shfl_xor(value, static_cast<int>(lanes), line));
  return value;
}

template <class Group, class T, class Operator>
static inline T inclusive_scan(const Group& group, T value, Operator combine, int line = __builtin_LINE()) {
  for (unsigned delta = 1; delta < group.size(); delta *= 2) {
    const T before = group.shfl_up(value, delta, line);
    if (group.thread_rank() >= delta) value = combine(before, value);
  }
  return value;
}
template <class Group, class T>
static inline T inclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
  return inclusive_scan(group, value, plus<T>(), line);
}
template <class Group, class T, class Operator>
static inline T exclusive_scan(const Group& group, T value, Operator combine, int line = __builtin_LINE()) {
  const T before = group.shfl_up(inclusive_scan(group, value, combine, line), 1, line);
  return group.thread_rank() ? before : T();
}
template <class Group, class T>
static inline T exclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
  return exclusive_scan(group, value, plus<T>(), line);
}

template <class T, class Operator>
static inline T reduce(const coalesced_group& group, T value, Operator combine, int line = __builtin_LINE()) {
  return group.shfl(inclusive_scan(group, value, combine, line), group.size() - 1, line);
}

template <class Group, class Function>
static inline void invoke_one(const Group& group, Function function) {
  if (group.thread_rank() == 0) function();
}

// Copies to shared memory, of which each thread of the group makes a part, as one of its groups of copies.
template <class Group>
static inline void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
  emulator::copy_by_threads(to, from, bytes, static_cast<unsigned>(group.thread_rank()),
                            static_cast<unsigned>(group.size()));
  __pipeline_commit();
}
template <class Group, class T, class Shape>
static inline void memcpy_async(const Group& group, T* to, size_t room, const T* from, Shape count) {
  memcpy_async(group, to, from, sizeof(T) * (count < room ? count : room));
}
template <unsigned Pending, class Group>
static inline void wait_prior(const Group& group, int line = __builtin_LINE()) {
  emulator::wait_copies(Pending);
  group.sync(line);
}
template <class Group>
static inline void wait(const Group& group, int line = __builtin_LINE()) {
  wait_prior<0>(group, line);
}

}  // namespace cooperative_groups
