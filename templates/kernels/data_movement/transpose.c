// Permutes the axes of an array of elements of BYTES bytes: planes of ROWS rows, IN_PITCH elements apart, become planes
// of COLUMNS rows, OUT_PITCH apart; or, unless MOVED, rows of COLUMNS elements are copied. Of the planes NEAR
// neighbouring ones are IN_STEP and OUT_STEP apart; IN_OFFSET and OUT_OFFSET give the offsets of the first of these.
#include <stdint.h>
#if BYTES == 8
typedef uint64_t item;
#elif BYTES == 4
typedef uint32_t item;
#elif BYTES == 2
typedef uint16_t item;
#else
typedef uint8_t item;
#endif

// Squares have SIDE rows, as many as a vector has elements; 1 where a plane has fewer rows or columns than any.
#if SIDE > 1
typedef item row_part __attribute__((vector_size(BYTES * SIDE), aligned(BYTES), may_alias));
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#define SHUFFLE_ITEMS(a, b, ...) __builtin_shuffle(a, b, (row_part){__VA_ARGS__})
#else
#define SHUFFLE_ITEMS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif

// Swaps the blocks off the diagonal of all squares of 2 * d lanes and rows (Eklundh, "A fast computer method for matrix
// transposing", 1972).
#define UPPER(i, d) ((i) & (d) ? SIDE + (i) - (d) : (i))
#define LOWER(i, d) ((i) & (d) ? SIDE + (i) : (i) + (d))
#define UPPER_1(i) UPPER(i, 1)
#define UPPER_2(i) UPPER(i, 2)
#define UPPER_4(i) UPPER(i, 4)
#define UPPER_8(i) UPPER(i, 8)
#define LOWER_1(i) LOWER(i, 1)
#define LOWER_2(i) LOWER(i, 2)
#define LOWER_4(i) LOWER(i, 4)
#define LOWER_8(i) LOWER(i, 8)
#define SWAP_BLOCKS(d)                                                                          \
  _Pragma("GCC unroll 16") for (int i = 0; i < SIDE; ++i) if (!(i & d)) {                      \
    const row_part upper = rows[i], lower = rows[i + d];                                        \
    rows[i] = SHUFFLE_ITEMS(upper, lower, ORDER(UPPER_##d));                                    \
    rows[i + d] = SHUFFLE_ITEMS(upper, lower, ORDER(LOWER_##d));                                \
  }

// Transposes a square of SIDE rows and columns in registers.
INLINED void transpose_square(const item* restrict from, item* restrict to) {
  row_part rows[SIDE];
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) rows[i] = *(const row_part*)(from + (size_t)i * IN_PITCH);
#if SIDE == 16
  SWAP_BLOCKS(8)
#endif
#if SIDE >= 8
  SWAP_BLOCKS(4)
#endif
  SWAP_BLOCKS(2)
  SWAP_BLOCKS(1)
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) *(row_part*)(to + (size_t)i * OUT_PITCH) = rows[i];
}
#endif

// Rows that are read together: results are written in pieces of so many elements.
#define BLOCK 64
// Tasks are parts of this axis: threads write to memory of their own, except at the ends of it.
#if SIDE == 1 && COLUMNS < ROWS
#define LONG ROWS
#else
#define LONG COLUMNS
#endif

// Transposes a part of a plane, from `first` to before `end` of its LONG axis. The last squares overlap others.
INLINED void transpose_part(const item* restrict from, item* restrict to, int first, int end) {
#if !MOVED
  memcpy(to, from, COLUMNS * sizeof(item));
#elif SIDE > 1
  for (int block = 0; block < ROWS; block += BLOCK)
    for (int column = first; column < end; column += SIDE)
      for (int row = block; row < SMALLER(block + BLOCK, ROWS); row += SIDE) {
        const size_t c = SMALLER(column, COLUMNS - SIDE), r = SMALLER(row, ROWS - SIDE);
        transpose_square(from + r * IN_PITCH + c, to + c * OUT_PITCH + r);
      }
#elif COLUMNS < ROWS
  for (int row = first; row < end; ++row)
#pragma GCC unroll 4
    for (int column = 0; column < COLUMNS; ++column)
      to[(size_t)column * OUT_PITCH + row] = from[(size_t)row * IN_PITCH + column];
#else
  for (int column = first; column < end; ++column)
#pragma GCC unroll 4
    for (int row = 0; row < ROWS; ++row)
      to[(size_t)column * OUT_PITCH + row] = from[(size_t)row * IN_PITCH + column];
#endif
}

void transpose(const item* restrict data, item* restrict out) {
  const int tasks = MOVED ? (LONG + PER_TASK - 1) / PER_TASK : 1;
  // Waking other threads takes longer than the smallest arrays.
#pragma omp parallel for schedule(static) if ((size_t)FAR * NEAR * ROWS * COLUMNS > 30000)
  for (size_t task = 0; task < (size_t)FAR * tasks; ++task) {
    const size_t far = task / tasks;
    const int first = task % tasks * PER_TASK, end = SMALLER(first + PER_TASK, LONG);
    const item* from = data + IN_OFFSET;
    item* to = out + OUT_OFFSET;
    for (int near = 0; near < NEAR; ++near, from += IN_STEP, to += OUT_STEP) transpose_part(from, to, first, end);
  }
}
