"""Recurrences: what `te.scan` takes, where a schedule puts its stages, what it refuses."""

import pytest

from autotune import te
from autotune.auto_scheduler import ComputeDAG
from autotune.errors import ExpressionError, ScheduleError

STEPS, WIDTH = 6, 8


def recurrence():
    """``Y[t] = 2 * Y[t - 1] + X[t]``, in two stages, with rows of X scaled before."""
    x = te.placeholder((STEPS, WIDTH), name="X")
    state = te.placeholder((STEPS, WIDTH), name="S")
    scaled = te.compute((STEPS, WIDTH), lambda t, i: x[t, i] * 3, name="scaled")
    first = te.compute((1, WIDTH), lambda _, i: x[0, i], name="first")
    twice = te.compute((STEPS, WIDTH), lambda t, i: state[t - 1, i] * 2, name="twice")
    step = te.compute((STEPS, WIDTH), lambda t, i: twice[t, i] + scaled[t, i], name="step")
    return x, state, scaled, first, twice, step


def attached(schedule, tensor):
    stage = schedule[tensor]
    return None if stage.attach_iter is None else stage.attach_iter.name


def test_first_rows_precede_the_loop_over_steps_and_steps_are_inside():
    x, state, scaled, first, twice, step = recurrence()
    s = te.create_schedule(te.scan(first, step, state, inputs=[x], name="Y").op)
    places = [attached(s, each) for each in (first, twice, scaled, step)]
    assert places == ["Y.init", "Y.idx", "Y.idx", "Y.idx"]


def test_what_depends_on_no_state_or_input_is_computed_before():
    _, state, scaled, first, twice, step = recurrence()
    for inputs in ([scaled], None):
        s = te.create_schedule(te.scan(first, step, state, inputs=inputs, name="Y").op)
        assert (attached(s, scaled), attached(s, twice)) == (None, "Y.idx")


def test_what_others_read_too_is_computed_before():
    x, state, scaled, first, _, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    out = te.compute((STEPS, WIDTH), lambda t, i: y[t, i] + scaled[t, i], name="out")
    assert attached(te.create_schedule(out.op), scaled) is None


def test_one_state_gives_a_tensor_and_several_give_a_list():
    x = te.placeholder((STEPS, 2), name="X")
    one, other = (te.placeholder((STEPS, 2), dtype, name="S") for dtype in ("float32", "int32"))
    firsts = [te.compute((1, 2), lambda _, i, d=d: te.const(0, d)) for d in ("float32", "int32")]
    steps = [te.compute((STEPS, 2), lambda t, i, s=s: s[t - 1, i] + 1) for s in (one, other)]
    assert te.scan(firsts[0], steps[0], one).name == "scan"
    both = te.scan(firsts, steps, [one, other], inputs=[x])
    assert [each.name for each in both] == ["scan.v0", "scan.v1"]
    assert [each.dtype for each in both] == ["float32", "int32"]
    assert both[0].op.scan_axis.dom.min.value == 1


def test_caches_of_states_and_of_updates_are_computed_with_each_row():
    x, state, _, first, twice, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    made = [s.cache_read(state, "local", [twice]), s.cache_write(step, "local")]
    assert [attached(s, each) for each in made] == ["Y.idx", "Y.idx"]
    assert attached(s, s.cache_write(first, "local")) == "Y.init"
    _, inner = s[y].split(y.op.scan_axis, factor=2)
    assert attached(s, made[0]) == inner.name
    assert s[made[0]].compute_root().attach_iter is inner


def test_steps_of_a_scan_replay():
    x, state, _, first, twice, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    s[y].env_threads(te.thread_axis((0, WIDTH), "threadIdx.x"))
    s[twice].compute_at(s[step], step.op.axis[0])
    s[y].unroll(s[y].split(y.op.scan_axis, factor=2)[1])
    again = te.replay(y.op, [te.step_from_json(each.to_json()) for each in s.steps])
    assert again == s
    assert str(again) == str(s) == str(s.copy())


def test_the_text_of_a_graph_tells_what_a_scan_is_made_of():
    x, state, _, first, _, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    assert "Y = SCAN first, step, S  # float32[6, 8]" in te.dag_text([y.op])


def make(**changes):
    x, state, _, first, _, step = recurrence()
    given = {"init": first, "update": step, "state_placeholder": state, "inputs": [x]} | changes
    return te.scan(**given)


def zeros(*shape, dtype="float32", name="Z"):
    return te.compute(shape, lambda *_: te.const(0, dtype), name=name)


WRONG = {
    "counts": ({"init": []}, "as many init tensors as updates and states.*got 0, 1 and 1"),
    "kind": ({"init": 3}, "init must be a tensor or a list of them, got 3"),
    "state": ({"state_placeholder": zeros(6, 8)}, "a state is a te.placeholder"),
    "update": ({"update": te.placeholder((6, 8), name="U")}, "an update is a te.compute"),
    "dtype": ({"init": zeros(1, 8, dtype="int32")}, "must have one dtype, got int32, float32"),
    "shape": ({"init": zeros(1, 9)}, r"expected step in the shape of the state S, and Z"),
    "rows": ({"init": zeros(6, 8)}, "expected more rows than Z gives, 6, got 6"),
    "symbol": ({"init": zeros(te.var("n"), 8)}, "Z must have a constant number of rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_parts_that_do_not_fit_are_refused(case):
    changes, message = WRONG[case]
    with pytest.raises(ExpressionError, match=message):
        make(**changes)


def test_states_of_different_lengths_are_refused():
    states = [te.placeholder((n, 2), name="S") for n in (6, 7)]
    steps = [te.compute(s.shape, lambda t, i, s=s: s[t - 1, i], name="U") for s in states]
    with pytest.raises(ExpressionError, match=r"as many rows.*1 and 6, got 1 and 7"):
        te.scan([zeros(1, 2), zeros(1, 2)], steps, states)


def test_one_tensor_for_two_states_is_refused():
    states = [te.placeholder((6, 2), name=name) for name in "ST"]
    steps = [te.compute(s.shape, lambda t, i, s=s: s[t - 1, i], name="U") for s in states]
    first = zeros(1, 2)
    with pytest.raises(
        ExpressionError, match="init tensors of their own for each state, got Z, Z"
    ):
        te.scan([first, first], steps, states)


def test_a_scan_within_a_scan_is_refused():
    x, state, _, first, _, step = recurrence()
    inner_state = te.placeholder((STEPS, WIDTH), name="T")
    begin = te.compute((1, WIDTH), lambda _, i: x[0, i])
    inner = te.compute((STEPS, WIDTH), lambda t, i: inner_state[t - 1, i] + step[t, i])
    scanned = te.scan(begin, inner, inner_state, name="inner")
    outer = te.compute((STEPS, WIDTH), lambda t, i: scanned[t, i])
    with pytest.raises(ExpressionError, match=r"inner is a te.scan that depends on a state"):
        te.scan(first, outer, state)


def test_what_a_state_begins_with_cannot_read_one():
    _, state, *_, step = recurrence()
    first = te.compute((1, WIDTH), lambda t, i: state[t, i], name="first")
    with pytest.raises(ExpressionError, match="first is what a state begins with"):
        te.scan(first, step, state)


def test_two_scans_of_one_state_are_no_schedule():
    _, state, _, first, _, step = recurrence()
    a, b = (te.scan(first, step, state, name=name) for name in "AB")
    with pytest.raises(ScheduleError, match="B and A both use first"):
        te.create_schedule([a.op, b.op])


def test_places_of_updates_and_the_order_of_steps_are_fixed():
    x, state, _, first, _, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    for change in (
        s[step].compute_root,
        s[first].compute_inline,
        lambda: s[step].set_scope("local"),
    ):
        with pytest.raises(ScheduleError, match="it computes rows of Y, in whose loop it stays"):
            change()
    axis = y.op.scan_axis
    thread = te.thread_axis("threadIdx.x")
    for change in (s[y].parallel, s[y].vectorize, s[y].reorder, lambda a: s[y].bind(a, thread)):
        with pytest.raises(ScheduleError, match="the rows of Y are computed one after another"):
            change(axis)
    with pytest.raises(ScheduleError, match="Y is a scan, whose rows its updates compute"):
        s[y].compute_root()


def test_threads_around_a_scan_have_extents_and_are_there_once():
    x, state, _, first, _, step = recurrence()
    y = te.scan(first, step, state, inputs=[x], name="Y")
    s = te.create_schedule(y.op)
    with pytest.raises(ScheduleError, match="expected thread axes with a constant extent"):
        s[y].env_threads([te.thread_axis("threadIdx.x")])
    with pytest.raises(
        ScheduleError, match=r"env_threads\(step\): expected the stage of a te.scan"
    ):
        s[step].env_threads([te.thread_axis((0, 8), "threadIdx.x")])
    s[y].env_threads([te.thread_axis((0, 8), "threadIdx.x")])
    with pytest.raises(ScheduleError, match=r"each thread axis once, got threadIdx.x after"):
        s[y].env_threads([te.thread_axis((0, 8), "threadIdx.x")])


def test_the_auto_scheduler_refuses_a_scan():
    with pytest.raises(ExpressionError, match=r"ComputeDAG: scan is a te.scan"):
        ComputeDAG([make()])
    with pytest.raises(ExpressionError, match="records cannot name"):
        te.workload_text([make()])


def with_read(row, rows=9, given=2, read=None):
    """A recurrence of which step ``t`` reads ``row(t)``."""
    x, state = te.placeholder((rows, WIDTH), name="X"), te.placeholder((rows, WIDTH), name="S")
    first = te.compute((given, WIDTH), lambda t, i: x[t, i], name="first")
    read = read or (lambda s, t, i: s[row(t), i])
    half = te.compute((rows, WIDTH), lambda t, i: read(state, t, i) * 0.5, name="half")
    step = te.compute((rows, WIDTH), lambda t, i: half[t, i] + x[t, i], name="step")
    return te.scan(first, step, state, inputs=[x], name="Y")


LATE = "which is not computed by then; a step reads rows before its own"


@pytest.mark.parametrize(
    ("row", "rows", "why"),
    [
        (lambda t: t, 9, f"at step 2, half reads row 2 of S, {LATE}"),
        (lambda t: t - 3, 9, "half reads row -1 of S, .*, as first gives 2; let it give 3"),
        (lambda t: 2 * t - 4, 9, f"at step 4, half reads row 4 of S, {LATE}"),
        (lambda t: 2 * t - 5, 9, "at step 2, half reads row -1 of S, which is before the first"),
        (lambda t: 7 - t, 9, f"at step 2, half reads row 5 of S, {LATE}"),
        (lambda t: t - 1 + t // 900, 1000, f"at step 900, half reads row 900 of S, {LATE}"),
        (lambda t: 2 * t - 3, te.var("n"), f"at step 3, half reads row 3 of S, {LATE}"),
    ],
    ids=["t", "t-3", "2t-4", "2t-5", "7-t", "late", "any-size"],
)
def test_a_row_that_is_not_there_at_some_step_is_refused(row, rows, why):
    with pytest.raises(ExpressionError, match=why):
        with_read(row, rows)


@pytest.mark.parametrize(
    "row",
    [lambda t: t // 2, lambda t: t % 2, lambda t: t - 2],
    ids=["half", "even-or-odd", "before-last"],
)
def test_rows_before_the_own_one_are_read_in_any_order(row):
    assert with_read(row).shape == (9, WIDTH)


def test_a_read_under_a_condition_counts_only_where_it_holds():
    def guarded(least):
        return lambda s, t, i: te.if_then_else(t >= least, s[t - 3, i], 0.0)

    with_read(None, read=guarded(3))
    with pytest.raises(ExpressionError, match="at step 2, half reads row -1 of S"):
        with_read(None, read=guarded(2))


def sum_of_rows(row, extent, where=None):
    """A recurrence of which each step sums rows before: `row` gives them by step and term."""
    x, state = te.placeholder((9, WIDTH), name="X"), te.placeholder((9, WIDTH), name="S")
    first = te.compute((3, WIDTH), lambda t, i: x[t, i], name="first")
    k = te.reduce_axis((0, extent), name="k")

    def total(t, i):
        kept = None if where is None else where(t, k)
        return te.sum(state[row(t, k), i], axis=k, where=kept)

    return te.scan(first, te.compute((9, WIDTH), total, name="step"), state)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (lambda t, k: k, f"at step 3, step reads row 8 of S, {LATE}"),
        (lambda t, k: t - k, f"at step 3, step reads row 3 of S, {LATE}"),
        (lambda t, k: t - 1 - k, "at step 3, step reads row -6 of S, which is before the first"),
    ],
    ids=["all", "own", "too-far-before"],
)
def test_all_rows_of_a_sum_have_to_be_there(row, why):
    with pytest.raises(ExpressionError, match=why):
        sum_of_rows(row, 9)


def test_sums_of_rows_that_are_there_are_taken():
    assert sum_of_rows(lambda t, k: t - 1 - k, 3).shape == (9, WIDTH)
    assert sum_of_rows(lambda t, k: k, 9, where=lambda t, k: k < t).shape == (9, WIDTH)
