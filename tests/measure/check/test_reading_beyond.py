"""A kernel that reads beyond an input gives a wrong answer, whatever lies there at other times."""

import pytest

import autotune
from autotune.measure import MeasureErrorNo

SOURCE = """
void total(const float* before, const float* x, const float* after, float* sum) {
  sum[0] = 0;
  for (int i = FIRST; i < LAST; ++i) sum[0] += x[i];
}
"""


@autotune.template("tests.reading_beyond")
def total(n):
    cfg = autotune.get_config()
    cfg.define_knob("first", [0, -1])
    cfg.define_knob("last", [n, n + 1, n + 28])
    return autotune.SourceKernel(
        "total",
        source=SOURCE,
        defines={"FIRST": cfg["first"].val, "LAST": cfg["last"].val},
        args=[
            autotune.arg("before", (n,)),
            autotune.arg("x", (n,)),
            autotune.arg("after", (n,)),
            autotune.arg("sum", (1,), role="out"),
        ],
        reference=lambda before, x, after: x.sum(keepdims=True),
    )


@pytest.mark.parametrize("n", [100, 1024])
def test_reading_beyond_an_input_is_a_wrong_answer(n):
    task = autotune.create("tests.reading_beyond", args=(n,), target="c")
    results = {}

    def note(_, inputs, found):
        for inp, result in zip(inputs, found, strict=True):
            results[inp.config["first"].val, inp.config["last"].val - n] = result.error_no

    autotune.tuner.GridSearchTuner(task).tune(
        6, autotune.measure_option("local", "local"), callbacks=[note]
    )
    right = results.pop((0, 0))
    assert right == MeasureErrorNo.NO_ERROR
    assert set(results.values()) == {MeasureErrorNo.WRONG_ANSWER}
    assert len(results) == 5
