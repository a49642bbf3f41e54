// tensorized_dp4a_cuda_kernel0(A, B, C) grid (2, 2, 1) block (4, 4, 1) shared 0
extern "C" __global__ void __launch_bounds__(16)
tensorized_dp4a_cuda_kernel0(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C) {
  __shared__ __align__(16) signed char A_shared[256];
  __shared__ __align__(16) signed char B_shared[512];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  int C_local[32];
  #pragma unroll
  for (int i_c_init = 0; i_c_init < 4; ++i_c_init) {
    #pragma unroll
    for (int j_c_init = 0; j_c_init < 4; ++j_c_init) {
      C_local[i_c_init * 4 + j_c_init] = 0;
      C_local[i_c_init * 4 + j_c_init + 16] = 0;
    }
  }
  for (int k_outer = 0; k_outer < 4; ++k_outer) {
    __syncthreads();
    if (ty == 0) {
      for (int ax0_ax1_fused_outer_outer = 0; ax0_ax1_fused_outer_outer < 16; ++ax0_ax1_fused_outer_outer) {
        *(char4*)(A_shared + ax0_ax1_fused_outer_outer * 16 + tx * 4) = *(const char4*)(A + by * 1024 + ax0_ax1_fused_outer_outer * 64 + k_outer * 16 + tx * 4);
      }
    }
    if (ty == 0) {
      for (int ax0_ax1_fused_outer_outer = 0; ax0_ax1_fused_outer_outer < 32; ++ax0_ax1_fused_outer_outer) {
        *(char4*)(B_shared + ax0_ax1_fused_outer_outer * 16 + tx * 4) = *(const char4*)(B + bx * 2048 + ax0_ax1_fused_outer_outer * 64 + k_outer * 16 + tx * 4);
      }
    }
    __syncthreads();
    for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer) {
      #pragma unroll
      for (int i_c = 0; i_c < 4; ++i_c) {
        #pragma unroll
        for (int j_c = 0; j_c < 4; ++j_c) {
          C_local[i_c * 4 + j_c] = __dp4a(*(const int*)(A_shared + ty * 64 + i_c * 16 + k_inner_outer * 4), *(const int*)(B_shared + tx * 64 + j_c * 16 + k_inner_outer * 4), C_local[i_c * 4 + j_c]);
          C_local[i_c * 4 + j_c + 16] = __dp4a(*(const int*)(A_shared + ty * 64 + i_c * 16 + k_inner_outer * 4), *(const int*)(B_shared + tx * 64 + j_c * 16 + k_inner_outer * 4 + 256), C_local[i_c * 4 + j_c + 16]);
        }
      }
    }
  }
  #pragma unroll
  for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
    *(int4*)(C + by * 1024 + ty * 256 + i_inner_inner * 64 + bx * 32 + tx * 4) = make_int4(C_local[i_inner_inner * 4], C_local[i_inner_inner * 4 + 1], C_local[i_inner_inner * 4 + 2], C_local[i_inner_inner * 4 + 3]);
    *(int4*)(C + by * 1024 + ty * 256 + i_inner_inner * 64 + bx * 32 + tx * 4 + 16) = make_int4(C_local[i_inner_inner * 4 + 16], C_local[i_inner_inner * 4 + 16 + 1], C_local[i_inner_inner * 4 + 16 + 2], C_local[i_inner_inner * 4 + 16 + 3]);
  }
}
