"""The schedules that AutoTVM's tutorials print can be written with ours, and are made quickly."""

from autotune import te
from tests.te.graphs import padded_convolution


def split_into(stage, axis, sizes):
    """Split as ``SplitEntity.apply`` does: by the product of the sizes inside, again and again."""
    parts = []
    for at in range(1, len(sizes)):
        factor = 1
        for size in sizes[at:]:
            factor *= size
        outer, axis = stage.split(axis, factor=factor)
        parts.append(outer)
    return [*parts, axis]


def tutorial_schedule(data, kernel, conv):
    """Schedule a convolution as the tutorial on tuning for NVIDIA GPUs does."""
    s = te.create_schedule([conv.op])
    pad = s[conv].op.input_tensors[0]
    s[pad].compute_inline()
    cache = s.cache_write(conv, "local")
    shared = [s.cache_read(each, "shared", [cache]) for each in (pad, kernel)]
    local = [s.cache_read(each, "local", [cache]) for each in shared]
    n, *spatial = s[conv].op.axis
    sizes = [(-1, 2, 16, 8), (-1, 7, 1, 1), (-1, 1, 1, 1)]
    parts = [split_into(s[conv], axis, each) for axis, each in zip(spatial, sizes, strict=True)]
    blocks, virtual, threads, inner = zip(*parts, strict=True)
    for level, tag in ((blocks, "blockIdx"), (threads, "threadIdx")):
        for axis, letter in zip(level, "zyx", strict=True):
            s[conv].bind(axis, te.thread_axis(f"{tag}.{letter}"))
    for axis in virtual:
        s[conv].bind(axis, te.thread_axis("vthread"))
    s[conv].reorder(n, *blocks, *virtual, *threads, *inner)
    s[cache].compute_at(s[conv], threads[-1])
    data_axes = s[cache].op.axis
    reduce_parts = [split_into(s[cache], axis, (-1, 4, 2)) for axis in s[cache].op.reduce_axis]
    outer, middle, innermost = zip(*reduce_parts, strict=True)
    s[cache].reorder(*outer, *middle, *innermost, *data_axes)
    for load in shared:
        s[load].compute_at(s[cache], outer[-1])
    for load in local:
        s[load].compute_at(s[cache], middle[-1])
    for load in shared:
        fused = s[load].fuse(*s[load].op.axis)
        for letter, parts_count in zip("zyx", (16, 1, 1), strict=True):
            axis, fused = s[load].split(fused, nparts=parts_count)
            s[load].bind(axis, te.thread_axis(f"threadIdx.{letter}"))
    s[conv].pragma(n, "auto_unroll_max_step", 1500)
    s[conv].pragma(n, "unroll_explicit", 1)
    return s


def test_the_tutorial_template_schedules_a_convolution():
    data, kernel, _, _, conv, _, _ = padded_convolution(channels=512)
    s = tutorial_schedule(data, kernel, conv)
    assert [stage.name for stage in s.stages] == [
        "data",
        "pad_temp",
        "pad_temp.shared",
        "pad_temp.shared.local",
        "kernel",
        "kernel.shared",
        "kernel.shared.local",
        "compute.local",
        "compute",
    ]
    assert len(s.steps) > 50
    assert te.replay(s.outputs, s.steps) == s
    loaded = te.inlined(s).stages[2].op.body[0]
    assert str(loaded) == (
        "if_then_else(ax2 >= 1 && ax2 < 8 && ax3 >= 1 && ax3 < 8, "
        "data[ax0, ax1, ax2 - 1, ax3 - 1], 0.0f)"
    )


def test_the_auto_schedulers_schedule_attaches_before_it_fuses():
    """A schedule with a multi-level tiling of the consumer: attach, then fuse the loops there."""
    _, kernel, _, pad, conv, total, relu = padded_convolution(channels=512)
    s = te.create_schedule(relu.op)
    s[total].compute_inline()
    levels = [
        split_into(s[conv], axis, (-1, *sizes))
        for axis, sizes in zip(
            s[conv].op.axis, [(1, 1, 1, 1), (2, 2, 2, 1), (1, 7, 1, 1), (1, 7, 1, 1)], strict=True
        )
    ]
    reductions = [
        split_into(s[conv], axis, (-1, *sizes))
        for axis, sizes in zip(s[conv].op.reduce_axis, [(4, 32), (1, 1), (1, 1)], strict=True)
    ]
    one, two, three, four, five = zip(*levels, strict=True)
    outer, middle, inner = zip(*reductions, strict=True)
    s[conv].reorder(*one, *two, *three, *outer, *middle, *four, *inner, *five)
    tiles = [
        split_into(s[relu], axis, (-1, *sizes))
        for axis, sizes in zip(
            s[relu].op.axis, [(1, 1, 1), (2, 2, 2), (1, 7, 1), (1, 7, 1)], strict=True
        )
    ]
    blocks, virtual, threads, rest = zip(*tiles, strict=True)
    s[relu].reorder(*blocks, *virtual, *threads, *rest)
    s[conv].compute_at(s[relu], threads[-1])
    for source in (kernel, pad):
        shared = s.cache_read(source, "shared", [conv])
        s[shared].compute_at(s[conv], outer[-1])
        fused = s[shared].fuse(*shared.op.axis)
        fused, vector = s[shared].split(fused, factor=1)
        s[shared].vectorize(vector)
        _, thread = s[shared].split(fused, factor=98)
        s[shared].bind(thread, te.thread_axis("threadIdx.x"))
    s[pad].compute_inline()
    s[relu].bind(s[relu].fuse(*blocks), te.thread_axis("blockIdx.x"))
    s[relu].bind(s[relu].fuse(*virtual), te.thread_axis("vthread"))
    bound = s[relu].fuse(*threads)
    s[relu].bind(bound, te.thread_axis("threadIdx.x"))
    s[conv].pragma(one[0], "auto_unroll_max_step", 0)
    s[conv].pragma(one[0], "unroll_explicit", True)
    assert s[conv].attach_iter is bound
    assert te.replay(s.outputs, s.steps) == s
    assert str(te.inlined(s)[relu].op.body[0]) == (
        "max(compute[i0, i1, i2, i3] + bias[i0, i1, 0, 0], 0.0f)"
    )


def test_the_text_of_a_graph_reads_as_the_tutorial_prints_it():
    *_, relu = padded_convolution(channels=512)
    assert te.dag_text([relu.op]).splitlines() == [
        "data = PLACEHOLDER float32[1, 512, 7, 7]",
        "pad_temp(i0, i1, i2, i3) = if_then_else(i2 >= 1 && i2 < 8 && i3 >= 1 && i3 < 8, "
        "data[i0, i1, i2 - 1, i3 - 1], 0.0f)  # float32[1, 512, 9, 9]",
        "kernel = PLACEHOLDER float32[512, 512, 3, 3]",
        "compute(nn, ff, yy, xx) = sum(pad_temp[nn, rc, yy + ry, xx + rx] * "
        "kernel[ff, rc, ry, rx], axis=[rc, ry, rx])  # float32[1, 512, 7, 7]",
        "bias = PLACEHOLDER float32[1, 512, 1, 1]",
        "T_add(ax0, ax1, ax2, ax3) = compute[ax0, ax1, ax2, ax3] + bias[ax0, ax1, 0, 0]"
        "  # float32[1, 512, 7, 7]",
        "compute.1(i0, i1, i2, i3) = max(T_add[i0, i1, i2, i3], 0.0f)  # float32[1, 512, 7, 7]",
    ]
