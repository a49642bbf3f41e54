"""Random schedules of the workloads, drawn so that all of them are legal."""

from autotune import te


def tile(rng, stage, axis, parts):
    """Split an axis a few times, by factors that often do not divide."""
    made = []
    for _ in range(parts - 1):
        axis, inner = stage.split(axis, factor=rng.choice([1, 2, 3, 4]))
        made.append(inner)
    return [axis, *reversed(made)]


def inline_or_attach(rng, s, work, reader, at):
    for tensor in work.chain:
        choice = rng.choice(["inline", "at", "at"])
        if choice == "inline":
            s[tensor].compute_inline()
        else:
            s[tensor].compute_at(s[reader], rng.choice(at))


def maybe_mark(rng, stage, axes):
    for axis in axes:
        if rng.random() < 0.25:
            stage.unroll(axis)


def reduce_loops(rng, s, T, spatial):
    """Split the reduction, put some of it outside the data axes; return the outer loops."""
    outer, inner = [], []
    for axis in s[T].op.reduce_axis:
        first, second = tile(rng, s[T], axis, 2)
        outer.append(first)
        inner.append(second)
    if rng.random() < 0.7:
        s[T].reorder(*outer, *inner, *spatial)
        maybe_mark(rng, s[T], inner)
        if rng.random() < 0.4:
            s[T].vectorize(spatial[-1])
    return outer


def cpu(rng, work):
    """Return a schedule for a CPU."""
    s = te.create_schedule(work.output.op)
    out = work.output
    compute = out
    if rng.random() < 0.5:
        compute = s.cache_write(out, "local")
    tiles = [tile(rng, s[out], axis, 2) for axis in s[out].op.axis]
    outer, inner = [t[0] for t in tiles], [t[1] for t in tiles]
    if compute is not out:
        s[out].reorder(*outer, *inner)
        s[compute].compute_at(s[out], outer[-1])
        spatial = list(s[compute].op.axis)
        at = reduce_loops(rng, s, compute, spatial) or spatial[:1]
        inline_or_attach(rng, s, work, compute, at)
        if rng.random() < 0.5:
            s[out].vectorize(inner[-1])
    else:
        at = outer
        if s[out].op.reduce_axis:
            s[out].reorder(*outer)
            at = reduce_loops(rng, s, out, inner)
        inline_or_attach(rng, s, work, out, at)
    if rng.random() < 0.5 and compute is not out:
        s[out].parallel(outer[0])
    return s


def gpu(rng, work):
    """Return a schedule for a GPU: blocks, threads, virtual threads, caches."""
    s = te.create_schedule(work.output.op)
    out = work.output
    data = list(work.args[:-1])
    has_reduce = bool(s[out].op.reduce_axis)
    cached = rng.random() < 0.7
    compute = s.cache_write(out, "local") if cached else out
    tags = ["y", "x"] if len(s[out].op.axis) > 1 else ["x"]
    axes = list(s[out].op.axis)
    if len(axes) > 2:
        axes = [axes[0], s[out].fuse(*axes[1:])]
    order = {"block": [], "vthread": [], "thread": [], "inner": []}
    for axis, d in zip(axes, tags, strict=True):
        b, v, t, i = tile(rng, s[out], axis, 4)
        s[out].bind(b, te.thread_axis(f"blockIdx.{d}"))
        s[out].bind(v, te.thread_axis("vthread"))
        s[out].bind(t, te.thread_axis(f"threadIdx.{d}"))
        for key, loop in zip(order, (b, v, t, i), strict=True):
            order[key].append(loop)
    s[out].reorder(*[loop for loops in order.values() for loop in loops])
    last = order["thread"][-1]
    at_loops = [last]
    if compute is not out:
        s[compute].compute_at(s[out], last)
        if has_reduce:
            at_loops = reduce_loops(rng, s, compute, list(s[compute].op.axis))
        else:
            at_loops = [s[compute].op.axis[0]]
    elif has_reduce:
        at_loops = list(s[out].op.reduce_axis)
    inline_or_attach(rng, s, work, compute, at_loops)
    if not any(
        stage.attach_type == "at" and stage.op.output(0) in work.chain for stage in s.stages
    ):
        for tensor in data:
            source = work.chain[0] if tensor is data[0] and work.chain and has_reduce else tensor
            read = source in s[compute].op.input_tensors
            if read and rng.random() < 0.7:
                shared_copy(rng, s, source, compute, at_loops, tags)
    s[out].pragma(order["block"][0], "auto_unroll_max_step", rng.choice([0, 16, 200]))
    s[out].pragma(order["block"][0], "unroll_explicit", rng.choice([0, 1]))
    return s


def shared_copy(rng, s, source, reader, at_loops, tags):
    copy = s.cache_read(source, "shared", [reader])
    s[copy].compute_at(s[reader], rng.choice(at_loops))
    fused = s[copy].fuse(*s[copy].op.axis)
    rest = fused
    if rng.random() < 0.3:
        rest, lane = s[copy].split(rest, factor=rng.choice([2, 4]))
        s[copy].vectorize(lane)
    out = next(stage for stage in s.stages if stage.is_output)
    for d in reversed(tags):
        count = next(
            relation_extent(out, leaf)
            for leaf in out.leaf_iter_vars
            if out.attr(leaf).thread and out.attr(leaf).thread.thread_tag == f"threadIdx.{d}"
        )
        rest, thread = s[copy].split(rest, factor=count)
        s[copy].bind(thread, te.thread_axis(f"threadIdx.{d}"))
    if rng.random() < 0.3:
        s[copy].storage_align(s[copy].op.axis[0], 8, rng.choice([1, 4]))


def relation_extent(stage, leaf):
    return next(r.factor for r in stage.relations if getattr(r, "inner", None) is leaf)
