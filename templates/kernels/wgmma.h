// Hopper's asynchronous tensor core products (wgmma, sm_90a) of 16-bit floats with sums in float32,
// what tells the hardware where their operands stand, and barriers in shared memory.
//
// Both operands stand in panels: rows of 64 elements, 128 bytes, in which the eight 16-byte vectors of
// a row are exchanged by the row's last three bits ("128-byte swizzle"), so that neither copies nor
// products meet a bank twice. A panel begins at a multiple of 1024 bytes.
typedef unsigned short half_bits;
typedef unsigned long long descriptor;
constexpr int PANEL = 64;

__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// Describes an operand that begins at `at`. Eight rows of a panel are 1024 bytes apart from the next
// eight; `panel_bytes` lie between neighbouring panels, where a product reaches into several.
__device__ __forceinline__ descriptor describe(unsigned at, unsigned panel_bytes) {
  constexpr descriptor SWIZZLE_128 = 1ull << 62;
  return SWIZZLE_128 | (1024ull >> 4) << 32 | static_cast<descriptor>(panel_bytes >> 4) << 16 |
         (at & 0x3ffff) >> 4;
}

// What a descriptor grows by when its operand begins `bytes` later.
__device__ __forceinline__ constexpr descriptor further(int bytes) { return bytes >> 4; }

#if BFLOAT16
#define WGMMA_TYPES "k16.f32.bf16.bf16 "
#else
#define WGMMA_TYPES "k16.f32.f16.f16 "
#endif
#define NAMES_10(tens) \
  "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, " \
  "%" tens "5, %" tens "6, %" tens "7, %" tens "8, %" tens "9, "
#define NAMES_30 NAMES_10("") NAMES_10("1") NAMES_10("2")
#define NAMES_60 NAMES_30 NAMES_10("3") NAMES_10("4") NAMES_10("5")
#define NAMES_90 NAMES_60 NAMES_10("6") NAMES_10("7") NAMES_10("8")
#define NAMES_120 NAMES_90 NAMES_10("9") NAMES_10("10") NAMES_10("11")
#define SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define SUMS_96(i) SUMS_64(i), SUMS_32(i + 64)
#define SUMS_128(i) SUMS_64(i), SUMS_64(i + 64)

// sum = left * right, plus sum if `add`: 64 rows, `COLUMNS` columns, 16 deep; begins only. Left is
// row-major in K, right row-major in columns. A thread holds, for each 8 columns, those of lane % 4 * 2
// and the next in rows lane / 4 (words 0 and 1) and lane / 4 + 8 (2 and 3) of its warp's 16.
#define DEFINE_PRODUCT(COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void begin_product( \
      float (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS WGMMA_TYPES "{" NAMES "}, " LEFT ", " RIGHT \
        ", add, 1, 1, 0, 1; }" \
        : SUMS \
        : "l"(left), "l"(right), "r"(static_cast<int>(add))); \
  }
DEFINE_PRODUCT("64", 32, NAMES_30 "%30, %31", SUMS_32(0), "%32", "%33", "%34")
DEFINE_PRODUCT("128", 64, NAMES_60 "%60, %61, %62, %63", SUMS_64(0), "%64", "%65", "%66")
DEFINE_PRODUCT("192", 96, NAMES_90 "%90, %91, %92, %93, %94, %95",
               SUMS_96(0), "%96", "%97", "%98")
DEFINE_PRODUCT("256", 128,
               NAMES_120 "%120, %121, %122, %123, %124, %125, %126, %127",
               SUMS_128(0), "%128", "%129", "%130")

// Orders this thread's uses of the sums before products that follow.
__device__ __forceinline__ void products_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most PENDING committed groups of products are still at work.
template <int PENDING>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from reading sums before a wait that it does not know to concern them.
template <int WORDS>
__device__ __forceinline__ void sums_are_new(float (&sum)[WORDS]) {
#pragma unroll
  for (int i = 0; i < WORDS; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// Makes writes to shared memory that this thread knows to be finished visible to its products, which
// read by another way than loads do.
__device__ __forceinline__ void show_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

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

#if CLUSTER
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
