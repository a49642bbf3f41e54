"""16-bit floats that a condition chooses: GCC's masked stores of them are not made."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.codegen.masked_halves import HELPERS, MASKED_HALVES

BRANCHES = HELPERS[MASKED_HALVES]
CHOICES = {
    "comparison": (lambda a, b: (a > b).astype("float16"), lambda a, b: a > b),
    "choice": (
        lambda a, b: te.Select(a > b, a, te.const(0, "float16")),
        lambda a, b: np.where(a > b, a, 0),
    ),
}


def built(value, size, parallel=True):
    a, b = (te.placeholder((size,), "float16", name=name) for name in "ab")
    out = te.compute((size,), lambda i: value(a[i], b[i]), name="out")
    s = te.create_schedule(out.op)
    if parallel:
        s[out].parallel(out.op.axis[0])
    return autotune.build(s, [a, b, out], "llvm")


@pytest.mark.parametrize("choice", sorted(CHOICES))
@pytest.mark.parametrize("size", [4, 50])
def test_a_16_bit_float_that_a_condition_chooses_is_stored_in_a_parallel_loop(choice, size):
    value, expected = CHOICES[choice]
    run = built(value, size)
    a, b = np.random.default_rng(0).standard_normal((2, size)).astype("float16")
    result = np.full(size, 7, "float16")
    run(a, b, result)
    np.testing.assert_array_equal(result, expected(a, b))
    assert BRANCHES in run.get_source()


def test_branches_of_other_functions_are_converted():
    assert BRANCHES not in built(CHOICES["choice"][0], 8, parallel=False).get_source()
    assert BRANCHES not in built(lambda a, b: a * b, 8).get_source()
