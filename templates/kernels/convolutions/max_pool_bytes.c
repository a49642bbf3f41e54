// Maximum pooling of bytes, NCHW: the rows of a window first, then its columns, both in loops that compilers vectorise.
// With PHASES the columns of a stride are put apart before, so that neighbouring windows read neighbouring bytes.
#include <stddef.h>
#include <stdint.h>

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
typedef ELEMENT element;

// Bytes that the windows of a row span, and those of a row with its padding; bytes of a phase.
#define SPAN ((OW - 1) * SX + (KW - 1) * DX + 1)
#define PADDED LARGER(SPAN, PX + IW)
#define PHASE ((PADDED + SX - 1) / SX)

typedef struct {
  element line[PHASE * SX], phases[SX][PHASE], lowest[IW];
} Scratch;

// Per thread, and not on its stack, which long rows would exceed.
static _Thread_local Scratch scratch;

// Writes the maxima of the columns of the rows that the windows from row `top` on have; those beyond the image are the
// lowest.
static void join_rows(Scratch* restrict with, const element* restrict plane, const int top) {
  const element* rows[KH];
  element* const to = with->line + PX;
  for (int i = 0; i < KH; ++i) {
    const int y = top + i * DY;
    rows[i] = y < 0 || y >= IH ? with->lowest : plane + (size_t)y * IW;
  }
#pragma GCC ivdep
  for (int x = 0; x < IW; ++x) {
    element most = rows[0][x];
#pragma GCC unroll 16
    for (int i = 1; i < KH; ++i) most = LARGER(most, rows[i][x]);
    to[x] = most;
  }
}

static void join_columns(Scratch* restrict with, element* restrict out) {
  if (PHASES)
#pragma GCC ivdep
    for (int x = 0; x < PHASE; ++x)
#pragma GCC unroll 16
      for (int p = 0; p < SX; ++p) with->phases[p][x] = with->line[x * SX + p];
#pragma GCC ivdep
  for (int x = 0; x < OW; ++x) {
    element most = with->line[x * SX];
#pragma GCC unroll 16
    for (int j = 1; j < KW; ++j) {
      const int at = j * DX;
      const element other = PHASES ? with->phases[at % SX][x + at / SX] : with->line[x * SX + at];
      most = LARGER(most, other);
    }
    out[x] = most;
  }
}

void max_pool(const element* restrict data, element* restrict out) {
#pragma omp parallel if ((size_t)PLANES * OH * OW * KH * KW > 500000)
  {
    Scratch* const with = &scratch;
    for (int x = 0; x < PHASE * SX; ++x) with->line[x] = LOWEST;
    for (int x = 0; x < IW; ++x) with->lowest[x] = LOWEST;
#pragma omp for schedule(static)
    for (int n = 0; n < PLANES; ++n)
      for (int y = 0; y < OH; ++y) {
        join_rows(with, data + (size_t)n * IH * IW, y * SY - PY);
        join_columns(with, out + ((size_t)n * OH + y) * OW);
      }
  }
}
