"""Schedules by hand of products that warps multiply."""

from autotune import te
from tests.lowering.warpgroup_products import definition


def product(m, n, k, rows=4, warps=2, copied=True, within=None, **options):
    """A schedule and its arguments: a warp has 8 times ``rows`` rows and 32 columns.

    Operands are ``copied`` to shared memory, or read where they are. Steps are split ``within``
    parts of so many.
    """
    a, b, c, d = definition(m, n, k, **options)
    s = te.create_schedule(d.op)
    s[c].set_scope("local")
    lane = _tile(s[d], rows, warps)
    s[c].compute_at(s[d], lane)
    words = 2 if options.get("dtype") == "tf32" else 1
    steps, around = c.op.reduce_axis[0], []
    if within is not None:
        part, steps = s[c].split(steps, factor=within)
        around = [part]
    chunk, step = s[c].split(steps, factor=16 // words)
    s[c].reorder(*around, chunk, step, *c.op.axis)
    s[c].pragma(step, "tensor_core", 1)
    for source in (a, b) if copied else ():
        shared = s[s.cache_read(source, "shared", [c])]
        shared.compute_at(s[c], chunk)
        fused, vector = shared.split(shared.fuse(*shared.op.axis), factor=8 // words)
        shared.vectorize(vector)
        for size, thread in ((4, "threadIdx.x"), (8, "threadIdx.y"), (warps, "threadIdx.z")):
            fused, inner = shared.split(fused, factor=size)
            shared.bind(inner, te.thread_axis(thread))
    return s, [a, b, d]


def _tile(stage, rows, warps):
    """Tile the results as instructions leave them to threads; return the loop of lanes."""
    row, column = stage.op.axis
    outer, lane_row = stage.split(row, factor=8)
    outer, virtual = stage.split(outer, factor=rows)
    outer, warp = stage.split(outer, factor=warps)
    columns, own = stage.split(column, factor=8)
    columns, lane = stage.split(columns, factor=4)
    stage.reorder(outer, columns, virtual, warp, lane_row, lane, own)
    bound = (
        (stage.fuse(outer, columns), "blockIdx.x"), (virtual, "vthread"), (warp, "threadIdx.z"),
        (lane_row, "threadIdx.y"), (lane, "threadIdx.x"),
    )  # fmt: skip
    for loop, axis in bound:
        stage.bind(loop, te.thread_axis(axis))
    return lane
