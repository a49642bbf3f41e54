// Copies of runs of neighbours, by which arrays of volumes become arrays of images and back. A run of the copy has four
// numbers, of which the last changes first: an array of the batch, a place, one of Inner, and a tap. It is the run at
// place * Step + tap * Hole - Before along an axis of Depth places, zeros where there is none.
constexpr int MOVE_THREADS = 256, MOVE_VECTORS = 4;

template <int Run, int Count, int Places, int Inner, int Taps, int Depth, int Step, int Hole, int Before, int OfBatch,
          int OfDepth, int OfInner>
struct Runs {
  static constexpr int Width = Run % 4 == 0 ? 4 : Run % 2 == 0 ? 2 : 1, Each = Run / Width;

  static __device__ __forceinline__ void copy(const float* __restrict__ from, float* __restrict__ to) {
    const unsigned first = blockIdx.x * (MOVE_THREADS * MOVE_VECTORS) + threadIdx.x;
    float read[MOVE_VECTORS][Width];
#pragma unroll
    for (int v = 0; v < MOVE_VECTORS; ++v) {
      const unsigned i = first + v * MOVE_THREADS, run = i / Each;
      const int tap = run % Taps, inner = run / Taps % Inner, place = run / (Taps * Inner) % Places;
      const int batch = run / (Taps * Inner * Places), at = place * Step + tap * Hole - Before;
#pragma unroll
      for (int j = 0; j < Width; ++j) read[v][j] = 0.0f;
      if (run < Count && at >= 0 && at < Depth)
        load_vector<Width>(read[v], from + static_cast<size_t>(batch) * OfBatch + at * OfDepth + inner * OfInner +
                                        i % Each * Width);
    }
#pragma unroll
    for (int v = 0; v < MOVE_VECTORS; ++v) {
      const unsigned i = first + v * MOVE_THREADS;
      if (i / Each < Count) store_vector<Width>(to + static_cast<size_t>(i) * Width, read[v]);
    }
  }
};

#ifdef DATA_RUNS
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) arrange_data(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<DATA_RUNS>::copy(from, to);
}
#endif

#ifdef WEIGHT_RUNS
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) arrange_weight(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<WEIGHT_RUNS>::copy(from, to);
}
#endif

#ifdef OUT_RUNS
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) arrange_out(
    const float* __restrict__ from, float* __restrict__ to) {
  Runs<OUT_RUNS>::copy(from, to);
}
#endif
