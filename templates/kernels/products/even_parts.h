// Even division of an extent among tasks, by whole units: tiles, panels or steps of K. Larger parts are nearer to the end,
// and their tasks are taken first, so that the threads end together.
#define COUNT(extent, each) (((extent) + (each)-1) / (each))
// The first element of a part, of so many that have so many units together.
#define START(part, parts, units, unit, extent) SMALLER((extent), (int)((size_t)(part) * (units) / (parts)) * (unit))
// The tiles of rows, and the parts of them; BLOCK rows are the largest part.
#define TILES COUNT(M, ROWS)
#define DOWN COUNT(TILES, BLOCK / ROWS)
#define ROW_OF(part) START(part, DOWN, TILES, ROWS, M)
#ifdef PANELS
// The panels of columns, and the parts of them.
#define ALL_PANELS COUNT(N, WIDTH)
#define ACROSS COUNT(ALL_PANELS, PANELS)
#define COLUMN_OF(part) START(part, ACROSS, ALL_PANELS, WIDTH, N)
#endif
