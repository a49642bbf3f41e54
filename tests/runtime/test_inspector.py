"""Arrays are judged on their device as they are on the host, and a changed byte shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernel import arg
from autotune.measure.check.compare import mismatch
from autotune.measure.check.expected import Expected
from autotune.runtime import cpu
from autotune.runtime.arrays.array import array, numpy_dtype
from autotune.runtime.arrays.buffers import GUARD, Buffers
from autotune.runtime.arrays.inspector import Inspector

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16",
          "int32", "uint32", "int64", "uint64", "bool"]  # fmt: skip


@pytest.fixture(scope="module")
def inspector():
    return Inspector(cpu())


def tally(inspector, got, want, bounds=None):
    inspector.begin()
    limits = None if bounds is None else array(bounds)
    place = inspector.compare(array(got), array(want), limits)
    return inspector.answers().tally(place)


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_wrong_element_is_counted(inspector, dtype):
    drawn = np.random.default_rng(0).uniform(0, 100, 1003)
    want = drawn > 50 if dtype == "bool" else drawn.astype(numpy_dtype(dtype))
    got = want.copy()
    assert tally(inspector, got, want).wrong == 0
    for place in (0, 17, 1002):
        got[place] = got[place] == 0 if dtype == "bool" else got[place] + want.dtype.type(1)
    assert tally(inspector, got, want).wrong == 3
    bounded = tally(inspector, got, want, np.full(1003, 2.0, np.float32))
    assert (bounded.wrong, bounded.counted) == (0, 1003)
    apart = got.astype("f8") - want.astype("f8")
    assert bounded.squares == pytest.approx(np.sum(apart**2) / 4)


SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 65504.0, 6e-8, 1e-40]
BOUNDS = [0.0, 1e-30, 0.5, np.inf]


@settings(max_examples=200, deadline=None)
@given(
    dtype=st.sampled_from(["float32", "float64", "float16", "bfloat16"]),
    rows=st.lists(
        st.tuples(st.sampled_from(SPECIAL), st.sampled_from(SPECIAL), st.sampled_from(BOUNDS)),
        min_size=1,
    ),
)
def test_the_device_judges_what_is_not_finite_as_the_host_does(inspector, dtype, rows):
    with np.errstate(all="ignore"):
        got, want = (np.array([r[i] for r in rows]).astype(numpy_dtype(dtype)) for i in (0, 1))
    bounds = np.array([r[2] for r in rows], np.float32)
    told = mismatch("y", got, Expected(want, bounds, 1.0))
    found = tally(inspector, got, want, bounds)
    assert bool(found.wrong) == (told is not None)
    assert told is None or f"y: {found.wrong} of {len(rows)} elements" in told


def test_a_single_number_is_judged(inspector):
    one, half = np.array(1.0, np.float32), np.array(0.5, np.float32)
    assert tally(inspector, one, one, half).wrong == 0
    assert tally(inspector, one, np.array(2.0, np.float32), half).wrong == 1
    assert tally(inspector, one, half).wrong == 1


def test_neighbours_among_large_integers_are_told_apart(inspector):
    want = np.full(8, 1 << 60, np.int64)
    assert tally(inspector, want + (np.arange(8) == 3), want).wrong == 1


@settings(max_examples=100, deadline=None)
@given(size=st.integers(1, 70), data=st.data())
def test_a_changed_byte_changes_the_digest(inspector, size, data):
    values = np.random.default_rng(size).integers(0, 255, size).astype(np.uint8)
    other = values.copy()
    other[data.draw(st.integers(0, size - 1))] ^= data.draw(st.integers(1, 255))
    inspector.begin()
    places = [inspector.digest(array(one)) for one in (values, other, values)]
    answers = inspector.answers()
    a, b, c = (answers.digest(place) for place in places)
    assert a == c != b


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (64,)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_guards_lie_directly_beside_what_is_written(inspector, shape, dtype):
    buffers = Buffers([arg("y", shape, dtype, "out"), arg("s", shape, dtype, "inout")], cpu())
    for written, guarded in zip(buffers.written(), buffers.guards, strict=True):
        assert guarded.before.pointer + guarded.before.nbytes == written.pointer
        assert guarded.after.pointer == written.pointer + written.nbytes
        assert written.pointer % 64 == 0
        sizes = guarded.before.nbytes, guarded.after.nbytes
        for zone, at in ((guarded.before, -1), (guarded.after, 0)):
            values = zone.numpy()
            assert np.all(values == GUARD)
            values[at] = 1
            zone.copyfrom(values)
            inspector.begin()
            place = inspector.compare(written, written, None, sizes)
            assert inspector.answers().tally(place).trespassed == 1
            zone.fill_bytes(GUARD)
