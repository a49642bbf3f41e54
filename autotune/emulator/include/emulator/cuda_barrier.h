// cuda::barrier, an mbarrier of shared memory, and copies that it counts.
#pragma once

#include <stddef.h>

#include "cuda_atomic.h"

namespace cuda {

// A number of bytes that is a multiple of an alignment, which both addresses have.
template <size_t Alignment>
struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
  constexpr operator size_t() const { return value; }
};

template <thread_scope Scope, class Completion = void>
class barrier {
 public:
  class arrival_token {
   public:
    uint32_t parity;
  };

  barrier() = default;
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  arrival_token arrive(ptrdiff_t count = 1) {
    const arrival_token token = {emulator::mbarrier_parity(&own_)};
    for (; count > 0; --count) emulator::mbarrier_arrive(&own_);
    return token;
  }
  void wait(arrival_token&& token, emulator::Line line = emulator::Line::caller()) const {
    emulator::mbarrier_wait(own(), token.parity, line);
  }
  void wait(const arrival_token& token, emulator::Line line = emulator::Line::caller()) const {
    emulator::mbarrier_wait(own(), token.parity, line);
  }
  void wait_parity(bool parity, emulator::Line line = emulator::Line::caller()) const {
    emulator::mbarrier_wait(own(), parity, line);
  }
  // Of these a device says that the phase has ended, or that it has not yet; here it has.
  bool try_wait(const arrival_token& token, emulator::Line line = emulator::Line::caller()) const {
    return wait(token, line), true;
  }
  bool try_wait_parity(bool parity, emulator::Line line = emulator::Line::caller()) const {
    return wait_parity(parity, line), true;
  }
  void arrive_and_wait(emulator::Line line = emulator::Line::caller()) { wait(arrive(), line); }
  void arrive_and_drop() { emulator::mbarrier_drop(&own_); }
  emulator::Mbarrier* native() { return &own_; }

  friend void init(barrier* at, ptrdiff_t arrivals, emulator::Line line = emulator::Line::caller()) {
    emulator::mbarrier_init(&at->own_, static_cast<int>(arrivals), line, emulator::no_site, true);
  }

 private:
  void* own() const { return const_cast<emulator::Mbarrier*>(&own_); }

  emulator::Mbarrier own_;
};

namespace device {
template <thread_scope Scope>
static inline uint64_t* barrier_native_handle(barrier<Scope>& at) {
  return reinterpret_cast<uint64_t*>(at.native());
}
template <thread_scope Scope>
static inline typename barrier<Scope>::arrival_token barrier_arrive_tx(barrier<Scope>& at, ptrdiff_t arrivals,
                                                                       ptrdiff_t bytes) {
  emulator::mbarrier_expect_tx(at.native(), static_cast<int>(bytes));
  return at.arrive(arrivals);
}
template <thread_scope Scope>
static inline void barrier_expect_tx(barrier<Scope>& at, ptrdiff_t bytes) {
  emulator::mbarrier_expect_tx(at.native(), static_cast<int>(bytes));
}
}  // namespace device

// Copies that the barrier's phase waits for: here they end before the thread goes on to arrive.
template <class Group, class Shape, thread_scope Scope>
static inline void memcpy_async(const Group& group, void* to, const void* from, Shape bytes, barrier<Scope>&) {
  emulator::copy_by_threads(to, from, static_cast<size_t>(bytes), static_cast<unsigned>(group.thread_rank()),
                            static_cast<unsigned>(group.size()));
  ++emulator::current->copy_group;
  emulator::wait_copies(0);
}
template <class Shape, thread_scope Scope>
static inline void memcpy_async(void* to, const void* from, Shape bytes, barrier<Scope>&) {
  emulator::copy_by_threads(to, from, static_cast<size_t>(bytes), 0, 1);
  ++emulator::current->copy_group;
  emulator::wait_copies(0);
}

}  // namespace cuda
