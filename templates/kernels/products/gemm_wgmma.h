// Sizes of gemm_wgmma.cu, and its split of registers.
constexpr int GROUPS = WARPS_M / 4;
constexpr int TILE_M = WARPS_M * FRAGS_M * 16, TILE_N = FRAGS_N * 8;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, BLOCKS_N = (N + TILE_N - 1) / TILE_N;
constexpr int K_TILES = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_SIZE = TILE_M * CHUNK, B_SIZE = CHUNK * TILE_N;
constexpr int STAGE_BYTES = sizeof(Item) * (A_SIZE + B_SIZE);
constexpr int WORDS = TILE_N / 2;
// Reduction of split-K in a cluster: UNITS of 16 columns by 64 rows of accumulators, of which each block reduces SHARE;
// a thread holds 8 words of one: 32 columns of two rows are 16 bytes of 16-bit floats each.
constexpr int UNITS = FRAGS_M * FRAGS_N / 2, SHARE = UNITS / SPLIT;
static_assert(UNITS % SPLIT == 0, "the blocks of a cluster must reduce equal shares");
// Where tiles divide the extents, bounds checks are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_ROWS = WHOLE_M && C_M == M, WHOLE_COLUMNS = WHOLE_N && C_N == N;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;
// Producers need few registers; consumers get the others.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, PRODUCER_REGISTERS = 64;
constexpr int FREE_REGISTERS = (ENTRY_REGISTERS * (GROUPS + 1) - PRODUCER_REGISTERS) / GROUPS / 8 * 8;
constexpr int CONSUMER_REGISTERS = FREE_REGISTERS < 240 ? FREE_REGISTERS : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Whether the rows of an operand in shared memory are contiguous along K (K-major).
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
#if TF32
static_assert(A_ALONG_K && B_ALONG_K, "operands of TF32 must be K-major");
DEFINE_WGMMAS(issue_wgmma, "")
#elif TRANSPOSE_A && TRANSPOSE_B
DEFINE_WGMMAS(issue_wgmma, ", 1, 0")
#elif TRANSPOSE_A
DEFINE_WGMMAS(issue_wgmma, ", 1, 1")
#elif TRANSPOSE_B
DEFINE_WGMMAS(issue_wgmma, ", 0, 0")
#else
DEFINE_WGMMAS(issue_wgmma, ", 0, 1")
#endif
