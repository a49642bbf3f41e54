"""reindex: the view of a tensor by the axes of its reader, and what it computes."""

import numpy as np
import pytest

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.errors import ScheduleError
from autotune.target import Target
from autotune.te.reindex import groups_of, groups_text
from tests.fuzz.running import Job, run_batch
from tests.te.graphs import chain, matmul


def window():
    """A sum over a window of two dimensions, of which one begins at 1."""
    a = te.placeholder((9, 12), name="A")
    w = te.placeholder((3, 4), name="W")
    r, s = te.reduce_axis((0, 3), "r"), te.reduce_axis((1, 3), "s")
    b = te.compute(
        (7, 5), lambda i, j: te.sum(a[i + r, j * 2 + s] * w[r, s], axis=[r, s]), name="B"
    )
    return a, w, b


def body(schedule, tensor):
    return str(schedule[tensor].op.body[0])


def run(schedule, tensors, inputs, folder, name):
    kernel = kernel_of_schedule(schedule, tensors, Target("c"), name)
    (got,) = run_batch([Job(kernel, inputs, 0)], folder)
    assert not isinstance(got, str), got
    return got[0]


def test_a_view_stands_between_a_tensor_and_its_reader():
    a, _, c = matmul()
    s = te.create_schedule(c.op)
    view = s.reindex(a, c, [[2], [0]])
    assert [stage.name for stage in s.stages] == ["A", "A.matrix", "B", "C"]
    assert body(s, view) == "A[ax1, ax0]"
    assert body(s, c) == "sum(A.matrix[k, i] * B[k, j], axis=[k])"


def test_axes_of_a_group_become_one_dimension_the_last_of_them_the_fastest():
    a, _, b = window()
    s = te.create_schedule(b.op)
    view = s.reindex(a, b, [[0, 1], [2, 3]])
    assert [int(n) for n in view.shape] == [7 * 5, 3 * 2]
    assert [axis.name for axis in s[b].op.axis] == ["i", "j"]
    assert len(s[b].leaf_iter_vars) == 4


@pytest.mark.many_cases
@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[3], [2, 0], [1]], [[2, 3, 1, 0]]], ids=str)
@pytest.mark.parametrize("inlined", [True, False])
def test_a_view_changes_nothing_of_what_is_computed(groups, inlined, tmp_path):
    a, w, b = window()
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, shape).astype("float32") for shape in ((9, 12), (3, 4))]
    plain = run(te.create_schedule(b.op), [a, w, b], inputs, tmp_path, "plain")
    s = te.create_schedule(b.op)
    view = s.reindex(a, b, groups)
    s.reindex(w, b, [[3, 2]])
    if inlined:
        s[view].compute_inline()
    np.testing.assert_array_equal(run(s, [a, w, b], inputs, tmp_path, "view"), plain)


def test_steps_of_a_view_replay():
    a, _, b = window()
    s = te.create_schedule(b.op)
    s.reindex(a, b, [[0, 1], [2, 3]])
    rows = [step.to_json() for step in s.steps]
    assert rows == [["reindex", "0", 0, "2", "0 1, 2 3"]]
    again = te.replay(s.outputs, [te.step_from_json(row) for row in rows])
    assert te.dag_text([again[b].op]) == te.dag_text([s[b].op])


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([[0], [2]], "reads it by axes that no group has: j, s"),
        ([[0, 1], [2, 3, 0]], "expected groups of different axes, got 0 1, 2 3 0"),
        ([[0, 1], [2, 3], []], "expected groups of different axes"),
        ([[0, 1], [2, 4]], "B has 4 axes, none has the number 4"),
        ([[0, 1], [2, -1]], "B has 4 axes, none has the number -1"),
    ],
    ids=str,
)
def test_groups_that_make_no_view_are_refused(groups, why):
    a, _, b = window()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=rf"reindex\(A\): .*{why}"):
        s.reindex(a, b, groups)
    assert s.steps == ()
    assert body(s, b) == body(te.create_schedule(b.op), b)


def test_a_reader_that_reads_at_two_places_or_none_is_refused():
    a = te.placeholder((8,), name="A")
    b = te.compute((7,), lambda i: a[i] + a[i + 1], name="B")
    with pytest.raises(ScheduleError, match="expected that B reads it at one place, got 2"):
        te.create_schedule(b.op).reindex(a, b, [[0]])
    first, _, _, last = chain()
    with pytest.raises(ScheduleError, match="got 0 places"):
        te.create_schedule(last.op).reindex(first, last, [[0]])


def test_a_read_under_a_condition_is_refused():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    guarded = lambda i: te.if_then_else(i > 0, a[i - 1], 0.0)
    counted = lambda i: te.sum(a[i + k], axis=k, where=i + k < 8)
    for value in (guarded, counted):
        b = te.compute((8,), value, name="B")
        with pytest.raises(ScheduleError, match="B reads it where a condition holds"):
            te.create_schedule(b.op).reindex(a, b, [[0], [1]] if b.op.reduce_axis else [[0]])


@pytest.mark.parametrize("text", ["", "0,", "0 x", "-1", "0 1;2"])
def test_a_text_that_names_no_groups_is_refused(text):
    assert groups_of(groups_text([[0, 1], [2]])) == ((0, 1), (2,))
    with pytest.raises(ScheduleError, match="expected groups of axes such as '0 1, 2'"):
        groups_of(text)
