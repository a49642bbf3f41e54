template <int LEFT_TURNED, int RIGHT_TURNED>
static __device__ __forceinline__ void wgmma_m64n64k8_tf32(
    float& first, const float& left, int left_begin, const float& right, int right_begin,
    int left_panel, int right_panel) {
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < 32; ++i) {
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < 8; ++k)
      sum[i] += wgmma_item<LEFT_TURNED>(&left, left_begin, left_panel, row, k) *
                wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
  }
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31])
      : "l"(wgmma_operand(&left, left_begin * sizeof left, left_panel)),
        "l"(wgmma_operand(&right, right_begin * sizeof right, right_panel)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}
