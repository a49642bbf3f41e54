"""Lowered recurrences compute what numpy computes row by row, or say why they cannot."""

import numpy as np
import pytest

from autotune import te
from autotune.driver import build
from autotune.errors import LoweringError
from autotune.features import get_itervar_feature, per_store_features
from autotune.lowering import lower
from tests.golden.case import bind
from tests.topi.evaluate import evaluate


def check(schedule, inputs, outputs, target):
    """Run a schedule; compare all outputs with numpy."""
    rng = np.random.default_rng(0)
    given = {each: rng.random(each.shape, np.float32) - 0.5 for each in inputs}
    found = [np.full(each.shape, np.nan, np.float32) for each in outputs]
    build(schedule, [*inputs, *outputs], target)(*given.values(), *found)
    for each, values in zip(outputs, found, strict=True):
        np.testing.assert_allclose(values, evaluate(each, given), rtol=1e-5, atol=1e-6)


def two_rows_back(steps=9, width=70, distance=2):
    """``Y[t] = Y[t - 1] + Y[t - 2] / 2 + X[t]``."""
    x = te.placeholder((steps, width), name="X")
    state = te.placeholder((steps, width), name="S")
    first = te.compute((2, width), lambda t, i: x[t, i], name="first")
    half = te.compute((steps, width), lambda t, i: state[t - distance, i] * 0.5, name="half")
    step = te.compute(
        (steps, width), lambda t, i: state[t - 1, i] + half[t, i] + x[t, i], name="step"
    )
    return x, first, half, step, te.scan(first, step, state, inputs=[x], name="Y")


def test_a_plain_schedule_computes_row_by_row():
    x, *_, y = two_rows_back()
    check(te.create_schedule(y.op), [x], [y], "llvm")


def test_steps_beyond_the_end_of_a_split_are_left_out():
    x, _, half, step, y = two_rows_back()
    s = te.create_schedule(y.op)
    s[y].unroll(s[y].split(y.op.scan_axis, factor=3)[1])
    outer, inner = s[step].split(step.op.axis[1], factor=16)
    s[step].vectorize(inner)
    s[half].compute_at(s[step], outer)
    check(s, [x], [y], "llvm")


def test_rows_are_computed_by_several_threads_of_a_cpu():
    x, _, half, step, y = two_rows_back()
    s = te.create_schedule(y.op)
    s[half].compute_inline()
    s[step].parallel(step.op.axis[1])
    check(s, [x], [y], "llvm")


def test_blocks_of_columns_share_what_a_step_needs():
    x, first, half, step, y = two_rows_back()
    s = te.create_schedule(y.op)
    for each in (first, step):
        outer, inner = s[each].split(each.op.axis[1], factor=32)
        bind(s[each], bx=outer, tx=inner)
    s[half].compute_at(s[step], s[step].leaf_iter_vars[1])
    check(s, [x], [y], "cuda -emulate")


def test_sizes_may_come_with_the_call():
    m, n = te.var("m"), te.var("n")
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="S")
    first = te.compute((1, n), lambda _, i: x[0, i])
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    y = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(y.op)
    for each in (first, step):
        outer, inner = s[each].split(each.op.axis[1], factor=32)
        bind(s[each], bx=outer, tx=inner)
    run = build(s, [x, y], "cuda -emulate")
    for shape in ((5, 40), (1, 7)):
        values, sums = np.random.default_rng(1).random(shape, np.float32), np.zeros(shape, "f")
        run(values, sums)
        np.testing.assert_allclose(sums, values.cumsum(0), rtol=1e-6)


def test_a_result_may_be_read_by_later_stages_and_scans():
    x, _, _, _, y = two_rows_back(6, 8)
    total = te.placeholder((6, 8), name="T")
    begin = te.placeholder((1, 8), name="begin")
    add = te.compute((6, 8), lambda t, i: total[t - 1, i] + y[t, i] * 2, name="add")
    sums = te.scan(begin, add, total, name="sums")
    out = te.compute((6, 8), lambda t, i: sums[t, i] - y[t, i], name="out")
    check(te.create_schedule(out.op), [x, begin], [out], "llvm")


def product_of_rows(steps=4, width=8):
    """``Y[t] = W @ Y[t - 1] + X[t]``: each element needs all of the row before."""
    x = te.placeholder((steps, width), name="X")
    w = te.placeholder((width, width), name="W")
    state = te.placeholder((steps, width), name="S")
    first = te.compute((1, width), lambda _, i: x[0, i], name="first")
    k = te.reduce_axis((0, width), name="k")
    product = te.compute(
        (steps, width), lambda t, i: te.sum(state[t - 1, k] * w[i, k], axis=k), name="P"
    )
    step = te.compute((steps, width), lambda t, i: product[t, i] + x[t, i], name="step")
    return x, w, first, product, step, te.scan(first, step, state, inputs=[x], name="Y")


def test_threads_of_a_block_wait_for_a_row_that_they_all_read():
    x, w, first, product, step, y = product_of_rows()
    s = te.create_schedule(y.op)
    for each in (first, step):
        bind(s[each], tx=each.op.axis[1])
    s[product].compute_at(s[step], s[step].leaf_iter_vars[1])
    assert "barrier" in str(lower(s, [x, w, y]))
    check(s, [x, w], [y], "cuda -emulate")


def test_threads_that_read_their_own_elements_do_not_wait():
    x, first, half, step, y = two_rows_back()
    s = te.create_schedule(y.op)
    s[half].compute_inline()
    for each in (first, step):
        outer, inner = s[each].split(each.op.axis[1], factor=32)
        bind(s[each], bx=outer, tx=inner)
    assert "barrier" not in str(lower(s, [x, y]))
    check(s, [x], [y], "cuda -emulate")


def test_blocks_that_would_wait_for_each_other_are_printed_and_not_built():
    x, w, first, product, step, y = product_of_rows()
    s = te.create_schedule(y.op)
    s[product].compute_at(s[step], step.op.axis[1])
    for each in (first, step):
        outer, inner = s[each].split(each.op.axis[1], factor=4)
        bind(s[each], bx=outer, tx=inner)
    s[product].compute_at(s[step], s[step].leaf_iter_vars[2])
    assert "loops of Y, no kernel yet" in str(lower(s, [x, w, y]))
    with pytest.raises(LoweringError, match="P reads elements of S that other blocks compute"):
        build(s, [x, w, y], "cuda -emulate")


@pytest.mark.parametrize(
    ("distance", "why"),
    [
        (0, r"half reads S\[t \+0, ...\] at step t, which is not computed"),
        (3, "as first gives 2; let it give 3"),
    ],
)
def test_a_row_that_is_read_by_another_axis_than_the_first_has_to_be_there(distance, why):
    x, state = te.placeholder((9, 8), name="X"), te.placeholder((9, 8), name="S")
    first = te.compute((2, 8), lambda t, i: x[t, i], name="first")
    half = te.compute((8, 9), lambda i, t: state[t - distance, i] * 0.5, name="half")
    step = te.compute((9, 8), lambda t, i: half[i, t] + x[t, i], name="step")
    y = te.scan(first, step, state, inputs=[x], name="Y")
    with pytest.raises(LoweringError, match=why):
        lower(te.create_schedule(y.op), [x, y])


@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
def test_steps_that_have_no_row_so_far_before_may_leave_it_out_by_a_condition(target):
    x, state = te.placeholder((9, 8), name="X"), te.placeholder((9, 8), name="S")
    first = te.compute((1, 8), lambda t, i: x[t, i], name="first")
    step = te.compute(
        (9, 8),
        lambda t, i: te.if_then_else(te.all(t >= 3, i > 0), state[t - 3, i] * 0.5, x[t, i]),
        name="step",
    )
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    for each in (first, step) if target != "c" else ():
        bind(s[each], tx=each.op.axis[1])
    check(s, [x], [y], target)


def test_an_update_is_read_at_the_row_of_the_step_alone():
    x = te.placeholder((5, 8), name="X")
    states = [te.placeholder((5, 8), name=name) for name in ("S", "T")]
    firsts = [te.compute((1, 8), lambda t, i: x[t, i]) for _ in states]
    step = te.compute((5, 8), lambda t, i: states[0][t - 1, i] + x[t, i], name="step")
    for distance in (0, 1):
        other = te.compute(
            (5, 8), lambda t, i, d=distance: states[1][t - 1, i] + step[t - d, i], name="other"
        )
        made = te.scan(firsts, [step, other], states, name="Y")
        s = te.create_schedule([each.op for each in made])
        if not distance:
            check(s, [x], made, "c")
    why = "other reads row .* of step, an update, .* read rows before by the state S"
    with pytest.raises(LoweringError, match=why):
        lower(s, [x, *made])


def test_what_reads_a_state_stays_in_the_loop_over_rows():
    x, _, half, _, y = two_rows_back()
    s = te.create_schedule(y.op)
    thread = te.thread_axis((0, 4), "threadIdx.x")
    s[y].env_threads([thread])
    s[half].compute_at(s[y], thread)
    with pytest.raises(LoweringError, match="half reads S, a state of Y, outside of the loop"):
        lower(s, [x, y])


def shared_rows(of_state):
    """Keep rows of X, or of the state, in shared memory, fetched for the next step ahead."""
    x, first, half, step, y = two_rows_back(9, 64)
    s = te.create_schedule(y.op)
    s[half].compute_inline()
    shared = s.cache_read(y.op.state_placeholder[0] if of_state else x, "shared", [step])
    for stage in (s[first], s[step], s[shared]):
        bind(stage, tx=stage.op.axis[1])
    s[shared].compute_at(s[y], y.op.scan_axis)
    s[shared].double_buffer()
    return s, x, y


def test_what_a_step_needs_besides_states_is_fetched_ahead():
    s, x, y = shared_rows(of_state=False)
    assert "X.shared.next" in str(lower(s, [x, y]))
    check(s, [x], [y], "cuda -emulate")


def test_rows_of_a_state_are_not_fetched_before_they_are_computed():
    s, x, y = shared_rows(of_state=True)
    with pytest.raises(LoweringError, match=r"double_buffer: S.shared depends on a state of Y"):
        lower(s, [x, y])


def test_states_and_updates_are_no_arguments():
    x, first, *_, y = two_rows_back()
    with pytest.raises(LoweringError, match=r"first is no argument, as its memory is .* Y"):
        lower(te.create_schedule(y.op), [x, first, y])


def test_features_count_the_loops_of_a_scan():
    x, *_, y = two_rows_back()
    s = te.create_schedule(y.op)
    names = [str(each[0][1]) for each in get_itervar_feature(s, [x, y], take_log=True)]
    assert any("Y.idx" in name for name in names)
    assert len(per_store_features(s, [x, y], on_gpu=False)) == 3


def test_a_state_that_no_step_reads_is_computed():
    x = te.placeholder((5, 8), name="X")
    state, out = te.placeholder((5, 8), name="S"), te.placeholder((5, 8), name="out")
    firsts = [te.compute((1, 8), lambda _, i: x[0, i], name=f"first{n}") for n in range(2)]
    step = te.compute((5, 8), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    shown = te.compute((5, 8), lambda t, i: state[t - 1, i] * 2, name="shown")
    y = te.scan(firsts, [step, shown], [state, out], inputs=[x], name="Y")
    check(te.create_schedule(y[0].op), [x], y, "llvm")


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_steps_that_read_each_other_are_not_stored_together(target):
    """From the fourth row on, four rows at a time would be aligned."""
    x, state = (te.placeholder((20, 1), name=name) for name in "XS")
    first = te.compute((4, 1), lambda t, i: x[t, i], name="first")
    step = te.compute((20, 1), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    if target.startswith("cuda"):
        for each in (first, step):
            bind(s[each], tx=each.op.axis[1])
    check(s, [x], [y], target)
