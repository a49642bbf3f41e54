"""The pragma `tensor_core` of TVM's tutorial, in a schedule for plain threads."""

import numpy as np
import pytest

from autotune import tvm
from autotune.tvm import te


def test_a_schedule_for_plain_threads_with_the_pragma_runs_with_a_warning():
    a, b = (te.placeholder((16, 16), "float16", name) for name in "AB")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute(
        (16, 16),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    s = te.create_schedule(c.op)
    shared = s.cache_read(a, "shared", [c])
    total = s.cache_write(c, "local")
    y, x = s[c].op.axis
    s[c].bind(y, te.thread_axis("threadIdx.y"))
    s[c].bind(x, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[c], x)
    outer, inner = s[total].split(s[total].op.reduce_axis[0], 8)
    s[total].reorder(outer, inner, *s[total].op.axis)
    s[shared].compute_at(s[total], outer)
    s[shared].bind(s[shared].op.axis[0], te.thread_axis("threadIdx.y"))
    s[total].pragma(outer, "tensor_core")
    with pytest.warns(UserWarning, match="tensor_core: C: the loop is run by plain threads"):
        product = tvm.build(s, [a, b, c], "cuda -emulate")
    x, y = (np.random.default_rng(i).random((16, 16), "float32").astype("float16") for i in (0, 1))
    out = np.zeros((16, 16), "float32")
    product(x, y, out)
    np.testing.assert_allclose(out, x.astype("float32") @ y.astype("float32"), rtol=1e-5)
