"""permute: a copy of a tensor whose dimensions stand in another order."""

import numpy as np
import pytest

from autotune import te
from autotune.errors import ScheduleError
from tests.te.graphs import diamond, matmul
from tests.te.test_reindex import body, run, window


def test_a_copy_stands_between_a_tensor_and_its_readers():
    _, b, c = matmul()
    s = te.create_schedule(c.op)
    copy = s.permute(b, [c], [1, 0])
    assert [stage.name for stage in s.stages] == ["A", "B", "B.permuted", "C"]
    assert [int(n) for n in copy.shape] == [32, 128]
    assert body(s, copy) == "B[ax1, ax0]"
    assert body(s, c) == "sum(A[i, k] * B.permuted[j, k], axis=[k])"


@pytest.mark.parametrize("inlined", [True, False])
def test_a_copy_changes_nothing_of_what_is_computed(inlined, tmp_path):
    a, w, b = window()
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, shape).astype("float32") for shape in ((9, 12), (3, 4))]
    plain = run(te.create_schedule(b.op), [a, w, b], inputs, tmp_path, "plain")
    s = te.create_schedule(b.op)
    copies = [s.permute(each, b, [1, 0]) for each in (a, w)]
    if inlined:
        for each in copies:
            s[each].compute_inline()
    np.testing.assert_array_equal(run(s, [a, w, b], inputs, tmp_path, "copy"), plain)


def test_steps_of_a_copy_replay():
    _, b, c = matmul()
    s = te.create_schedule(c.op)
    s.permute(b, c, [1, 0])
    rows = [step.to_json() for step in s.steps]
    assert rows == [["permute", "1", 0, [1, 0], ["2"]]]
    again = te.replay(s.outputs, [te.step_from_json(row) for row in rows])
    assert te.dag_text([again[c].op]) == te.dag_text([s[c].op])


@pytest.mark.parametrize("order", [[], [0], [0, 0], [1, 2], [0, 1, 2]], ids=str)
def test_an_order_that_has_not_each_dimension_once_is_refused(order):
    _, b, c = matmul()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"permute\(B\): expected the numbers of its 2"):
        s.permute(b, c, order)
    assert s.steps == ()


def test_a_stage_that_does_not_read_the_tensor_is_refused():
    a, *_, e = diamond()
    with pytest.raises(ScheduleError, match=r"permute\(A\): E does not read A"):
        te.create_schedule(e.op).permute(a, e, [0])
