"""Two products with a softmax between may be one kernel, which keeps rows in shared memory."""

import numpy as np
import pytest

from autotune import driver, te, topi
from autotune.auto_scheduler.search.analytical.in_block import InBlockCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.kernel import launch_violation
from tests.auto_scheduler.running import assert_states_compute_the_same
from tests.auto_scheduler.search.test_several_products import attention, task_of, wide
from tests.auto_scheduler.tensor_core_programs import PARAMS

HEADS, LENGTH, DEPTH = 2, 64, 32


def masked(outputs=(), length=LENGTH, axis=-1):
    """Attention with a mask, as scripts write it."""
    q, k, v = (te.placeholder((HEADS, length, DEPTH), "float16", name) for name in "qkv")
    mask = te.placeholder((length, length), name="mask")
    d, t = te.reduce_axis((0, DEPTH), "d"), te.reduce_axis((0, length), "t")
    square = (HEADS, length, length)

    def score(h, i, j):
        return te.sum(wide(q[h, i, d]) * wide(k[h, j, d]), axis=d)

    scores = te.compute(square, score, "scores")
    changed = te.compute(square, lambda h, i, j: scores[h, i, j] + mask[i, j], "changed")
    share = topi.cast(topi.nn.softmax(changed, axis), "float16")
    sums = te.compute(
        (HEADS, length, DEPTH),
        lambda h, i, c: te.sum(wide(share[h, i, t]) * wide(v[h, t, c]), axis=t),
        "sums",
    )
    named = {"scores": scores, "share": share}
    return [q, k, v, mask, *(named[each] for each in outputs), topi.cast(sums, "float16")]


def in_block(tensors):
    """The task of a graph, and the cost models of its programs that are one kernel."""
    task = task_of(tensors)
    found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    return task, [each for each in found if isinstance(each, InBlockCostModel)]


def drawn(model, count):
    return RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(count)


@pytest.mark.parametrize(
    "tensors", [attention(HEADS, LENGTH, DEPTH), masked()], ids=["plain", "masked"]
)
def test_attention_in_one_kernel_computes_what_the_definition_says(tensors, tmp_path):
    task, (model,) = in_block(tensors)
    dag = task.compute_dag.init_state.dag
    rows = drawn(model, 2)
    states = [plain_state(dag).after(model.program.candidate(row).transform_steps) for row in rows]
    assert len(states) == 2
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path, 1e-2, 1e-2)


def test_estimates_of_attention_in_one_kernel_say_what_lowering_finds():
    task, (model,) = in_block(attention(2, 128, 64))
    rows = drawn(model, 8)
    shape = model.shape(rows)
    for i, row in enumerate(rows):
        state = model.program.candidate(row)
        assert model.program.row_of(state.transform_steps) == row.tolist()
        kernel = driver.kernel_of(task.realise(state).what, task.target, "kernel")
        (call,) = kernel.calls
        assert launch_violation(kernel, task.target.limits) is None
        assert call.launch.shared_bytes in (0, shape.shared_bytes[i])
        assert np.prod(call.launch.grid) == shape.blocks[i]
        assert np.prod(call.launch.block) == 32 * shape.warps[i]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("tensors", "count"),
    [
        (masked(), 1),
        (masked(outputs=["scores"]), 0),
        (masked(outputs=["share"]), 0),
        (masked(length=72), 0),
        (masked(length=1024), 0),
        (masked(axis=1), 0),
    ],
    ids=[
        "masked",
        "scores are an output",
        "shares are an output",
        "not of tiles",
        "long",
        "of columns",
    ],
)
def test_one_kernel_keeps_what_nobody_else_needs(tensors, count):
    assert len(in_block(tensors)[1]) == count
