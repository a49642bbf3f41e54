// add_vectors_cuda_kernel0(A, B, C) grid (4, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
add_vectors_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  {
    const float4 A_lanes = *(const float4*)(A + bx * 256 + tx * 4);
    const float4 B_lanes = *(const float4*)(B + bx * 256 + tx * 4);
    *(float4*)(C + bx * 256 + tx * 4) = make_float4(A_lanes.x + B_lanes.x, A_lanes.y + B_lanes.y, A_lanes.z + B_lanes.z, A_lanes.w + B_lanes.w);
  }
}
