"""Recurrences: cumulative sums, two states, and an Elman network in one block."""

from autotune import te
from tests.golden.case import bind, case


def running_sum(steps, width):
    """``Y[t] = Y[t - 1] / 2 + X[t]``."""
    x = te.placeholder((steps, width), name="X")
    state = te.placeholder((steps, width), name="S")
    first = te.compute((1, width), lambda _, i: x[0, i], name="first")
    half = te.compute((steps, width), lambda t, i: state[t - 1, i] * 0.5, name="half")
    step = te.compute((steps, width), lambda t, i: half[t, i] + x[t, i], name="step")
    return x, first, half, step, te.scan(first, step, state, inputs=[x], name="Y")


@case("c", "cuda")
def scan_columns(language):
    """Each thread, or vector, has columns of its own; steps of a split loop that end early."""
    x, first, half, step, y = running_sum(8, 80)
    s = te.create_schedule(y.op)
    s[half].compute_inline()
    if language == "c":
        _, inner = s[step].split(step.op.axis[1], factor=8)
        s[step].vectorize(inner)
        _, inner = s[y].split(y.op.scan_axis, factor=2)
        s[y].unroll(inner)
        return s, [x, y]
    for each in (first, step):
        outer, inner = s[each].split(each.op.axis[1], factor=32)
        bind(s[each], bx=outer, tx=inner)
    return s, [x, y]


@case("c", "cuda")
def scan_two_states(language):
    """The second state reads the first one, of its step and of the one before."""
    x = te.placeholder((5, 24), name="X")
    states = [te.placeholder((5, 24), name=name) for name in ("S", "T")]
    first = [te.compute((1, 24), lambda _, i: x[0, i], name="s0")]
    first.append(te.compute((1, 24), lambda _, i: 0.0, name="t0"))
    step = te.compute((5, 24), lambda t, i: states[0][t - 1, i] + x[t, i], name="s")
    other = te.compute(
        (5, 24),
        lambda t, i: states[1][t - 1, i] + step[t, i] * states[0][t - 1, 23 - i],
        name="t",
    )
    y, z = te.scan(first, [step, other], states, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    if language == "cuda":
        for each in (*first, step, other):
            bind(s[each], tx=each.op.axis[1])
    return s, [x, y, z]


@case("cuda")
def scan_recurrent_network():
    """Weights stay in registers; the threads of a row and those of a column multiply together."""
    steps, width = 4, 16
    x = te.placeholder((steps, width), name="X")
    weight = te.placeholder((width, width), name="W")
    state = te.placeholder((steps, width), name="H")
    first = te.compute((1, width), lambda _, i: 0.0, name="first")
    k = te.reduce_axis((0, width), name="k")
    product = te.compute(
        (steps, width), lambda t, i: te.sum(state[t - 1, k] * weight[i, k], axis=k), name="P"
    )
    step = te.compute((steps, width), lambda t, i: te.tanh(product[t, i] + x[t, i]), name="step")
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    thread_x = te.thread_axis((0, width), "threadIdx.x")
    thread_y = te.thread_axis((0, 4), "threadIdx.y")
    s[y].env_threads([thread_y, thread_x])
    registers = s.cache_read(weight, "local", [product])
    shared = s.cache_read(state, "shared", [product])
    outer, _ = s[product].split(k, nparts=4)
    s[product].set_scope("shared")
    s[product].bind(product.op.axis[1], thread_x)
    s[product].bind(outer, thread_y)
    s[registers].compute_at(s[y], thread_x)
    for stage in (s[shared], s[first], s[step]):
        stage.bind(stage.op.axis[1], thread_x)
    return s, [x, weight, y]
