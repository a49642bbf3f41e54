// Cooperative groups: the cluster, the block, and tiles of up to 32 threads. Grids are not emulated.
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

template <unsigned Size, class Parent = void>
struct thread_block_tile {
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, ... or 32 threads");

  static unsigned thread_rank() { return thread_block::thread_rank() % Size; }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }
  static unsigned first_lane() { return thread_block::thread_rank() % 32 & ~(Size - 1); }
  static unsigned mask() {
    return (Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << first_lane();
  }

  void sync(int line = __builtin_LINE()) const { __syncwarp(mask(), line); }
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
  int any(int predicate, int line = __builtin_LINE()) const {
    return __any_sync(mask(), predicate, line);
  }
  int all(int predicate, int line = __builtin_LINE()) const {
    return __all_sync(mask(), predicate, line);
  }
  unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return __ballot_sync(mask(), predicate, line) >> first_lane();
  }
};

template <unsigned Size, class Parent>
static inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
  return {};
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

template <unsigned Size, class Parent, class T, class Operator>
static inline T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operator combine,
                       int line = __builtin_LINE()) {
  for (unsigned lanes = Size / 2; lanes > 0; lanes /= 2)
    value = combine(value, tile.shfl_xor(value, static_cast<int>(lanes), line));
  return value;
}

}  // namespace cooperative_groups
