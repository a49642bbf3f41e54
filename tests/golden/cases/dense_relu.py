"""A dense layer with bias and ReLU."""

from autotune import te
from tests.golden.case import bind, case, flat


def dense_relu(m=32, n=48, k=64):
    a, b = te.placeholder((m, k), name="data"), te.placeholder((n, k), name="weight")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), "k")
    dense = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="dense")
    added = te.compute((m, n), lambda i, j: dense[i, j] + bias[j], name="T_add")
    relu = te.compute((m, n), lambda i, j: te.max(added[i, j], 0.0), name="T_relu")
    return a, b, bias, dense, added, relu


@case("c")
def dense_relu_fused():
    a, b, bias, dense, added, relu = dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    s[dense].compute_at(s[relu], relu.op.axis[1])
    return s, [a, b, bias, relu]


@case("cuda")
def dense_relu_bound():
    a, b, bias, dense, added, relu = dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    _, inner = flat(s[relu])
    s[dense].compute_at(s[relu], inner)
    return s, [a, b, bias, relu]


@case("cuda")
def dense_relu_cross_thread():
    a, b, bias, dense, added, relu = dense_relu()
    s = te.create_schedule(relu.op)
    s[added].compute_inline()
    fused = s[relu].fuse(*relu.op.axis)
    bind(s[relu], bx=fused)
    _, inner = s[dense].split(dense.op.reduce_axis[0], factor=32)
    bind(s[dense], tx=inner)
    s[dense].compute_at(s[relu], fused)
    return s, [a, b, bias, relu]
