"""Regions that reach out of their tensor: guarded where they may, and not where they cannot."""

import numpy as np
import pytest
from interpreter import run

from autotune import te
from autotune.lowering import lower_schedule


def window(size, offset, factor, taps=1):
    """C reads B at ``i + offset ...``, where there is one; B is computed for each tile of C."""
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * 2.0, name="B")

    def value(i):
        parts = []
        for tap in range(taps):
            at = i + offset + tap
            inside = te.all(at >= 0, at < size)
            parts.append(te.if_then_else(inside, b[at], 0.0))
        return sum(parts[1:], parts[0])

    c = te.compute((size,), value, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=factor)
    s[b].compute_at(s[c], outer)
    return s, a, c


def made_of_b(s, a, c):
    """The text of the stage B inside the loops of C, before these are taken apart."""
    seen = {}
    lower_schedule(s, [a, c], hook=seen.setdefault)
    text = "\n".join(str(nest) for _, nest in seen["make_nests"])
    return text[text.index("allocate B") : text.index("C[")]


@pytest.mark.parametrize("size", [8, 12, 13])
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("offset", [-9, -4, -3, -1, 0, 1, 3, 4, 9])
def test_what_is_outside_is_neither_read_nor_computed(size, offset, taps):
    s, a, c = window(size, offset, 4, taps)
    x = np.arange(1, size + 1, dtype="float32")
    out = np.zeros(size, "float32")
    run(lower_schedule(s, [a, c]), [x, out])
    padded = np.pad(2 * x, 20)
    expected = sum(padded[20 + offset + t : 20 + offset + t + size] for t in range(taps))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("offset", "low", "high"),
    [(-1, True, False), (0, False, False), (1, False, True), (-4, True, False), (4, False, True)],
)
def test_only_the_end_that_may_be_passed_is_guarded(offset, low, high):
    text = made_of_b(*window(16, offset, 4))
    assert ("if i.outer" in text or ">=" in text or "<" in text) == (low or high)
    assert (">=" in text) == low
    assert ("<" in text) == high


def test_both_ends_are_guarded_where_both_may_be_passed():
    text = made_of_b(*window(16, -1, 4, taps=3))
    assert ">=" in text
    assert "<" in text


def test_a_region_as_large_as_its_tensor_needs_no_guard():
    text = made_of_b(*window(4, -1, 4, taps=3))
    assert "B: float32[4]" in text
    assert "if " not in text
