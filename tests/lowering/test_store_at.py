"""Computes that store their elements where they say, and leave all others."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import LoweringError
from autotune.lowering import lower
from autotune.runtime.arrays.array import array
from autotune.runtime.device import device
from autotune.te.stores import store_at, written_shape


def rows():
    new, at = te.placeholder((2, 16), "float32", "new"), te.placeholder((2,), "int32", "at")
    return new, at, store_at(
        (5, 16), (2, 16),
        lambda i, j: (new[i, j] + 1, (at[i], j), te.all(at[i] >= 0, at[i] < 5)), "rows",
    )  # fmt: skip


def test_the_argument_is_the_whole_array_and_is_given():
    new, at, out = rows()
    function = lower(te.create_schedule(out.op), [new, at, out])
    assert function.roles == ("in", "in", "inout")
    assert function.args[2].shape == (5, 16)
    assert written_shape(out.op) == (5, 16)
    assert str(function).endswith(
        "if at[i0] >= 0 && at[i0] < 5:\n        rows[at[i0] * 16 + i1] = new[i0 * 16 + i1] + 1.0f"
    )


@pytest.mark.parametrize("vectors", [False, True])
def test_other_elements_stay_and_places_outside_are_skipped(vectors):
    new, at, out = rows()
    schedule = te.create_schedule(out.op)
    if vectors:
        _, lane = schedule[out].split(out.op.axis[1], factor=8)
        schedule[out].vectorize(lane)
    run = autotune.build(schedule, [new, at, out], "c")
    where = device("c")
    given = np.arange(32, dtype="float32").reshape(2, 16)
    result = array(np.full((5, 16), 7, "float32"), where)
    run(array(given, where), array(np.array([3, 9], "int32"), where), result)
    want = np.full((5, 16), 7, "float32")
    want[3] = given[0] + 1
    np.testing.assert_array_equal(result.numpy(), want)


def read_by_another(new, at, out):
    more = te.compute((2, 16), lambda i, j: out[i, j] * 2, "more")
    return te.create_schedule(more.op), [new, at, out, more]


def in_a_cache(new, at, out):
    schedule = te.create_schedule(out.op)
    schedule.cache_write(out, "local")
    return schedule, [new, at, out]


def discarded(new, at, out):
    more = te.compute((2,), lambda i: at[i] + 1, "more")
    return te.create_schedule([more.op, out.op]), [new, at, more]


@pytest.mark.parametrize("made", [read_by_another, in_a_cache, discarded])
def test_what_is_no_argument_or_is_read_is_refused(made):
    with pytest.raises(LoweringError, match="must be an argument that no stage reads"):
        lower(*made(*rows()))
