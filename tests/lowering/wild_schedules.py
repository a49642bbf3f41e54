"""Schedules drawn with little regard for sense: what can be lowered must still be right."""

from autotune import te
from autotune.errors import ScheduleError


def split(rng, stage, axis):
    if rng.random() < 0.5:
        return stage.split(axis, factor=rng.choice([1, 2, 3, 4, 5]))
    return stage.split(axis, nparts=rng.choice([1, 2, 3, 4]))


def mangle(rng, stage, axes, times):
    """Split and fuse axes at random; return what has become of them."""
    axes = list(axes)
    for _ in range(times):
        i = rng.randrange(len(axes))
        if rng.random() < 0.5:
            axes[i : i + 1] = split(rng, stage, axes[i])
        elif i + 1 < len(axes):
            axes[i : i + 2] = [stage.fuse(axes[i], axes[i + 1])]
    return axes


def shuffle_in(rng, stage, data, reduced):
    """Put the reduction loops somewhere between the data loops."""
    cut = rng.randint(0, len(data)) if reduced else len(data)
    order = [*data[:cut], *reduced, *data[cut:]]
    if len(order) > 1:
        stage.reorder(*order)


def mark(rng, stage, free):
    """Mark one of the loops that nothing was done to."""
    if not free:
        return
    choice = rng.random()
    if choice < 0.4:
        stage.vectorize(free[-1])
    elif choice < 0.6:
        stage.unroll(free[-1])


def bind_some(rng, stage, data, reduced):
    """Bind some loops; return them."""
    tags = ["blockIdx.x", "threadIdx.x", "threadIdx.y"][: min(len(data), rng.randint(1, 3))]
    if rng.random() < 0.3:
        tags = ["threadIdx.x"]
    chosen = [data[i] for i in sorted(rng.sample(range(len(data)), len(tags)))]
    for axis, tag in zip(chosen, tags, strict=True):
        stage.bind(axis, te.thread_axis(tag))
    free = [axis for axis in data if axis not in chosen]
    if free and rng.random() < 0.5:
        axis = rng.choice(free)
        stage.vthread(axis)
        chosen.append(axis)
    if reduced and rng.random() < 0.4 and "threadIdx.y" not in tags:
        stage.bind(rng.choice(reduced), te.thread_axis("threadIdx.y"))
    return chosen


def rfactor(rng, s, out):
    """Factor the first reduction axis, or not."""
    if not s[out].op.reduce_axis or rng.random() < 0.75:
        return None
    parts = s[out].split(s[out].op.reduce_axis[0], factor=rng.choice([2, 3, 4, 8]))
    return s.rfactor(out, rng.choice(parts))


def place_factored(rng, s, factored, out, gpu):
    """Compute what rfactor made inside the output's loops, or in loops of its own."""
    if not gpu and rng.random() < 0.4:
        return out
    if gpu and rng.random() < 0.4:
        first, *more = s[factored].op.axis
        s[factored].bind(first, te.thread_axis("blockIdx.x"))
        if more:
            s[factored].bind(more[0], te.thread_axis("threadIdx.x"))
        return out
    s[factored].compute_at(s[out], rng.choice(s[out].leaf_iter_vars))
    return factored


def place_chain(rng, s, work, reader, gpu):
    """Inline what comes before, or compute it in some loop of its reader."""
    for tensor in work.chain:
        try:
            if rng.random() < 0.3:
                raise ScheduleError("inline instead")
            s[tensor].compute_at(s[reader], rng.choice(s[reader].leaf_iter_vars))
        except ScheduleError:
            s[tensor].compute_inline()
            continue
        if gpu and rng.random() < 0.6:
            s[tensor].set_scope(rng.choice(["shared", "local"]))


def cache_inputs(rng, s, work, reader, gpu):
    """Copy inputs into some memory in some loop of their reader."""
    for tensor in work.args[:-1]:
        if tensor not in s[reader].op.input_tensors or rng.random() < 0.5:
            continue
        scope = rng.choice(["shared", "local"]) if gpu else "global"
        copy = s.cache_read(tensor, scope, [reader])
        s[copy].compute_at(s[reader], rng.choice(s[reader].leaf_iter_vars))
        if scope == "shared" and rng.random() < 0.4:
            s[copy].double_buffer()
        elif scope == "shared" and rng.random() < 0.6:
            s[copy].async_copy(rng.choice([2, 3]))


def wild(rng, work, gpu):
    """Return a random schedule of a workload."""
    out = work.output
    s = te.create_schedule(out.op)
    cache = s.cache_write(out, "local" if gpu else "global") if rng.random() < 0.5 else None
    factored = rfactor(rng, s, out) if cache is None else None
    data = mangle(rng, s[out], s[out].op.axis, rng.randint(0, 4))
    reduced = list(s[out].op.reduce_axis)
    if reduced:
        reduced = mangle(rng, s[out], reduced, rng.randint(0, 2))
    if rng.random() < 0.6:
        shuffle_in(rng, s[out], data, reduced)
    taken = []
    if gpu:
        taken = bind_some(rng, s[out], data, reduced)
    elif rng.random() < 0.4:
        s[out].parallel(data[0])
        taken = data[:1]
    mark(rng, s[out], [axis for axis in data if axis not in taken])
    reader = out
    if cache is not None:
        s[cache].compute_at(s[out], rng.choice(s[out].leaf_iter_vars))
        own = mangle(rng, s[cache], s[cache].op.axis, rng.randint(0, 2))
        inner = list(s[cache].op.reduce_axis)
        inner = mangle(rng, s[cache], inner, rng.randint(0, 2)) if inner else inner
        shuffle_in(rng, s[cache], own, inner)
        reader = cache
    if factored is not None:
        reader = place_factored(rng, s, factored, out, gpu)
    place_chain(rng, s, work, reader, gpu)
    cache_inputs(rng, s, work, reader, gpu)
    if rng.random() < 0.5:
        first = s[out].leaf_iter_vars[0]
        s[out].pragma(first, "auto_unroll_max_step", rng.choice([4, 30]))
        s[out].pragma(first, "unroll_explicit", rng.choice([0, 1]))
    return s
