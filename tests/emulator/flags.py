"""What threads tell each other without barriers; see test_common_mistakes.py, which runs it."""

MISTAKES = {
    "lock-without-a-fence": (
        """__shared__ float sum; __shared__ int lock;
        if (t == 0) sum = lock = 0;
        __syncthreads();
        while (atomicCAS(&lock, 0, 1));
        sum = sum + 1;  // @
        atomicExch(&lock, 0);""",
        "race on shared memory .* with no barrier between",
    ),
    "flag-without-a-fence": (
        """__shared__ float s; __shared__ volatile int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        if (t == 0) {
          s = a[i]; flag = 1;  // @
        } else {
          while (!flag) {}  // @
          b[i] = s;
        }""",
        "race on shared memory .* with no barrier between",
    ),
    "flag-that-nobody-sets": (
        """__shared__ volatile int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        if (t) while (!flag) {}  // @""",
        "threads 1 to 63 wait for what it reads at .*, which no thread that can go on changes",
    ),
    "flag-of-a-block-that-has-not-started": (
        """__device__ static volatile int flags[2];
        if (t == 0) while (!flags[1 - blockIdx.x]) {}  // @
        if (t == 0) flags[blockIdx.x] = 1;""",
        "thread 0 waits for what it reads at .*; threads 1 to 63 exited",
    ),
    "volatile-reduction-without-syncwarp": (
        """__shared__ volatile float s[64];
        s[t] = a[i];
        __syncthreads();
        if (t < 32) {
          s[t] += s[t + 32];  // @
          s[t] += s[t + 16];  // @
        }
        b[i] = s[0];""",
        "race on shared memory",
    ),
    "counter-initialised-without-a-barrier": (
        """__shared__ int count;
        if (t == 0) count = 0;  // @
        atomicAdd(&count, 1);  // @
        __syncthreads();
        b[i] = count;""",
        "race on shared memory .* wrote it .* wrote it",
    ),
    "sum-initialised-by-one-of-the-blocks": (
        """if (i == 0) b[0] = 0;  // @
        atomicAdd(b, a[i]);  // @""",
        "race on argument 'b' .* wrote it .* wrote it",
    ),
    "relaxed-flag-of-libcxx": (
        """__shared__ float s; __shared__ int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        cuda::atomic_ref<int, cuda::thread_scope_block> shared(flag);
        if (t == 0) {
          s = a[i]; shared.store(1, cuda::memory_order_relaxed);  // @
        } else {
          while (!shared.load(cuda::memory_order_acquire)) {}
          b[i] = s;  // @
        }""",
        "race on shared memory .* with no barrier between",
    ),
}  # fmt: skip

RIGHT = {
    "flag-in-shared-memory": """__shared__ float s; __shared__ volatile int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        if (t == 0) { s = 1; __threadfence_block(); flag = 1; }
        else { while (!flag) {} __threadfence_block(); }
        b[i] = a[i] + s;""",
    "flag-that-is-polled-by-atomic-operations": """__shared__ float s; __shared__ int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        if (t == 63) { s = 1; __threadfence_block(); atomicExch(&flag, 1); }
        else if (t % 2) while (!atomicAdd(&flag, 0)) {}
        else while (!*(volatile int*)&flag) {}
        b[i] = a[i] + s;""",
    "flag-of-libcxx": """__shared__ float s; __shared__ int flag;
        if (t == 0) flag = 0;
        __syncthreads();
        cuda::atomic_ref<int, cuda::thread_scope_block> shared(flag);
        if (t == 0) { s = 1; shared.store(1, cuda::memory_order_release); }
        else while (!shared.load(cuda::memory_order_acquire)) {}
        b[i] = a[i] + s;""",
    "lock-in-which-lanes-shuffle": """__shared__ float s; __shared__ int lock;
        if (t == 0) s = lock = 0;
        __syncthreads();
        if (t % 32 == 0) while (atomicCAS(&lock, 0, 1)) {}
        const float one = __shfl_sync(0xffffffffu, 1.f, 3);
        if (t % 32 == 0) {
          __threadfence_block(); s = s + one; __threadfence_block(); atomicExch(&lock, 0);
        }
        __syncthreads();
        b[i] = a[i] + s - 1;""",
    "initialised-by-a-lane-of-the-warp-that-counts": """__shared__ int count;
        if (t == 0) count = 0;
        __syncwarp();
        if (t < 32) atomicAdd(&count, 1);
        __syncthreads();
        b[i] = a[i] + count - 31;""",
    "initialised-by-who-counts-first": """__shared__ int count;
        if (t == 0) { count = 0; atomicAdd(&count, 1); }
        __syncthreads();
        atomicAdd(&count, 1);
        __syncthreads();
        b[i] = a[i] + count - 64;""",
    "sums-that-blocks-pass-on-in-the-order-of-tickets": """__shared__ int own;
        __shared__ float before;
        __device__ static volatile int flags[2], tickets; __device__ static volatile float sums[2];
        if (t == 0) own = atomicAdd((int*)&tickets, 1);
        __syncthreads();
        const int part = own % 2, launch = own / 2 + 1;
        if (t == 0) {
          before = 0;
          if (part) { while (flags[0] != launch) {} __threadfence(); before = sums[0]; }
          sums[part] = before + 1; __threadfence(); flags[part] = launch;
        }
        __syncthreads();
        b[part * 64 + t] = a[part * 64 + t] + before + 1 - part;""",
    "flags-of-parts-in-shared-memory": """__shared__ int own, noted;
        __device__ static volatile int flags[4], tickets; __device__ static float sums[2];
        if (t == 0) {
          own = atomicAdd((int*)&tickets, 1);
          const int part = own % 2, launch = own / 2 + 1;
          if (part) { while (flags[2] != launch) {} __threadfence(); }
          sums[part] = (part ? sums[0] : 0) + 1;
          __threadfence();
          noted = launch;
          flags[own % 2] = noted;
          flags[own % 2 + 2] = noted;
        }
        __syncthreads();
        b[own % 2 * 64 + t] = a[own % 2 * 64 + t] + sums[own % 2] - own % 2;""",
    "flag-that-another-thread-sets-behind-a-barrier": """__shared__ int own;
        __device__ static volatile int flags[2], tickets; __device__ static float sums[2][64];
        if (t == 0) own = atomicAdd((int*)&tickets, 1);
        __syncthreads();
        const int part = own % 2, launch = own / 2 + 1;
        if (part && t == 0) while (flags[0] != launch) {}
        __syncthreads();
        sums[part][t] = part ? sums[0][t] : 1;
        __threadfence();
        __syncthreads();
        if (t == 63) flags[part] = launch;
        b[part * 64 + t] = a[part * 64 + t] + sums[part][t];""",
    "number-with-its-flag": """__device__ static volatile unsigned long long numbers[2];
        __device__ static int tickets;
        __shared__ int own;
        if (t == 0) {
          own = atomicAdd(&tickets, 1);
          const unsigned long long launch = own / 2 + 1;
          if (own % 2) while (numbers[0] >> 32 != launch) {}
          numbers[own % 2] = launch << 32 | 1;
          __threadfence();
        }
        __syncthreads();
        b[i] = a[i] + (unsigned)numbers[own % 2];""",
}  # fmt: skip
