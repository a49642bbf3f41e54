// A copy of the elements of a volume that strides leave: every few planes, rows and columns, whose elements have INNER
// floats each. Fewer are written than are there, and a convolution of them has a stride of 1.
constexpr int COPY_THREADS = 256, COPY_VECTORS = 4;

template <int Count, int Planes, int Rows, int Columns, int Inner, int Depth, int Height, int Width, int StepZ, int StepY, int StepX>
struct Samples {
  static constexpr int Vector = Inner % 4 == 0 ? 4 : Inner % 2 == 0 ? 2 : 1, Each = Inner / Vector;

  static __device__ __forceinline__ void copy(const float* __restrict__ from, float* __restrict__ to) {
    const unsigned first = blockIdx.x * (COPY_THREADS * COPY_VECTORS) + threadIdx.x;
    float read[COPY_VECTORS][Vector];
#pragma unroll
    for (int v = 0; v < COPY_VECTORS; ++v) {
      const unsigned i = first + v * COPY_THREADS, sample = i / Each;
      const unsigned x = sample % Columns * StepX, y = sample / Columns % Rows * StepY;
      const unsigned z = sample / (Columns * Rows) % Planes * StepZ, volume = sample / (Columns * Rows * Planes);
      const size_t at = ((static_cast<size_t>(volume) * Depth + z) * Height + y) * Width + x;
      if (sample < Count) load_vector<Vector>(read[v], from + at * Inner + i % Each * Vector);
    }
#pragma unroll
    for (int v = 0; v < COPY_VECTORS; ++v) {
      const unsigned i = first + v * COPY_THREADS;
      if (i / Each < Count) store_vector<Vector>(to + static_cast<size_t>(i) * Vector, read[v]);
    }
  }
};

extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_data(
    const float* __restrict__ from, float* __restrict__ to) {
  Samples<DATA_SAMPLES>::copy(from, to);
}
