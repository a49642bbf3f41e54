"""Sums of 16-bit floats in float32, rounded once."""

import numpy as np
import pytest

from autotune import te
from autotune.errors import ScheduleError
from autotune.te.wide_sums import narrow_factors
from tests.te.test_reindex import body, run


def product(dtype="float16", reduce=te.sum, add=False):
    """A product of matrices in the type of their elements."""
    a, b = (te.placeholder((4, 600), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, 600), name="k")

    def value(i, j):
        return reduce(a[i, k] + b[j, k] if add else a[i, k] * b[j, k], axis=k)

    return a, b, te.compute((4, 4), value, name="C")


def test_a_cache_sums_in_float32_and_its_stage_rounds():
    *_, c = product()
    s = te.create_schedule(c.op)
    cache = s.widen(c, "local")
    assert cache.dtype == "float32"
    assert c.dtype == s[c].op.output(0).dtype == "float16"
    assert "float32(A[i.c, k]) * float32(B[j.c, k])" in body(s, cache)
    assert body(s, c) == "float16(C.local[i, j])"


def test_wide_sums_are_rounded_once(tmp_path):
    """4096 + 1 is 4096 in float16: sums in it stay there."""
    *inputs, c = product()
    values = [np.ones(each.shape, "float16") for each in inputs]
    values[0][:, 0] = 4096
    s = te.create_schedule(c.op)
    s.widen(c, "local")
    found = run(s, [*inputs, c], values, tmp_path, "wide")
    np.testing.assert_array_equal(found, np.full((4, 4), 4096 + 599, "float16"))


def test_steps_of_wide_sums_replay():
    *_, c = product()
    s = te.create_schedule(c.op)
    s.widen(c, "local")
    rows = [step.to_json() for step in s.steps]
    assert rows == [["cache_write_wide", "2", "local"]]
    again = te.replay(s.outputs, [te.step_from_json(row) for row in rows])
    assert te.dag_text([again[c].op]) == te.dag_text([s[c].op])


@pytest.mark.parametrize(
    "how",
    [{"dtype": "float32"}, {"reduce": te.max}, {"add": True}],
    ids=["float32", "maxima", "sums of sums"],
)
def test_other_reductions_are_refused(how):
    *_, c = product(**how)
    assert narrow_factors(c.op) is None
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"widen\(C\): expected a sum of products of 16-bit"):
        s.widen(c, "local")
    assert s.steps == ()


def test_sums_are_widened_before_their_loops_are_scheduled():
    *_, c = product()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=2)
    with pytest.raises(ScheduleError, match=r"widen\(C\): .* scheduled already; call widen first"):
        s.widen(c, "local")
