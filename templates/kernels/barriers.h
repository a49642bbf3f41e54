// Barriers in shared memory, by which some threads of a block hand work to others, and how threads that
// part ways share registers (sm_90a). Barriers are told by their 32-bit addresses. In the emulator, which
// knows of no such barriers, one is what has still to arrive, what arrives in a phase, and the phase.
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

#ifdef AUTOTUNE_EMULATE
struct EmulatedBarrier {
  short missing, arrivals, phase;
};

static inline volatile EmulatedBarrier* emulated_barrier(unsigned barrier) {
  return static_cast<volatile EmulatedBarrier*>(__cvta_shared_to_generic(barrier));
}

static inline void barrier_init(unsigned barrier, int arrivals) {
  volatile EmulatedBarrier* const b = emulated_barrier(barrier);
  b->missing = b->arrivals = static_cast<short>(arrivals), b->phase = 0;
}

static inline void barrier_arrive(unsigned barrier) {
  volatile EmulatedBarrier* const b = emulated_barrier(barrier);
  if (--b->missing == 0) b->missing = b->arrivals, b->phase ^= 1;
}

static inline void copy_arrive(unsigned barrier) {
  copy_commit();
  copy_wait<0>();
  barrier_arrive(barrier);
}

static inline void barrier_wait(unsigned barrier, unsigned parity) {
  while (!__all_sync(0xffffffffu, emulated_barrier(barrier)->phase != static_cast<short>(parity))) {}
}

template <int REGISTERS> static inline void give_registers() {}
template <int REGISTERS> static inline void take_registers() {}
#else
__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives once all copies that this thread has begun are in place.
__device__ __forceinline__ void copy_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits for the end of a phase of the given parity; of a new barrier, the phase before the first, of
// parity 1, has ended.
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

// Of a warpgroup, all at one time: threads have this many registers from here on, fewer or more than before.
template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
#endif

// How groups of warps take turns: a barrier each, at which all warps of the group before arrive. The first group
// begins with a parity of 1, the others with 0.
template <bool SEVERAL>
struct Turn {
  unsigned own, next, parity;
  __device__ __forceinline__ void take() {
    if (!SEVERAL) return;
    barrier_wait(own, parity);
    parity ^= 1;
  }
  __device__ __forceinline__ void pass_on() const {
    if (SEVERAL && threadIdx.x % 32 == 0) barrier_arrive(next);
  }
};

#if CLUSTER
// The two halves of a barrier of all threads of a cluster. The first passes on no more than barriers that
// `show_barriers` came after.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and lets a phase end only when as many bytes have come by `send` as well.
__device__ __forceinline__ void expect_sent(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// The same place in the shared memory of the block of a rank.
__device__ __forceinline__ unsigned remote_address(unsigned own, int rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
  return remote;
}

// Writes 16 bytes to another block's shared memory, where they count for a barrier of that block.
__device__ __forceinline__ void send(unsigned to, unsigned barrier, float x, float y, float z, float w) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(x), "f"(y), "f"(z), "f"(w), "r"(barrier)
      : "memory");
}

// Adds up the 8 floats at one shared address in the first BLOCKS blocks of a cluster.
template <int BLOCKS>
__device__ __forceinline__ void cluster_sum8(float (&total)[8], const float* own) {
#pragma unroll
  for (int i = 0; i < 8; ++i) total[i] = 0.0f;
#pragma unroll
  for (int rank = 0; rank < BLOCKS; ++rank) {
    float part[8];
    asm volatile(
        "{ .reg .u32 remote;\n"
        "mapa.shared::cluster.u32 remote, %8, %9;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n"
        "ld.shared::cluster.v4.f32 {%4, %5, %6, %7}, [remote + 16]; }"
        : "=f"(part[0]), "=f"(part[1]), "=f"(part[2]), "=f"(part[3]), "=f"(part[4]), "=f"(part[5]),
          "=f"(part[6]), "=f"(part[7])
        : "r"(shared_address(own)), "r"(rank)
        : "memory");
#pragma unroll
    for (int i = 0; i < 8; ++i) total[i] += part[i];
  }
}
#endif
