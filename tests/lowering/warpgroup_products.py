"""Schedules by hand of products that warpgroups multiply."""

from dataclasses import dataclass

from autotune import te


@dataclass(frozen=True)
class Tiles:
    """The tile of a block: rows, columns and depth, 64 rows of a warpgroup ``tall`` times.

    With ``blocks`` there are so many, which take tiles in turn.
    """

    rows: int = 128
    columns: int = 64
    depth: int = 64
    tall: int = 1
    stages: int = 0
    blocks: int = 0


def definition(m, n, k, dtype="float16", transposed=(False, True), out="float16", passed=False):
    """A product; ``transposed`` says which operands are stored with their steps outermost.

    With ``"tf32"`` they are floats that are cut, of which threads may read the first, ``passed``
    in registers.
    """
    del passed
    stored = "float32" if dtype == "tf32" else dtype
    a = te.placeholder((k, m) if transposed[0] else (m, k), stored, name="A")
    b = te.placeholder((k, n) if transposed[1] else (n, k), stored, name="B")
    r = te.reduce_axis((0, k), name="k")
    wide = te.tf32 if dtype == "tf32" else lambda x: x.astype("float32")

    def total(i, j):
        left, right = a(r, i) if transposed[0] else a(i, r), b(r, j) if transposed[1] else b(j, r)
        return te.sum(wide(left) * wide(right), axis=r)

    c = te.compute((m, n), total, name="C")
    return a, b, c, te.compute((m, n), lambda i, j: c[i, j].astype(out), name="D")


def product(m, n, k, tiles, mark="wgmma", **options):
    """A schedule and its arguments."""
    a, b, c, d = definition(m, n, k, **options)
    s = te.create_schedule(d.op)
    multiply(s, (a, b, c), d, tile(s[d], tiles), tiles, mark, **options)
    return s, [a, b, d]


def multiply(s, stages, reader, place, tiles, mark="wgmma", **options):
    """Schedule a product for the tiles of what reads it, at the place that `tile` returned."""
    a, b, c = stages
    lane, warps = place
    words = 2 if options.get("dtype") == "tf32" else 1
    transposed = options.get("transposed", (False, True))
    s[c].set_scope("local")
    s[c].compute_at(s[reader], lane)
    steps = 16 // words
    chunk, step = s[c].split(c.op.reduce_axis[0], factor=steps)
    outer, inner = s[c].split(chunk, factor=tiles.depth // steps)
    s[c].reorder(outer, inner, step, *c.op.axis)
    s[c].pragma(inner, mark, 1)
    for source, across in zip((a, b), transposed, strict=True):
        shared = s[s.cache_read(source, "shared", [c])]
        shared.compute_at(s[c], outer)
        passed = source is a and options.get("passed", False)
        if passed:
            shared.storage_align(shared.op.axis[0], 32, 8)
        _fetch(shared, warps, 8 // words, across and words == 2 and not passed)
        if tiles.stages:
            shared.async_copy(tiles.stages)


def _fetch(shared, warps, lanes, one_by_one):
    """Let all threads fill a tile by vectors, or element by element along columns of it."""
    if one_by_one:
        (steps, x), (across, y) = (
            shared.split(axis, factor=n) for axis, n in zip(shared.op.axis, (4, 8), strict=True)
        )
        shared.reorder(steps, across, y, x)
        fused, threads = shared.fuse(steps, across), [(y, "threadIdx.y"), (x, "threadIdx.x")]
    else:
        fused, vector = shared.split(shared.fuse(*shared.op.axis), factor=lanes)
        shared.vectorize(vector)
        threads = []
        for size, thread in ((4, "threadIdx.x"), (8, "threadIdx.y")):
            fused, inner = shared.split(fused, factor=size)
            threads.append((inner, thread))
    fused, inner = shared.split(fused, factor=warps)
    for loop, thread in ((inner, "threadIdx.z"), *threads):
        shared.bind(loop, te.thread_axis(thread))


def tile(stage, tiles):
    """Tile the results as `wgmma` leaves them to threads; return the last loop and the warps."""
    row, column = stage.op.axis
    warps = tiles.rows // tiles.tall // 16
    rows, lane_row = stage.split(row, factor=8)
    rows, half = stage.split(rows, factor=2)
    rows, warp = stage.split(rows, factor=warps)
    rows, tall = stage.split(rows, factor=tiles.tall)
    columns, pair = stage.split(column, factor=2)
    columns, lane = stage.split(columns, factor=4)
    columns, run = stage.split(columns, factor=tiles.columns // 8)
    stage.reorder(rows, columns, tall, run, half, warp, lane_row, lane, pair)
    block, last = stage.fuse(rows, columns), lane
    if tiles.blocks:
        turn, block = stage.split(block, factor=tiles.blocks)
        stage.reorder(block, warp, lane_row, lane, turn, tall, run, half, pair)
        stage.pragma(turn, "persistent", 1)
        last = half
    bound = ((block, "blockIdx.x"), *((v, "vthread") for v in (tall, run, half)))
    threads = ((warp, "threadIdx.z"), (lane_row, "threadIdx.y"), (lane, "threadIdx.x"))
    for loop, axis in (*bound, *threads):
        stage.bind(loop, te.thread_axis(axis))
    stage.vectorize(pair)
    return last, warps
