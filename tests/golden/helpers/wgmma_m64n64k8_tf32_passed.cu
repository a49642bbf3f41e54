static __device__ __forceinline__ void wgmma_m64n64k8_tf32_passed(
    float& first, float left0, float left1, float left2, float left3, const float& right,
    int right_begin, int right_panel) {
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  const float left[2][2] = {{left0, left2}, {left1, left3}};
  const int lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x & 31;
  for (int k = 0; k < 8; ++k) {
    for (int half = 0; half < 2; ++half) {
      const float mine = wgmma_value(left[half][k / 4]);
      const float item = __shfl_sync(0xffffffffu, mine, lane / 4 * 4 + k % 4);
      for (int i = 0; i < 32; ++i) {
        if (i / 2 % 2 != half) continue;
        const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
        sum[i] += item * wgmma_item<0>(&right, right_begin, right_panel, column, k);
      }
    }
  }
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, 1, 1, 1;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31])
      : "r"(__float_as_uint(left0)), "r"(__float_as_uint(left1)), "r"(__float_as_uint(left2)),
        "r"(__float_as_uint(left3)),
        "l"(wgmma_operand(&right, right_begin * sizeof right, right_panel)));
#endif
}
