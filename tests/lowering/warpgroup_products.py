"""Schedules by hand of products that warpgroups multiply."""

from dataclasses import dataclass

from autotune import te


@dataclass(frozen=True)
class Tiles:
    """The tile of a block: rows, columns and depth, 64 rows of a warpgroup ``tall`` times."""

    rows: int = 128
    columns: int = 64
    depth: int = 64
    tall: int = 1
    stages: int = 0


def definition(m, n, k, dtype="float16", turned=(False, True), out="float16"):
    """A product; ``turned`` says which operands are stored with their steps outermost."""
    a = te.placeholder((k, m) if turned[0] else (m, k), dtype, name="A")
    b = te.placeholder((k, n) if turned[1] else (n, k), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def total(i, j):
        left, right = a(r, i) if turned[0] else a(i, r), b(r, j) if turned[1] else b(j, r)
        return te.sum(left.astype("float32") * right.astype("float32"), axis=r)

    c = te.compute((m, n), total, name="C")
    return a, b, c, te.compute((m, n), lambda i, j: c[i, j].astype(out), name="D")


def product(m, n, k, tiles, mark="wgmma", **options):
    """A schedule and its arguments."""
    a, b, c, d = definition(m, n, k, **options)
    s = te.create_schedule(d.op)
    s[c].set_scope("local")
    lane, warps = _tile(s[d], tiles)
    s[c].compute_at(s[d], lane)
    chunk, step = s[c].split(c.op.reduce_axis[0], factor=16)
    outer, inner = s[c].split(chunk, factor=tiles.depth // 16)
    s[c].reorder(outer, inner, step, *c.op.axis)
    s[c].pragma(inner, mark, 1)
    for source in (a, b):
        shared = s[s.cache_read(source, "shared", [c])]
        shared.compute_at(s[c], outer)
        fused, vector = shared.split(shared.fuse(*shared.op.axis), factor=8)
        shared.vectorize(vector)
        for size, thread in ((4, "threadIdx.x"), (8, "threadIdx.y"), (warps, "threadIdx.z")):
            fused, inner = shared.split(fused, factor=size)
            shared.bind(inner, te.thread_axis(thread))
        if tiles.stages:
            shared.async_copy(tiles.stages)
    return s, [a, b, d]


def _tile(stage, tiles):
    """Tile the results as `wgmma` leaves them to threads; return the loop of lanes and warps."""
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
    bound = (
        (stage.fuse(rows, columns), "blockIdx.x"),
        *((v, "vthread") for v in (tall, run, half)),
    )
    threads = ((warp, "threadIdx.z"), (lane_row, "threadIdx.y"), (lane, "threadIdx.x"))
    for loop, axis in (*bound, *threads):
        stage.bind(loop, te.thread_axis(axis))
    stage.vectorize(pair)
    return lane, warps
