"""Schedules whose loops and text are kept: `CASES` maps a name to a target and a builder."""

from autotune import te
from tests.golden import computations

CASES = {}
BLOCK_X, BLOCK_Y, BLOCK_Z = (f"blockIdx.{d}" for d in "xyz")
THREAD_X, THREAD_Y, THREAD_Z = (f"threadIdx.{d}" for d in "xyz")


def case(*languages):
    """Register a function that returns a schedule and its arguments."""

    def register(function):
        for language in languages:
            CASES[f"{function.__name__}_{language}"] = (language, function)
        return function

    return register


def bind(stage, **axes):
    """Bind axes: bind(stage, bx=i, tx=j)."""
    for short, axis in axes.items():
        word = {"b": "blockIdx", "t": "threadIdx"}.get(short[0])
        stage.bind(axis, te.thread_axis(f"{word}.{short[1]}" if word else "vthread"))


def flat(stage, size=64):
    """Bind the fused data axes of a stage to blocks and threads."""
    outer, inner = stage.split(stage.fuse(*stage.op.axis), factor=size)
    bind(stage, bx=outer, tx=inner)
    return outer, inner


def fetch(stage, size, lanes=1):
    """Let the threads of a block fill a shared stage together."""
    fused = stage.fuse(*stage.op.axis)
    if lanes > 1:
        fused, vector = stage.split(fused, factor=lanes)
        stage.vectorize(vector)
    _, inner = stage.split(fused, factor=size)
    bind(stage, tx=inner)


# -- loops -----------------------------------------------------------------------------------


@case("c")
def add_plain():
    *inputs, c = computations.add()
    return te.create_schedule(c.op), [*inputs, c]


@case("c")
def add_split_even():
    *inputs, c = computations.add()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=32)
    return s, [*inputs, c]


@case("c")
def add_split_tail():
    *inputs, c = computations.add(1000)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=48)
    return s, [*inputs, c]


@case("c")
def add_split_nparts():
    *inputs, c = computations.add(1000)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], nparts=7)
    return s, [*inputs, c]


@case("c")
def add_parallel_simd():
    *inputs, c = computations.add()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return s, [*inputs, c]


@case("c")
def add_unrolled():
    *inputs, c = computations.add(64)
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].unroll(inner)
    return s, [*inputs, c]


@case("c", "cuda")
def add_half():
    *inputs, c = computations.add(dtype="float16")
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("c", "cuda")
def add_bfloat():
    *inputs, c = computations.add(dtype="bfloat16")
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("c", "cuda")
def add_bytes():
    *inputs, c = computations.add(dtype="int8")
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("c", "cuda")
def add_long():
    *inputs, c = computations.add(dtype="int64")
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("cuda")
def add_bound():
    *inputs, c = computations.add()
    s = te.create_schedule(c.op)
    flat(s[c])
    return s, [*inputs, c]


@case("cuda")
def add_bound_tail():
    *inputs, c = computations.add(1000)
    s = te.create_schedule(c.op)
    flat(s[c])
    return s, [*inputs, c]


@case("cuda")
def add_vectors():
    *inputs, c = computations.add()
    s = te.create_schedule(c.op)
    outer, lanes = s[c].split(c.op.axis[0], factor=4)
    s[c].vectorize(lanes)
    outer, inner = s[c].split(outer, factor=64)
    bind(s[c], bx=outer, tx=inner)
    return s, [*inputs, c]


@case("cuda")
def add_half_vectors():
    *inputs, c = computations.add(dtype="float16")
    s = te.create_schedule(c.op)
    outer, lanes = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(lanes)
    outer, inner = s[c].split(outer, factor=32)
    bind(s[c], bx=outer, tx=inner)
    return s, [*inputs, c]


@case("cuda")
def add_vthread():
    *inputs, c = computations.add()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    outer, virtual = s[c].split(outer, factor=2)
    bind(s[c], bx=outer, v=virtual, tx=inner)
    return s, [*inputs, c]


@case("c", "cuda")
def function_table():
    *inputs, c = computations.functions()
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("c", "cuda")
def function_table_half():
    *inputs, c = computations.functions(dtype="float16")
    s = te.create_schedule(c.op)
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [*inputs, c]


@case("c", "cuda")
def floor_division():
    x, y = computations.shifted()
    s = te.create_schedule(y.op)
    flat(s[y]) if LANGUAGE[0] == "cuda" else None
    return s, [x, y]


@case("c", "cuda")
def reshaped():
    x, y = computations.reshape()
    s = te.create_schedule(y.op)
    flat(s[y], 24) if LANGUAGE[0] == "cuda" else None
    return s, [x, y]


@case("c")
def stencil_tiled():
    x, y = computations.stencil()
    s = te.create_schedule(y.op)
    i, j, k = y.op.axis
    s[y].tile(j, k, 5, 7)
    s[y].parallel(i)
    return s, [x, y]


@case("cuda")
def stencil_bound():
    x, y = computations.stencil()
    s = te.create_schedule(y.op)
    i, j, k = y.op.axis
    bind(s[y], bx=i, ty=j, tx=k)
    return s, [x, y]


# -- several stages --------------------------------------------------------------------------


@case("c")
def chain_root():
    x, _, _, c = computations.chain()
    return te.create_schedule(c.op), [x, c]


@case("c", "cuda")
def chain_inline():
    x, a, b, c = computations.chain()
    s = te.create_schedule(c.op)
    s[a].compute_inline()
    s[b].compute_inline()
    flat(s[c]) if LANGUAGE[0] == "cuda" else None
    return s, [x, c]


@case("c")
def chain_attached():
    x, a, b, c = computations.chain()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[b].compute_at(s[c], inner)
    s[a].compute_at(s[c], outer)
    return s, [x, c]


@case("cuda")
def chain_kernels():
    x, a, b, c = computations.chain()
    s = te.create_schedule(c.op)
    for t in (a, b, c):
        flat(s[t])
    return s, [x, c]


@case("cuda")
def chain_shared():
    x, a, b, c = computations.chain(1024)
    s = te.create_schedule(c.op)
    outer, _ = flat(s[c])
    s[b].compute_inline()
    s[a].compute_at(s[c], outer)
    s[a].set_scope("shared")
    bind(s[a], tx=s[a].op.axis[0])
    return s, [x, c]


@case("c", "cuda")
def outputs_two():
    x, p, q = computations.two_outputs()
    s = te.create_schedule(p.op)
    flat(s[p]) if LANGUAGE[0] == "cuda" else None
    return s, [x, p, q]


@case("cuda")
def transpose_shared():
    x, t = computations.transpose()
    s = te.create_schedule(t.op)
    cache = s.cache_read(x, "shared", [t])
    i, j = s[t].op.axis
    io, jo, ii, ji = s[t].tile(i, j, 16, 16)
    bind(s[t], by=io, bx=jo, ty=ii, tx=ji)
    s[cache].compute_at(s[t], jo)
    a, b = s[cache].op.axis
    bind(s[cache], ty=a, tx=b)
    s[cache].storage_align(a, 16, 1)
    return s, [x, t]


@case("c")
def transpose_tiled():
    x, t = computations.transpose()
    s = te.create_schedule(t.op)
    s[t].tile(*t.op.axis, 8, 8)
    return s, [x, t]


# -- reductions ------------------------------------------------------------------------------


@case("c")
def row_sum_plain():
    x, y = computations.row_sum()
    return te.create_schedule(y.op), [x, y]


@case("c")
def row_sum_reordered():
    x, y = computations.row_sum()
    s = te.create_schedule(y.op)
    s[y].reorder(y.op.reduce_axis[0], y.op.axis[0])
    return s, [x, y]


@case("c")
def row_sum_rfactor():
    x, y = computations.row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=8)
    factor = s.rfactor(y, inner)
    s[factor].compute_at(s[y], s[y].op.axis[0])
    return s, [x, y]


@case("cuda")
def row_sum_one_warp():
    x, y = computations.row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=32)
    bind(s[y], bx=y.op.axis[0], tx=inner)
    return s, [x, y]


@case("cuda")
def row_sum_many_warps():
    x, y = computations.row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=128)
    bind(s[y], bx=y.op.axis[0], tx=inner)
    return s, [x, y]


@case("cuda")
def row_sum_split_k():
    x, y = computations.row_sum()
    s = te.create_schedule(y.op)
    outer, _ = s[y].split(y.op.reduce_axis[0], nparts=4)
    factor = s.rfactor(y, outer)
    bind(s[factor], by=s[factor].op.axis[0], bx=s[factor].op.axis[1])
    flat(s[y], 16)
    return s, [x, y]


@case("c")
def total_plain():
    x, y = computations.total()
    return te.create_schedule(y.op), [x, y]


@case("cuda")
def total_one_block():
    x, y = computations.total()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=64)
    bind(s[y], tx=inner)
    return s, [x, y]


@case("c", "cuda")
def argmax_rows():
    x, where, top = computations.argmax()
    s = te.create_schedule(where.op)
    flat(s[where], 8) if LANGUAGE[0] == "cuda" else None
    return s, [x, where, top]


@case("c")
def softmax_plain():
    x, _, _, _, y = computations.softmax()
    return te.create_schedule(y.op), [x, y]


@case("cuda")
def softmax_block_a_row():
    x, top, e, total, y = computations.softmax()
    s = te.create_schedule(y.op)
    s[e].compute_inline()
    i, j = s[y].op.axis
    _, inner = s[y].split(j, factor=32)
    bind(s[y], bx=i, tx=inner)
    for t in (top, total):
        s[t].compute_at(s[y], i)
        s[t].set_scope("shared")
        _, lane = s[t].split(s[t].op.reduce_axis[0], factor=32)
        bind(s[t], tx=lane)
    return s, [x, y]


# -- products --------------------------------------------------------------------------------


@case("c")
def matmul_plain():
    *inputs, c = computations.matmul()
    return te.create_schedule(c.op), [*inputs, c]


@case("c")
def matmul_tiled():
    *inputs, c = computations.matmul()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, jo, ii, ji = s[c].tile(i, j, 8, 16)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(io, jo, ko, ii, ki, ji)
    s[c].vectorize(ji)
    s[c].parallel(io)
    return s, [*inputs, c]


@case("c")
def matmul_cached():
    *inputs, c = computations.matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "global")
    i, j = c.op.axis
    _, jo, _, ji = s[c].tile(i, j, 8, 16)
    s[cache].compute_at(s[c], jo)
    s[c].vectorize(ji)
    return s, [*inputs, c]


@case("c")
def matmul_packed():
    a, b, c = computations.matmul()
    s = te.create_schedule(c.op)
    packed = s.cache_read(b, "global", [c])
    _, jo, _, _ = s[c].tile(*c.op.axis, 8, 16)
    s[packed].compute_at(s[c], jo)
    return s, [a, b, c]


@case("c")
def matmul_odd_sizes():
    *inputs, c = computations.matmul(19, 23, 17)
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 8, 8)
    s[c].split(c.op.reduce_axis[0], factor=4)
    return s, [*inputs, c]


def shared_matmul(dtype="float32", accumulate=None, lanes=1, stages=0, double=False, size=64):
    """A matmul with tiles in shared memory and a register tile of 2 x 2 for each thread."""
    a, b, c = computations.matmul(size, size, size, dtype, accumulate)
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
def matmul_shared_odd_sizes():
    return shared_matmul(size=50)


@case("cuda")
def matmul_half_shared():
    return shared_matmul("float16", "float32", lanes=2)


@case("cuda")
def matmul_naive():
    *inputs, c = computations.matmul()
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*c.op.axis, 16, 16)
    bind(s[c], by=io, bx=jo, ty=ii, tx=ji)
    return s, [*inputs, c]


@case("cuda")
def matmul_large_shared_tiles():
    """More shared memory than may be static."""
    a, b, c = computations.matmul(128, 128, 128)
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


@case("c")
def dense_relu_fused():
    a, b, bias, dense, added, relu = computations.dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    s[dense].compute_at(s[relu], relu.op.axis[1])
    return s, [a, b, bias, relu]


@case("cuda")
def dense_relu_bound():
    a, b, bias, dense, added, relu = computations.dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    _, inner = flat(s[relu])
    s[dense].compute_at(s[relu], inner)
    return s, [a, b, bias, relu]


@case("cuda")
def dense_relu_cross_thread():
    a, b, bias, dense, added, relu = computations.dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    fused = s[relu].fuse(*relu.op.axis)
    bind(s[relu], bx=fused)
    _, inner = s[dense].split(dense.op.reduce_axis[0], factor=32)
    bind(s[dense], tx=inner)
    s[dense].compute_at(s[relu], fused)
    return s, [a, b, bias, relu]


@case("c")
def conv2d_plain():
    x, w, _, y = computations.conv2d()
    return te.create_schedule(y.op), [x, w, y]


@case("c")
def conv2d_inline_pad():
    x, w, pad, y = computations.conv2d()
    s = te.create_schedule(y.op)
    s[pad].compute_inline()
    s[y].parallel(y.op.axis[1])
    s[y].unroll(y.op.reduce_axis[2])
    return s, [x, w, y]


@case("c")
def conv2d_attached_pad():
    x, w, pad, y = computations.conv2d(stride=2)
    s = te.create_schedule(y.op)
    s[pad].compute_at(s[y], y.op.axis[2])
    return s, [x, w, y]


@case("cuda")
def conv2d_direct():
    x, w, pad, y = computations.conv2d()
    s = te.create_schedule(y.op)
    s[pad].compute_inline()
    local = s.cache_write(y, "local")
    tiles = [s.cache_read(t, "shared", [local]) for t in (pad, w)]
    n, f, h, v = s[y].op.axis
    fo, fi = s[y].split(f, factor=2)
    fo, fv = s[y].split(fo, factor=2)
    ho, hi = s[y].split(h, factor=7)
    s[y].reorder(n, fo, ho, fv, hi, v, fi)
    bind(s[y], bz=n, by=fo, bx=ho, v=fv, ty=hi, tx=v)
    s[local].compute_at(s[y], v)
    rc, ry, rx = s[local].op.reduce_axis
    ro, ri = s[local].split(rc, factor=2)
    s[local].reorder(ro, ri, ry, rx, *s[local].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[local], ro)
        fused = s[tile].fuse(*s[tile].op.axis)
        fused, lane = s[tile].split(fused, factor=14)
        _, row = s[tile].split(fused, factor=7)
        bind(s[tile], ty=row, tx=lane)
    s[y].pragma(fo, "auto_unroll_max_step", 16)
    s[y].pragma(fo, "unroll_explicit", False)
    return s, [x, w, y]


# The language of the case being built, for those that differ in their bindings only.
LANGUAGE = ["c"]
