// Copies of contiguous runs between the layouts of a 3-D convolution and of the 2-D one that computes it. A run of the
// destination has four indices, the last of which varies fastest: batch, position, inner, and tap. Its source is at
// position * Stride + tap * Dilation - Padding along the depth axis, zeros where that is out of bounds.
constexpr int COPY_THREADS = 256, COPY_VECTORS = 4;

template <int Run, int Count, int Positions, int Inner, int Taps, int Depth, int Stride, int Dilation, int Padding, int BatchStride,
          int DepthStride, int InnerStride>
struct Runs {
  static constexpr int Width = Run % 4 == 0 ? 4 : Run % 2 == 0 ? 2 : 1, Each = Run / Width;

  static __device__ __forceinline__ void copy(const float* __restrict__ from, float* __restrict__ to) {
    const unsigned first = blockIdx.x * (COPY_THREADS * COPY_VECTORS) + threadIdx.x;
    float read[COPY_VECTORS][Width];
#pragma unroll
    for (int v = 0; v < COPY_VECTORS; ++v) {
      const unsigned i = first + v * COPY_THREADS, run = i / Each;
      const int tap = run % Taps, inner = run / Taps % Inner, position = run / (Taps * Inner) % Positions;
      const int batch = run / (Taps * Inner * Positions), at = position * Stride + tap * Dilation - Padding;
#pragma unroll
      for (int j = 0; j < Width; ++j) read[v][j] = 0.0f;
      if (run < Count && at >= 0 && at < Depth)
        load_vector<Width>(read[v], from + static_cast<size_t>(batch) * BatchStride + at * DepthStride + inner * InnerStride +
                                        i % Each * Width);
    }
#pragma unroll
    for (int v = 0; v < COPY_VECTORS; ++v) {
      const unsigned i = first + v * COPY_THREADS;
      if (i / Each < Count) store_vector<Width>(to + static_cast<size_t>(i) * Width, read[v]);
    }
  }
};

#ifdef DATA_RUNS
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_data(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<DATA_RUNS>::copy(from, to);
}
#endif

#ifdef WEIGHT_RUNS
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_weight(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<WEIGHT_RUNS>::copy(from, to);
}
#endif

#ifdef OUT_RUNS
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_out(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<OUT_RUNS>::copy(from, to);
}
#endif
