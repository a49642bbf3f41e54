"""Layers of 8-bit integers of a GPU, emulated: sums are exact, and end in their type."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune import Target, build
from autotune.errors import TemplateError
from autotune.task import create

EMULATED = Target("cuda -emulate")
SMALL = (1, 4, 7, 10, 6, 3, 2, (2, 1), (1, 0, 2, 3), (1, 2), 2, "uint8", 255, "uint8", 3)
# Knobs that a case must have, beside arguments: splits of K, odd channels, words and bytes.
CASES = {
    "bytes in groups": ("conv2d_int8.cuda", SMALL, {}),
    "a residual, by warps along K": (
        "conv2d_int8.cuda",
        (1, 5, 5, 40, 32, 3, 3, 1, 1, 1, 1, "int8", -128, "int8", 4, -90.0, 90.0, "uint8", 200,
         0.7123, 1.3157, -128.0, 100.0),
        {"warps_k": 2, "chunk": 64, "stages": 2, "split": 1},
    ),
    "ranges of K": (
        "gemm_int8.cuda", (5, 36, 520, "int8", 127, "int8", -128), {"split": 2, "stages": 2},
    ),
    "few rows": ("gemm_int8.cuda", (3, 37, 272, "uint8", 7, "int8", -9), {}),
    "one row": ("gemm_int8.cuda", (1, 100, 48, "int8", -7, "uint8", 9), {}),
    "depthwise": (
        "conv2d_int8.cuda", (1, 5, 6, 8, 8, 3, 3, 2, 1, 1, 8, "int8", -128, "int8", 0), {},
    ),
}  # fmt: skip


def drawn(argument, rng):
    limits = np.iinfo(argument.dtype)
    return rng.integers(limits.min, limits.max + 1, argument.shape).astype(argument.dtype)


def chosen(task, knobs):
    """Return a configuration with some knobs; the default where there are none."""
    if not knobs:
        return task.default()
    space = task.config_space
    every = (space.get(i) for i in space.sample(2000, np.random.default_rng(0)))
    return next(c for c in every if all(c[name].val == value for name, value in knobs.items()))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_layers_end_in_bytes_of_exact_sums(name):
    template, args, knobs = CASES[name]
    rng, task = np.random.default_rng(0), create(template, args, EMULATED)
    with EMULATED:
        source = task.instantiate(chosen(task, knobs))
        function = build(source, target=EMULATED)
    data, weight, _, scale, shift, *residual, out = source.args
    x, w, *others = (drawn(each, rng) for each in (data, weight, *residual))
    rows = w.reshape(len(w), -1)
    size = np.full(scale.shape, 0.02 / len(rows[0]) ** 0.5, "float32")
    arrays = (
        x, w, rows.sum(1, dtype="int32"), size,
        rng.normal(0, 10, shift.shape).astype("float32"), *others,
    )  # fmt: skip
    result = np.zeros(out.shape, out.dtype)
    function(*arrays, result)
    wanted = np.asarray(source.reference(*arrays))
    np.testing.assert_array_equal(result, wanted)
    assert len(np.unique(wanted)) > 20


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("int8", 0, "int8", 0, -9.0, 9.0, "", 5), "name its type"),
        (("int8", 0, "int8", 0, -9.0, 9.0, "uint8", -1), "its zero point one of these"),
        (("int8", 0, "int8", 0, -9.0, 9.0, "int8", 0, 1.0, 1.0, 2.0, 1.0), "in order"),
    ],
)
def test_residuals_that_do_not_fit_are_refused(more, message):
    with pytest.raises(TemplateError, match=message):
        create("conv2d_int8.cuda", (1, 5, 5, 8, 8, 3, 3, 1, 1, 1, 1, *more), EMULATED)


def test_sums_that_32_bits_may_not_hold_are_refused():
    with pytest.raises(TemplateError, match="hold at most 65793 products of bytes"):
        create("conv2d_int8.cuda", (1, 3, 3, 1, 7311, 3, 3), EMULATED)
