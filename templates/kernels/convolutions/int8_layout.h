// Where filters and arranged images of 8-bit integers are, for their convolutions on a CPU.
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define PIXELS (VECTORS * LANES)
#define OUT_PIXELS (OH * OW)
#define TALL 16
#define HALF 8
#define BLOCKS ((CO + TALL - 1) / TALL)
#define STEP_BYTES (TALL * WORDS * 4)
#define BLOCK_BYTES ((size_t)PARTS * TAPS * STEP_BYTES)
// Panels of pixels, which are in one line or, BY_COLUMNS, in one of each row.
#define ALL_LINES (BY_COLUMNS ? OH : 1)
#define LENGTH (BY_COLUMNS ? OW : (OH - 1) * PITCH + OW)
#define LINE_PANELS ((LENGTH + PIXELS - 1) / PIXELS)
#define PANELS (ALL_LINES * LINE_PANELS)
#if BY_COLUMNS
#define APART PITCH
#define IMAGE_WORDS ((size_t)IN_H * CI * QUARTERS * PITCH)
#define LINE_STEP ((size_t)STRIDE_H * CI * QUARTERS * PITCH)
#define TAP_OFFSET(tap) 0
#else
#define APART PLANE
#define IMAGE_WORDS ((size_t)PLANES * PLANE)
#define LINE_STEP 0
#define BELOW(ky) ((ky)*HOLE_H % STRIDE_H * PHASES_X * ROWS_IN + (ky)*HOLE_H / STRIDE_H)
#define BESIDE(kx) ((kx)*HOLE_W % STRIDE_W * ROWS_IN * PITCH + (kx)*HOLE_W / STRIDE_W)
#define TAP_OFFSET(tap) (BELOW((tap) / KW) * PITCH + BESIDE((tap) % KW))
#endif
