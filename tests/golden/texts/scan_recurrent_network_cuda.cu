// scan_recurrent_network_cuda_kernel0(X, W, Y) grid (1, 1, 1) block (16, 4, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
scan_recurrent_network_cuda_kernel0(const float* __restrict__ X, const float* __restrict__ W, float* __restrict__ Y) {
  __shared__ __align__(16) float H_shared[16];
  __shared__ __align__(16) float P[16];
  __shared__ __align__(16) float P_scratch[64];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  float W_local[4];
  float P_share[1];
  #pragma unroll
  for (int ax1 = 0; ax1 < 4; ++ax1) {
    W_local[ax1] = W[tx * 16 + ty * 4 + ax1];
  }
  if (ty == 0) {
    Y[tx] = 0.0f;
  }
  for (int Y_idx = 0; Y_idx < 3; ++Y_idx) {
    __syncthreads();
    if (ty == 0) {
      H_shared[tx] = Y[Y_idx * 16 + tx];
    }
    P_share[0] = 0.0f;
    __syncthreads();
    #pragma unroll
    for (int k_inner = 0; k_inner < 4; ++k_inner) {
      P_share[0] += H_shared[ty * 4 + k_inner] * W_local[k_inner];
    }
    P_scratch[tx * 4 + ty] = P_share[0];
    __syncthreads();
    if (ty < 2) {
      P_scratch[tx * 4 + ty] += P_scratch[tx * 4 + ty + 2];
    }
    __syncthreads();
    if (ty < 1) {
      P_scratch[tx * 4 + ty] += P_scratch[tx * 4 + ty + 1];
    }
    __syncthreads();
    P_share[0] = P_scratch[tx * 4];
    if (ty == 0) {
      P[tx] = P_share[0];
    }
    __syncthreads();
    if (ty == 0) {
      Y[Y_idx * 16 + tx + 16] = tanhf(P[tx] + X[Y_idx * 16 + tx + 16]);
    }
  }
}
