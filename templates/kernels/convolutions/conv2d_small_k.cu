// Direct convolution, NCHW, float32, of few inputs a result: up to some 64 products each.
//
// A thread keeps the INPUTS of EACH pixels in registers and loops over FILTERS filters, which are in shared memory, where
// all threads of a warp read the same ones (broadcast). Neighbouring threads have neighbouring pixels, and the next ones
// of a thread are THREADS further, so that planes of any size are written in runs of a warp. Pixels are counted through
// all images. In a grouped convolution CI and CO are the channels of a group, and a block computes those of one.
constexpr int TAPS = KH * KW, INPUTS = CI * TAPS, PITCH = (INPUTS + 3) / 4 * 4, PLANE = OH * OW;
// Filters whose sums are in registers together; the last ones may not exist, and are zeros.
constexpr int TOGETHER = EACH >= 4 ? 2 : EACH == 2 ? 4 : 8;
constexpr int ROWS = (FILTERS + TOGETHER - 1) / TOGETHER * TOGETHER;
// Whether all filters of a block exist.
constexpr bool WHOLE = CO % FILTERS == 0 && FILTERS % TOGETHER == 0;

// Loads the inputs of a pixel of a plane; those outside of the image or the volume are zeros.
__device__ __forceinline__ void load_inputs(float (&x)[PITCH], const float* __restrict__ channels, int pixel, int plane) {
  const int top = pixel / OW * SY - PY, left = pixel % OW * SX - PX;
#pragma unroll
  for (int k = 0; k < PITCH; ++k) {
    const int line = top + k % TAPS / KW * DY, column = left + k % KW * DX;
    const bool inside = !PADDED || (line >= 0 && line < IH && column >= 0 && column < IW);
    const bool exists = k < INPUTS && inside && plane_exists(plane, k / TAPS);
    x[k] = exists ? channels[plane_of<IH * IW>(k / TAPS) + line * IW + column] : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_small_k(
    const float* __restrict__ data, const float* __restrict__ weight, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ scale, const float* __restrict__ shift,
    KEPT_PARAMETER float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  float* const filters = reinterpret_cast<float*>(shared_memory);
  const int group = blockIdx.z, first = blockIdx.y * FILTERS;
#pragma unroll 8
  for (int i = threadIdx.x; i < ROWS * PITCH; i += THREADS) {
    const int filter = first + i / PITCH, k = i % PITCH;
    const bool exists = k < INPUTS && i / PITCH < FILTERS && filter < CO;
    copy_async<1>(filters + i, weight + (group * CO + filter) * INPUTS + k, exists);
  }
  copy_commit();
  float x[EACH][PITCH];
  int place[EACH];
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    const int number = (blockIdx.x * EACH + j) * THREADS + threadIdx.x;
    const int image = number / PLANE, pixel = number % PLANE;
    const bool exists = number < BATCH * PLANE;
    // A pixel that does not exist is the first one, and is not stored.
    const int n = exists ? image * CONV_GROUPS + group : 0;
    load_inputs(x[j], data + data_of_image<CI, IH * IW>(n), exists ? pixel : 0, first_plane(n));
    place[j] = exists ? result_at<CO, PLANE>(n, 0, pixel) : -1;
  }
  copy_wait<0>();
  __syncthreads();
  const EpilogueArgs epilogue = {bias, residual, scale, shift KEPT_POINTER};
#pragma unroll 1
  for (int row = 0; row < ROWS && (WHOLE || first + row < CO); row += TOGETHER) {
    float sum[TOGETHER][EACH] = {};
#pragma unroll
    for (int k = 0; k < PITCH; k += 4) {
#pragma unroll
      for (int f = 0; f < TOGETHER; ++f) {
        float w[4];
        load_vector<4>(w, filters + (row + f) * PITCH + k);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < EACH; ++j) sum[f][j] = fmaf(x[j][k + i], w[i], sum[f][j]);
      }
    }
    auto each = [&](auto body) {
#pragma unroll
      for (int f = 0; f < TOGETHER; ++f) {
        const int filter = first + row + f;
        if (!WHOLE && (row + f >= FILTERS || filter >= CO)) break;
#pragma unroll
        for (int j = 0; j < EACH; ++j)
          if (place[j] >= 0) body(sum[f][j], group * CO + filter, place[j] + filter * (RESULT_PLANES * PLANE));
      }
    };
    // What the epilogue needs is loaded before anything is stored: the compiler cannot know that stores do not alias.
    each([&](float& result, int channel, int at) {
      float one[1] = {result};
      finish<0>(one, epilogue, channel, at);
      result = one[0];
    });
    each([&](float& result, int, int at) { out[at] = result; });
  }
}
