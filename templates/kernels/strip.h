// A strip: register tiles one below the other, computed by `multiply_panel`.
INLINED void tile(
    const int wide, const size_t pitch, const int rows, int depth, const float* restrict a,
    const float* restrict b, float* restrict c, const Columns* columns, const int first,
    const int last, const EpilogueArgs epilogue, int ahead, const float* next, float* copy) {
  vec sum[ROWS][VECTORS];
  prefetch_result(rows, wide, c, columns);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] = (vec){0};
  multiply_panel(sum, wide, pitch, rows, depth, a, b, ahead, next, copy);
  store_tile(sum, wide, rows, c, columns, first, last, epilogue);
}

// Computes `rows` rows: whole tiles, then one of the remaining ROWS_LEFT rows. With `copy` the first tile packs the panel
// there for the others.
INLINED void strip(
    const int wide, const size_t pitch, int rows, int depth, const float* restrict a,
    const float* restrict b, float* restrict c, const Columns* columns, int first, int last,
    EpilogueArgs epilogue, int ahead, const float* next, float* copy) {
  int i = 0;
#define TILE_OF(height, b, pitch, copy)                                                  \
  tile(wide, pitch, height, depth, a + (size_t)i * LDA, b, c + (size_t)i * LDC, columns, \
       first, last, epilogue_at(epilogue, i, 0), ahead, next, copy)
  if (copy && rows < ROWS) {
    if (ROWS_LEFT) TILE_OF(ROWS_LEFT, b, pitch, copy);
  } else if (copy) {
    TILE_OF(ROWS, b, pitch, copy);
    for (i = ROWS; i + ROWS <= rows; i += ROWS) TILE_OF(ROWS, copy, WIDTH, NULL);
    if (ROWS_LEFT && i < rows) TILE_OF(ROWS_LEFT, copy, WIDTH, NULL);
  } else {
    for (; i + ROWS <= rows; i += ROWS) TILE_OF(ROWS, b, pitch, NULL);
    if (ROWS_LEFT && i < rows) TILE_OF(ROWS_LEFT, b, pitch, NULL);
  }
#undef TILE_OF
}
