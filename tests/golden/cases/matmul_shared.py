"""Matrix products through shared memory: vectors, double buffers, copies in the background."""

from autotune import te
from tests.golden.case import bind, case, fetch
from tests.golden.cases.matmul import matmul


def shared_matmul(dtype="float32", accumulate=None, lanes=1, stages=0, double=False, size=64):
    """A matmul with tiles in shared memory and a register tile of 2 x 2 for each thread."""
    a, b, c = matmul(size, size, size, dtype, accumulate)
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles = [s.cache_read(t, "shared", [local]) for t in (a, b)]
    fused = []
    for axis in s[c].op.axis:
        outer, inner = s[c].split(axis, factor=16)
        middle, inner = s[c].split(inner, factor=2)
        fused.append((outer, middle, inner))
    (io, im, ii), (jo, jm, ji) = fused
    s[c].reorder(io, jo, im, jm, ii, ji)
    thread = s[c].fuse(im, jm)
    bind(s[c], by=io, bx=jo, tx=thread)
    s[local].compute_at(s[c], thread)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    s[local].unroll(ki)
    for tile in tiles:
        s[tile].compute_at(s[local], ko)
        fetch(s[tile], 64, lanes)
        if stages:
            s[tile].async_copy(stages)
        if double:
            s[tile].double_buffer()
    return s, [a, b, c]


@case("cuda")
def matmul_shared():
    return shared_matmul()


@case("cuda")
def matmul_shared_vectors():
    return shared_matmul(lanes=2)


@case("cuda")
def matmul_shared_double_buffer():
    return shared_matmul(double=True)


@case("cuda")
def matmul_shared_async():
    return shared_matmul(stages=3, lanes=2)


@case("cuda")
def matmul_shared_two_blocks():
    """Registers for two blocks of a multiprocessor at least."""
    schedule, tensors = shared_matmul()
    product = schedule.stages[-1]
    product.pragma(product.leaf_iter_vars[0], "min_blocks", 2)
    return schedule, tensors


@case("cuda")
def matmul_shared_odd_sizes():
    return shared_matmul(size=50)


@case("cuda")
def matmul_half_shared():
    return shared_matmul("float16", "float32", lanes=2)


@case("cuda")
def matmul_large_shared_tiles():
    """More shared memory than may be static."""
    a, b, c = matmul(128, 128, 128)
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*c.op.axis, 64, 64)
    ii, iv = s[c].split(ii, factor=16)
    ji, jv = s[c].split(ji, factor=16)
    s[c].reorder(io, jo, ii, ji, iv, jv)
    bind(s[c], by=io, bx=jo, ty=ii, tx=ji)
    for t in (a, b):
        tile = s.cache_read(t, "shared", [c])
        s[tile].compute_at(s[c], jo)
        fetch(s[tile], 4, 4)
    return s, [a, b, c]
