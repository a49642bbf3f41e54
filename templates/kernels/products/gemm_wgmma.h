// The sizes of tiles and chunks of gemm_wgmma.cu, which tells what they mean, and how threads divide registers.
constexpr int GROUPS = WARPS_M / 4;
constexpr int TILE_M = WARPS_M * FRAGS_M * 16, TILE_N = FRAGS_N * 8;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, BLOCKS_N = (N + TILE_N - 1) / TILE_N;
constexpr int CHUNKS = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_SIZE = TILE_M * CHUNK, B_SIZE = CHUNK * TILE_N;
constexpr int SLOT_BYTES = sizeof(Item) * (A_SIZE + B_SIZE);
constexpr int WORDS = TILE_N / 2;
// What blocks of a cluster pass on: UNITS of the sums of 16 columns by 64 rows, of which each block finishes
// SHARE, and of which a thread holds 8 words: two rows' part of 32 columns is 16 bytes of 16-bit floats each.
constexpr int UNITS = FRAGS_M * FRAGS_N / 2, SHARE = UNITS / SPLIT;
static_assert(UNITS % SPLIT == 0, "blocks cannot share the sums evenly");
// Where the extents divide, the tests for the edges are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_ROWS = WHOLE_M && C_M == M, WHOLE_COLUMNS = WHOLE_N && C_N == N;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;
// Copies need few registers: they leave theirs to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 64;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Which operands' rows of shared memory run along K.
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
#if TF32
static_assert(A_ALONG_K && B_ALONG_K, "of floats, both operands must stand along K");
DEFINE_PRODUCTS(begin_product, "")
#elif TRANSPOSE_A && TRANSPOSE_B
DEFINE_PRODUCTS(begin_product, ", 1, 0")
#elif TRANSPOSE_A
DEFINE_PRODUCTS(begin_product, ", 1, 1")
#elif TRANSPOSE_B
DEFINE_PRODUCTS(begin_product, ", 0, 0")
#else
DEFINE_PRODUCTS(begin_product, ", 0, 1")
#endif
