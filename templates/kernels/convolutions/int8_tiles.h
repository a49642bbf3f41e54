// Products of 8-bit integers by the tiles of Intel's AMX, 16 filters by 16 pixels: eight times as many a cycle as of
// vectors. A program has to ask the system for them; where it refuses, vectors serve.
#if defined(__AMX_INT8__) && defined(__linux__) && VECTORS == 2
#define HAS_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#define ASK_FOR_STATE 0x1023
#define TILE_DATA 18

static int may_use_tiles(void) {
  static int known;
  if (!__atomic_load_n(&known, __ATOMIC_RELAXED))
    __atomic_store_n(&known, syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) ? -1 : 1, __ATOMIC_RELAXED);
  return __atomic_load_n(&known, __ATOMIC_RELAXED) > 0;
}

// Sums are in tiles 0 to 3, filters in 4 and 5, pixels in 6 and 7, of which each row has a word of 16 pixels.
INLINED void begin_tiles(void) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; ++i) {
    shape.row_bytes[i] = i == 4 || i == 5 ? 4 * WORDS : 64;
    shape.rows[i] = i < 6 ? 16 : WORDS;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}
INLINED void end_tiles(void) { __asm__ volatile("tilerelease"); }

#define ZERO_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define LOAD_TILE(tile, from, pitch) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((long)(pitch)) : "memory")
#define STORE_TILE(tile, to, pitch) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((long)(pitch)) : "memory")
#define DOT_TILES(sum, filters, pixels) \
  __asm__ volatile("tdpbsud %%tmm" #pixels ", %%tmm" #filters ", %%tmm" #sum : : :)

// Multiplies `height` blocks of 16 filters, `apart` bytes apart, by `wide` vectors of pixels.
INLINED void multiply_tiles(
    const int height, const int wide, const int8_t* weight, size_t apart, const packed_t* from, int32_t* sums) {
  ZERO_TILE(0);
  if (wide > 1) ZERO_TILE(1);
  if (height > 1) ZERO_TILE(2);
  if (height > 1 && wide > 1) ZERO_TILE(3);
  for (int part = 0; part < PARTS; ++part)
    for (int tap = 0; tap < TAPS; ++tap, weight += STEP_BYTES) {
      const packed_t* at = from + (size_t)part * WORDS * APART + TAP_OFFSET(tap);
      LOAD_TILE(4, weight, 4 * WORDS);
      LOAD_TILE(6, at, 4 * APART);
      DOT_TILES(0, 4, 6);
      if (height > 1) {
        LOAD_TILE(5, weight + apart, 4 * WORDS);
        DOT_TILES(2, 5, 6);
      }
      if (wide > 1) {
        LOAD_TILE(7, at + LANES, 4 * APART);
        DOT_TILES(1, 4, 7);
      }
      if (height > 1 && wide > 1) DOT_TILES(3, 5, 7);
    }
  STORE_TILE(0, sums, 4 * PIXELS);
  if (wide > 1) STORE_TILE(1, sums + LANES, 4 * PIXELS);
  if (height > 1) STORE_TILE(2, sums + 16 * PIXELS, 4 * PIXELS);
  if (height > 1 && wide > 1) STORE_TILE(3, sums + 16 * PIXELS + LANES, 4 * PIXELS);
}
#else
#define HAS_TILES 0
#endif
