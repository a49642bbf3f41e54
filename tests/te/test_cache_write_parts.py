"""cache_write of a dimension in parts: the cache has two dimensions for it."""

import numpy as np
import pytest

from autotune import te
from autotune.errors import ScheduleError
from tests.te.test_reindex import body, run


def grouped():
    """Rows of A, of which each serves four neighbouring rows of B."""
    a, b = te.placeholder((3, 6), name="A"), te.placeholder((12, 6), name="B")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((12, 5), lambda i, j: te.sum(a[i // 4, k] * b[i, k] + j, axis=k), name="C")
    return a, b, c


def test_the_number_of_a_part_and_the_place_in_it_are_axes():
    *_, c = grouped()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local", (0, 4))
    assert [int(n) for n in cache.shape] == [3, 4, 5]
    assert "A[i.o.c, k]" in body(s, cache)
    assert body(s, c) == "C.local[floordiv(i, 4), floormod(i, 4), j]"


def test_parts_change_nothing_of_what_is_computed(tmp_path):
    *inputs, c = grouped()
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, each.shape).astype("float32") for each in inputs]
    plain = run(te.create_schedule(c.op), [*inputs, c], values, tmp_path, "plain")
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local", (0, 4))
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[cache].compute_at(s[c], outer)
    np.testing.assert_array_equal(run(s, [*inputs, c], values, tmp_path, "parts"), plain)


def test_steps_of_parts_replay():
    *_, c = grouped()
    s = te.create_schedule(c.op)
    s.cache_write(c, "local", (0, 4))
    rows = [step.to_json() for step in s.steps]
    assert rows == [["cache_write_parts", "2", "local", 0, 4]]
    again = te.replay(s.outputs, [te.step_from_json(row) for row in rows])
    assert te.dag_text([again[c].op]) == te.dag_text([s[c].op])


@pytest.mark.parametrize("parts", [(0, 5), (2, 5), (-1, 5), (0, 0)])
def test_parts_that_do_not_divide_a_dimension_are_refused(parts):
    *_, c = grouped()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"cache_write\(C\): expected a dimension of a const"):
        s.cache_write(c, "local", parts)
    assert s.steps == ()
