// cuda::atomic and cuda::atomic_ref: operations on memory that order as those of atomics.h do. One that
// releases is preceded by a fence of its scope; all acquire what fences before them have released.
#pragma once

#include "cuda_std.h"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

namespace std {
enum class memory_order { relaxed, consume, acquire, release, acq_rel, seq_cst };
inline constexpr memory_order memory_order_relaxed = memory_order::relaxed;
inline constexpr memory_order memory_order_consume = memory_order::consume;
inline constexpr memory_order memory_order_acquire = memory_order::acquire;
inline constexpr memory_order memory_order_release = memory_order::release;
inline constexpr memory_order memory_order_acq_rel = memory_order::acq_rel;
inline constexpr memory_order memory_order_seq_cst = memory_order::seq_cst;
}  // namespace std
using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_consume;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

static inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (order == memory_order::relaxed || scope == thread_scope_thread) return;
  if (scope == thread_scope_block) __threadfence_block();
  else __threadfence();
}

// The operations of both classes, on what `Own::place()` points to.
template <class Own, class T, thread_scope Scope>
class atomic_operations {
 public:
  using value_type = T;

  T load(memory_order = memory_order::seq_cst) const {
    emulator::check_atomic(place(), sizeof(T));
    return emulator::load_quietly(place());
  }
  void store(T value, memory_order order = memory_order::seq_cst) const { exchange(value, order); }
  T exchange(T value, memory_order order = memory_order::seq_cst) const {
    begin(order);
    return emulator::swap_in(place(), value);
  }
  bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order::seq_cst,
                               memory_order = memory_order::seq_cst) const {
    begin(order);
    const T old = emulator::load_quietly(place());
    const bool equal = !memcmp(&old, &expected, sizeof old);
    if (equal) emulator::swap_in(place(), value);
    else expected = old;
    return equal;
  }
  bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order::seq_cst,
                             memory_order = memory_order::seq_cst) const {
    return compare_exchange_strong(expected, value, order);
  }
#define EMULATOR_FETCH(name, expression)                                             \
  T fetch_##name(T value, memory_order order = memory_order::seq_cst) const {        \
    begin(order);                                                                    \
    const T old = emulator::load_quietly(place());                                   \
    return emulator::swap_in(place(), static_cast<T>(expression));                   \
  }
  EMULATOR_FETCH(add, old + value)
  EMULATOR_FETCH(sub, old - value)
  EMULATOR_FETCH(and, old & value)
  EMULATOR_FETCH(or, old | value)
  EMULATOR_FETCH(xor, old ^ value)
  EMULATOR_FETCH(min, value < old ? value : old)
  EMULATOR_FETCH(max, old < value ? value : old)
#undef EMULATOR_FETCH
  operator T() const { return load(); }
  T operator+=(T value) const { return static_cast<T>(fetch_add(value) + value); }
  T operator-=(T value) const { return static_cast<T>(fetch_sub(value) - value); }
  T operator&=(T value) const { return fetch_and(value) & value; }
  T operator|=(T value) const { return fetch_or(value) | value; }
  T operator^=(T value) const { return fetch_xor(value) ^ value; }
  T operator++() const { return *this += T(1); }
  T operator--() const { return *this -= T(1); }
  T operator++(int) const { return fetch_add(T(1)); }
  T operator--(int) const { return fetch_sub(T(1)); }
  // The loads of a loop let other threads go on.
  void wait(T old, memory_order = memory_order::seq_cst) const {
    for (T now = load(); !memcmp(&now, &old, sizeof old);) now = load();
  }
  void notify_one() const {}
  void notify_all() const {}
  static constexpr bool is_lock_free() { return true; }

 private:
  T* place() const { return static_cast<const Own*>(this)->place(); }
  void begin(memory_order order) const {
    if (order >= memory_order::release) atomic_thread_fence(order, Scope);
    emulator::check_atomic(place(), sizeof(T));
  }
};

template <class T, thread_scope Scope = thread_scope_system>
class atomic_ref : public atomic_operations<atomic_ref<T, Scope>, T, Scope> {
 public:
  explicit atomic_ref(T& object) : object_(&object) {}
  T operator=(T value) const { return this->store(value), value; }
  T* place() const { return object_; }

 private:
  T* object_;
};

// What a __shared__ one holds is not initialised.
template <class T, thread_scope Scope = thread_scope_system>
class atomic : public atomic_operations<atomic<T, Scope>, T, Scope> {
 public:
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  T operator=(T value) { return this->store(value), value; }
  T* place() const { return const_cast<T*>(&value_); }

 private:
  T value_;
};

namespace std {
template <class T> using atomic = ::cuda::atomic<T, thread_scope_system>;
template <class T> using atomic_ref = ::cuda::atomic_ref<T, thread_scope_system>;
}  // namespace std

}  // namespace cuda
