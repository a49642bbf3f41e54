// Products of few rows of 8-bit integers by rows of weights, with their requantisation (requantise.h): bound by loading
// the weights. A group of LANES threads computes one column: it loads 16 bytes of a row of weights at a time, and
// multiplies them by those of all M rows, which come from the cache.
//
// __dp4a multiplies bytes with a sign. Those without one are moved by 128, for which sums of weights times 128 are added.
constexpr int VECTORS = K / 16, MOVED = DATA_SIGNED ? 0 : 128;

__device__ __forceinline__ int with_sign(int four) {
  return DATA_SIGNED ? four : static_cast<int>(static_cast<unsigned>(four) ^ 0x80808080u);
}

// Adds up the products of a lane.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void add_products(
    int (&sum)[M], const int4* __restrict__ data, const int4* __restrict__ row, int lane) {
#pragma unroll 4
  for (int k = lane; k < VECTORS; k += LANES) {
    const int4 right = load_weight<RESIDENT_HERE>(row + k);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const int4 left = data[m * VECTORS + k];
      sum[m] = __dp4a(with_sign(left.x), right.x, sum[m]);
      sum[m] = __dp4a(with_sign(left.y), right.y, sum[m]);
      sum[m] = __dp4a(with_sign(left.z), right.z, sum[m]);
      sum[m] = __dp4a(with_sign(left.w), right.w, sum[m]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) matvec_int8(
    const int4* __restrict__ data, const int4* __restrict__ weight, REQUANTISE_PARAMETERS Result* __restrict__ out) {
  const int lane = threadIdx.x % LANES, n = (blockIdx.x * THREADS + threadIdx.x) / LANES, column = n < N ? n : N - 1;
  const int4* const row = weight + static_cast<size_t>(column) * VECTORS;
  int sum[M] = {};
  // Threads of a warp load alike.
  if (is_resident((blockIdx.x * THREADS + threadIdx.x) / 32))
    add_products<true>(sum, data, row, lane);
  else
    add_products<false>(sum, data, row, lane);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart /= 2) sum[m] += __shfl_xor_sync(0xffffffffu, sum[m], apart);
  if (lane > 0 || n >= N) return;
  const Channels<1> end = channels<1>(REQUANTISATION, column, 1);
  const int more = MOVED * weights[column];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int total[1] = {sum[m] + more};
    write_results<true>(out, static_cast<size_t>(m) * N + column, total, end, 1 RESIDUAL_POINTER);
  }
}
