// mbarriers, register reallocation between warpgroups, and distributed shared memory (sm_90a). Barriers are passed as
// 32-bit shared addresses.
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

#ifdef AUTOTUNE_EMULATE
static inline void barrier_init(unsigned barrier, int arrivals, emulator::Line line = emulator::Line::caller()) {
  emulator::mbarrier_init(__cvta_shared_to_generic(barrier), arrivals, line);
}

static inline void barrier_arrive(unsigned barrier) { emulator::mbarrier_arrive(__cvta_shared_to_generic(barrier)); }

static inline void copy_arrive(unsigned barrier) {
  copy_commit();
  copy_wait<0>();
  barrier_arrive(barrier);
}

static inline void barrier_wait(unsigned barrier, unsigned parity, emulator::Line line = emulator::Line::caller()) {
  emulator::mbarrier_wait(__cvta_shared_to_generic(barrier), parity, line);
}

static inline void barrier_arrive_expect_tx(unsigned barrier, int bytes) {
  emulator::mbarrier_expect_tx(__cvta_shared_to_generic(barrier), bytes);
  barrier_arrive(barrier);
}

// A named barrier (bar.sync) of whole warps, of which each arrives once all of its lanes are here.
static inline void named_barrier_sync(
    unsigned barrier, unsigned parity, emulator::Line line = emulator::Line::caller()) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
  barrier_wait(barrier, parity, line);
}

// What ends each copy of the emulator that an mbarrier counts.
static inline void barrier_complete_tx(unsigned barrier, int bytes) {
  emulator::mbarrier_complete_tx(__cvta_shared_to_generic(barrier), bytes);
}
static inline void fence_mbarrier_init() {}
static inline void fence_proxy_async() {}
template <int REGISTERS> static inline void warpgroup_reg_dealloc() {}
template <int REGISTERS> static inline void warpgroup_reg_alloc() {}
#else
__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives when all cp.async of this thread have completed.
__device__ __forceinline__ void copy_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits for the completion of the phase of the given parity; of a new barrier the phase of parity 1 counts as complete.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
  unsigned ended;
  do {
    asm volatile(
        "{ .reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended; }"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!ended);
}

// Arrives, and adds to the bytes that copies or remote stores must deliver in this phase.
__device__ __forceinline__ void barrier_arrive_expect_tx(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Makes mbarriers that this thread initialised visible to TMA and to the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Makes this thread's writes to shared memory visible to TMA and wgmma (the async proxy).
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Reallocates registers (setmaxnreg), called by all warps of a warpgroup.
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
#endif

// Runs groups of warps in order, as CUTLASS's OrderedSequenceBarrier: a barrier each, at which all warps of the
// previous group arrive. The first group starts with parity 1, the others with 0.
template <bool SEVERAL>
struct OrderedBarrier {
  unsigned own, next, parity;
  __device__ __forceinline__ void acquire() {
    if (!SEVERAL) return;
    barrier_wait(own, parity);
    parity ^= 1;
  }
  __device__ __forceinline__ void release() const {
    if (SEVERAL && threadIdx.x % 32 == 0) barrier_arrive(next);
  }
};

#ifndef AUTOTUNE_EMULATE
// The two halves of a cluster barrier. The arrival is relaxed: it publishes only mbarriers, after
// `fence_mbarrier_init`.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Maps an own shared address to that of the block of a rank.
__device__ __forceinline__ unsigned remote_address(unsigned own, int rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
  return remote;
}

// Stores 16 bytes to another block's shared memory, counted by a barrier of that block.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, float x, float y, float z, float w) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(x), "f"(y), "f"(z), "f"(w), "r"(barrier)
      : "memory");
}
#endif
