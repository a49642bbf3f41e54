// cuda::pipeline: of one thread the groups of its copies; of a block two mbarriers for each stage, one that
// producers arrive at and consumers wait for, and one the other way.
#pragma once

#include "cuda_barrier.h"

namespace cuda {

enum class pipeline_role { producer, consumer };

template <thread_scope Scope, uint8_t Stages>
struct pipeline_shared_state {
  emulator::Mbarrier full[Stages], empty[Stages];
};

template <thread_scope Scope>
class pipeline {
 public:
  // The mbarriers of each stage; no stages of a pipeline of one thread.
  struct Shared {
    emulator::Mbarrier *full, *empty;
    uint32_t stages;
  };

  pipeline() = default;
  explicit pipeline(const Shared& shared) : shared_(shared) {}
  pipeline(pipeline&&) = default;
  pipeline& operator=(pipeline&&) = default;

  void producer_acquire(emulator::Line line = emulator::Line::caller()) {
    if (shared_.stages) emulator::mbarrier_wait(shared_.empty + head_ % shared_.stages, ~turn(head_) & 1, line);
  }
  void producer_commit() {
    ++emulator::current->copy_group;
    if (shared_.stages) {
      emulator::wait_copies(0);
      emulator::mbarrier_arrive(shared_.full + head_ % shared_.stages);
    }
    ++head_;
  }
  void consumer_wait(emulator::Line line = emulator::Line::caller()) {
    if (shared_.stages) emulator::mbarrier_wait(shared_.full + tail_ % shared_.stages, turn(tail_) & 1, line);
    else emulator::wait_copies(head_ - tail_ - 1);
  }
  void consumer_release() {
    if (shared_.stages) emulator::mbarrier_arrive(shared_.empty + tail_ % shared_.stages);
    ++tail_;
  }
  template <class Duration>
  bool consumer_wait_for(const Duration&) { return consumer_wait(), true; }
  bool quit() { return true; }

 private:
  uint32_t turn(uint32_t stage) const { return stage / shared_.stages; }

  Shared shared_ = {};
  uint32_t head_ = 0, tail_ = 0;  // stages that it has committed, and released
};

static inline pipeline<thread_scope_thread> make_pipeline() { return {}; }

template <class Group, thread_scope Scope, uint8_t Stages>
static inline pipeline<Scope> make_pipeline_of(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                               size_t producers, size_t consumers, emulator::Line line) {
  if (group.thread_rank() == 0)
    for (int i = 0; i < Stages; ++i) {
      emulator::mbarrier_init(state->full + i, static_cast<int>(producers), line, emulator::no_site, true);
      emulator::mbarrier_init(state->empty + i, static_cast<int>(consumers), line, emulator::no_site, true);
    }
  group.sync(line.number);
  return pipeline<Scope>({state->full, state->empty, Stages});
}
template <class Group, thread_scope Scope, uint8_t Stages>
static inline pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                            emulator::Line line = emulator::Line::caller()) {
  return make_pipeline_of(group, state, group.size(), group.size(), line);
}
template <class Group, thread_scope Scope, uint8_t Stages>
static inline pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                            size_t producers, emulator::Line line = emulator::Line::caller()) {
  return make_pipeline_of(group, state, producers, group.size() - producers, line);
}
template <class Group, thread_scope Scope, uint8_t Stages>
static inline pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                            pipeline_role role, emulator::Line line = emulator::Line::caller()) {
  const bool produces = role == pipeline_role::producer;
  const size_t producers = static_cast<size_t>(__syncthreads_count(produces, line.number));
  return make_pipeline_of(group, state, producers, group.size() - producers, line);
}

// Copies of a stage; those of a group are divided among its threads.
template <class Group, class Shape, thread_scope Scope>
static inline void memcpy_async(const Group& group, void* to, const void* from, Shape bytes, pipeline<Scope>&) {
  emulator::copy_by_threads(to, from, static_cast<size_t>(bytes), static_cast<unsigned>(group.thread_rank()),
                            static_cast<unsigned>(group.size()));
}
template <class Shape, thread_scope Scope>
static inline void memcpy_async(void* to, const void* from, Shape bytes, pipeline<Scope>&) {
  emulator::copy_by_threads(to, from, static_cast<size_t>(bytes), 0, 1);
}

template <uint8_t Pending>
static inline void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&) {
  emulator::wait_copies(Pending);
}
template <thread_scope Scope>
static inline void pipeline_producer_commit(pipeline<thread_scope_thread>&, barrier<Scope>&) {
  ++emulator::current->copy_group;
  emulator::wait_copies(0);
}

}  // namespace cuda
