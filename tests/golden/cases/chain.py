"""Stages that read one another: root, inlined, attached, kernels of their own."""

from autotune import te
from tests.golden.case import bind, case, flat


def chain(n=1000):
    x = te.placeholder((n,), name="X")
    a = te.compute((n,), lambda i: x[i] * 2.0 + 1.0, name="a")
    b = te.compute((n,), lambda i: te.tanh(a[i]), name="b")
    return x, a, b, te.compute((n,), lambda i: te.max(a[i], b[i]), name="c")


def two_outputs(m=8, n=32):
    x = te.placeholder((m, n), name="X")
    p, q = te.compute((m, n), lambda i, j: (x[i, j] * 2.0, te.exp(x[i, j])), name="both")
    return x, p, q


@case("c")
def chain_root():
    x, _, _, c = chain()
    return te.create_schedule(c.op), [x, c]


@case("c", "cuda")
def chain_inline(language):
    x, a, b, c = chain()
    s = te.create_schedule(c.op)
    s[a].compute_inline()
    s[b].compute_inline()
    if language == "cuda":
        flat(s[c])
    return s, [x, c]


@case("c")
def chain_attached():
    x, a, b, c = chain()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[b].compute_at(s[c], inner)
    s[a].compute_at(s[c], outer)
    return s, [x, c]


@case("cuda")
def chain_kernels():
    x, a, b, c = chain()
    s = te.create_schedule(c.op)
    for t in (a, b, c):
        flat(s[t])
    return s, [x, c]


@case("cuda")
def chain_shared():
    x, a, b, c = chain(1024)
    s = te.create_schedule(c.op)
    outer, _ = flat(s[c])
    s[b].compute_inline()
    s[a].compute_at(s[c], outer)
    s[a].set_scope("shared")
    bind(s[a], tx=s[a].op.axis[0])
    return s, [x, c]


@case("c", "cuda")
def outputs_two(language):
    x, p, q = two_outputs()
    s = te.create_schedule(p.op)
    if language == "cuda":
        flat(s[p])
    return s, [x, p, q]
