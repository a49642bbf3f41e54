"""Products that tensor cores may compute, with their programs and kernels."""

import ml_dtypes
import numpy as np

from autotune import te
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.driver import kernel_of
from autotune.kernel import launch_violation

PARAMS = SketchPolicy.DEFAULT_PARAMS
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "tf32": np.float32}


def product(m, n, k, dtype="float16", cast=False, transposed=False, batch=None, across=False):
    """A product with sums in float32, of floats as TF32 if the dtype is ``"tf32"``.

    The second matrix is [n, k] if transposed, the first [k, m] if it lies across.
    """
    lead, stored = () if batch is None else (batch,), "float32" if dtype == "tf32" else dtype
    a = te.placeholder((*lead, k, m) if across else (*lead, m, k), stored, name="A")
    b = te.placeholder((*lead, n, k) if transposed else (*lead, k, n), stored, name="B")
    r = te.reduce_axis((0, k), name="k")
    wide = te.tf32 if dtype == "tf32" else lambda x: x.astype("float32")

    def value(*at):
        *z, i, j = at
        left = a(*z, r, i) if across else a(*z, i, r)
        right = b(*z, j, r) if transposed else b(*z, r, j)
        return te.sum(wide(left) * wide(right), axis=r)

    c = te.compute((*lead, m, n), value, name="C")
    out = te.compute(c.shape, lambda *at: c(*at).astype(dtype), name="D") if cast else c
    return [a, b, out]


def programs(tensors, kind, target="cuda -arch=sm_90"):
    """The task of a graph, and those of its programs that have a kind of cost model."""
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    return task, [each for each in found if isinstance(each, kind)]


def kernels(task, model, count, seed=0):
    """Drawn rows of a program, and their kernels."""
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(seed)).draw(count)
    return rows, [
        kernel_of(task.realise(model.program.candidate(row)).what, task.target, f"k{i}")
        for i, row in enumerate(rows)
    ]


def check_launches(task, shape, found):
    """Check that cost models say of kernels what lowering finds, and that they can run."""
    for i, kernel in enumerate(found):
        (call,) = kernel.calls
        assert launch_violation(kernel, task.target.limits) is None
        assert np.prod(call.launch.grid) == shape.blocks[i]
        assert call.launch.shared_bytes in (0, shape.shared_bytes[i])
