"""References as users write them: whatever numpy they use, right kernels pass and wrong do not."""

import sys

import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import MeasureErrorNo
from tests.measure.check.test_verify import measured

GATHER = """
void gather(const float *x, const int *n, float *y, int *largest) {
  int best = 0;
  for (int i = 0; i < 256; i++) {
    y[i] = 0.3f * x[n[i] - 1] + 0.7f;
    if (x[i] > x[best]) best = i;
  }
  *largest = best + WRONG_INT;
  if (WRONG_FLOAT) y[255] += 1e-5f;
}
"""


def doubles(x, n):
    return np.asarray(x, "f8")[n - 1] * 0.3 + 0.7, np.asarray(x).argmax()


def plain_floats(x, n):
    return np.array([0.3 * float(x[j - 1]) + 0.7 for j in n]), max(range(256), key=x.__getitem__)


def changes_integers(x, n):
    n -= 1
    return np.array(x.tolist())[n] * 0.3 + 0.7, np.argmax(x)


def changes_floats(x, n):
    y, best = x[n - 1] * 0.3 + 0.7, np.argmax(x)
    x[:] = 0
    return y, best


@at.template("references_test.gather")
def gather(reference):
    cfg = at.get_config()
    cfg.define_knob("wrong", ["", "INT", "FLOAT"])
    wrong = cfg["wrong"].val
    return SourceKernel(
        "gather",
        GATHER,
        defines={f"WRONG_{kind}": int(kind == wrong) for kind in ("INT", "FLOAT")},
        args=[arg("x", (256,)), arg("n", (256,), "int32"), arg("y", (256,), role="out"),
              arg("largest", (), "int32", "out")],
        reference=globals()[reference],
    )  # fmt: skip


@pytest.mark.parametrize(
    "reference", ["doubles", "plain_floats", "changes_integers", "changes_floats"]
)
def test_a_reference_may_use_any_dtype_and_change_what_it_is_given(reference):
    task = at.create("references_test.gather", (reference,), "c")
    right, *wrong = measured(task, range(3))
    assert right.ok, right.error_msg
    assert [r.error_no for r in wrong] == [MeasureErrorNo.WRONG_ANSWER] * 2
    assert "largest: 1 of 1" in wrong[0].error_msg
    assert "y: 1 of 256" in wrong[1].error_msg


def leaves(x, n):
    sys.exit("no licence")


def test_a_reference_that_leaves_the_program_is_an_error_with_its_words():
    task = at.create("references_test.gather", ("leaves",), "c")
    with pytest.raises(MeasureError, match="its reference failed: SystemExit: no licence"):
        measured(task, [0])
