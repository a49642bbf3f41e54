// Steps of products of matrices in any layout, and the transpose of what they read in vectors.

// Adds the products of `rows` elements of a, at a distance of `apart`, and the first `wide` elements of b.
INLINED void rank_one(
    vec sum[ROWS][VECTORS], const int wide, const int rows, const float* restrict a, const size_t apart,
    const float* restrict b) {
  __asm__ volatile("" ::: "memory");
  vec right[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) right[v] = load_part(b, v, wide);
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) keep_loaded(&right[v]);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    if (READS_ELEMENT && VECTORS_OF(wide) == 1) {
      add_product_of(&sum[i][0], a + i * apart, right[0]);
      continue;
    }
    const vec left = a[i * apart] - (vec){0};
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) add_product(&sum[i][v], right[v], left);
  }
}

// Transposes LANES elements of LANES rows times a factor, to rows of WIDTH; of these `height` rows and `depth` elements
// exist, others are zero, and not written.
INLINED void transpose_rows(
    float* restrict to, const float* restrict from, const size_t pitch, const int height, const int depth,
    const float factor) {
  vec block[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) {
    const float* row = from + i * pitch;
    if (i >= height) block[i] = (vec){0};
    else if (depth >= LANES) block[i] = *(const vec*)row * factor;
    else block[i] = load_some(row, depth) * factor;
  }
  transpose_vectors(block);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i)
    if (i < depth) *(vec*)(to + i * WIDTH) = block[i];
}
