"""Sums that go on from part to part of rows are what the definition says, in any schedule."""

import re

import numpy as np
import pytest

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from autotune.te.dag import post_order
from tests.fuzz.running import Job, run_batch
from tests.te.test_online import weighted

PART = 2


def schedule_of(tensors, factor):
    """A block computes a row, so many parts after each other in one turn of a loop."""
    result = tensors[-1]
    ops = {op.name: op for op in post_order([result.op])}
    schedule = te.create_schedule(result.op)
    root, joined = schedule[result.op], schedule[ops["C.joined"]]
    root.bind(root.op.axis[0], te.thread_axis("blockIdx.x"))
    joined.compute_at(root, root.op.axis[0])
    joined.set_scope("local")
    part, inner = joined.split(joined.op.reduce_axis[0], factor=factor)
    joined.reorder(part, inner, *joined.op.axis)
    for name in ("C.part", "C.totals", "C.exact", "C.highest", "scores.part"):
        schedule[ops[name]].compute_at(joined, part)
        own = name in ("C.part", "C.highest")
        schedule[ops[name]].set_scope("local" if own else "shared")
    for name in ("C.highest", "C.totals"):
        stage = schedule[ops[name]]
        stage.bind(stage.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    products = schedule[ops["C.part"]]
    products.reorder(products.op.reduce_axis[0], *products.op.axis)
    return schedule


@pytest.mark.parametrize(("factor", "carried"), [(1, True), (3, False)])
def test_sums_of_several_parts_in_a_turn_are_joined(factor, carried, tmp_path):
    inputs, _, _, c = weighted()
    rng = np.random.default_rng(0)
    q, k, v = arrays = [
        rng.uniform(-5, 5, [int(n) for n in each.shape]).astype("float32") for each in inputs
    ]
    powers = np.exp(q @ k.T)
    tensors = te.online([*inputs, c], c, PART)
    schedule = schedule_of(tensors, factor)
    kernel = kernel_of_schedule(schedule, tensors, Target("cuda -arch=sm_90"), "parts")
    assert bool(re.search(r"C_part\[[^;]*\] \*= exp2_flushed", kernel.source)) == carried
    (got,) = run_batch([Job(kernel, arrays, 0)], tmp_path)
    want = powers / powers.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-4)
