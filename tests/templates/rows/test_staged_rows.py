"""Many short rows and small planes, which pass through shared memory."""

from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.rows import (
    reduce_cuda,
    reduce_staged,
    rows_cuda,
    rows_staged,
    scan_cuda,
    scan_staged,
)
from autotune.templates.rows.reduction_shape import Reduction
from autotune.templates.rows.rows_shape import Rows
from autotune.templates.rows.scan_cuda import Scan

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
CASES = [
    (rows_staged, Rows("softmax", 333, 3)),
    (rows_staged, Rows("layer_norm", 301, 31, "float16", 1e-5, True, True)),
    (rows_staged, Rows("rms_norm", 130, 26, "float32", 1e-5, True)),
    (rows_staged, Rows("log_softmax", 77, 7, "bfloat16")),
    (rows_staged, Rows("layer_norm", 72, 15, "float32", 1e-5, True, True, 3, 6)),
    (rows_staged, Rows("softmax", 1, 250, "float16")),
    (reduce_staged, Reduction("sum", 333, 3)),
    (reduce_staged, Reduction("argmax", 103, 40, 8)),
    (reduce_staged, Reduction("max", 77, 16, 1, "float16")),
    (reduce_staged, Reduction("mean", 50, 13, 1, "bfloat16")),
    (reduce_staged, Reduction("argmin", 60, 9, 5, "float16")),
    (reduce_staged, Reduction("prod", 90, 2, 2)),
    (reduce_staged, Reduction("min", 9, 64, 16)),
    (scan_staged, Scan(333, 3)),
    (scan_staged, Scan(200, 31, "float16")),
    (scan_staged, Scan(70, 64)),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("family", "shape"), CASES, ids=[str(shape) for _, shape in CASES])
def test_choices_match_float64_in_the_emulator(family, shape):
    options = family.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    choices = [c for c in every if not family.violation(shape, c, HOPPER)]
    default = family.default_choice(shape, HOPPER)
    assert default in choices
    for choice in (default, choices[0], choices[-1]):
        source = family.kernel(shape, choice)
        kernel, arrays = source.kernel("cuda"), arrays_of(source)
        assert launch_violation(kernel, HOPPER.limits) is None
        run_emulated(kernel, arrays, orders=(0,))
        wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
        tolerance = 1e-4 if shape.dtype == "float32" else 3e-2
        np.testing.assert_allclose(
            arrays[-1].astype(np.float64), wanted, tolerance, tolerance, err_msg=str(choice)
        )


@pytest.mark.parametrize(
    ("name", "args", "knob"),
    [
        ("softmax", (10_000_000, 3), "times"),
        ("softmax", (100, 3), "keep"),
        ("layer_norm", (1_000_000, 31), "times"),
        ("layer_norm", (1_000_000, 32), "keep"),
        ("reduce", ("sum", 10_000_000, 3), "outers"),
        ("reduce", ("argmax", 11_377, 40, 8), "outers"),
        ("reduce", ("sum", 11_377, 40, 800), "unroll"),
        ("reduce", ("sum", 4096, 4096), "unroll"),
        ("cumsum", (10_000_000, 3), "times"),
        ("cumsum", (4096, 4096), "items"),
    ],
)
def test_many_short_rows_are_staged_and_others_are_not(name, args, knob):
    space = create(f"{name}.cuda", args, HOPPER).config_space
    assert knob in space.space_map


@pytest.mark.parametrize(
    ("name", "args", "family", "shape"),
    [
        ("softmax", (10**6, 3), rows_cuda, Rows("softmax", 10**6, 3)),
        ("reduce", ("sum", 10**6, 3), reduce_cuda, Reduction("sum", 10**6, 3)),
        ("cumsum", (10**6, 3), scan_cuda, Scan(10**6, 3)),
    ],
)
def test_a_configuration_from_before_still_builds_its_kernel(name, args, family, shape):
    choice = family.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    source = create(f"{name}.cuda", args, HOPPER).instantiate(ConfigEntity(7, None, entities))
    assert source.text() == family.kernel(shape, choice).text()


WHOLE = [
    Reduction("sum", 33, 300, 1, "int8"),
    Reduction("argmax", 10, 40, 8, "int32"),
    Reduction("max", 7, 160, 1, "uint8"),
    Reduction("argmin", 6, 90, 50, "int16"),
    Reduction("prod", 90, 2, 2, "int32"),
    Reduction("min", 40, 32, 1, "int8"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("family", [reduce_cuda, reduce_staged])
@pytest.mark.parametrize("shape", WHOLE, ids=str)
def test_whole_numbers_are_reduced_exactly(family, shape):
    rng = np.random.default_rng(3)
    bounds = np.iinfo(shape.dtype)
    data = rng.integers(bounds.min, bounds.max, (shape.outer, shape.depth, shape.inner))
    data = data.astype(shape.dtype)
    out = np.zeros((shape.outer, shape.inner), shape.result)
    source = family.kernel(shape, family.default_choice(shape, HOPPER))
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    if shape.place or shape.operation in ("max", "min"):
        wanted = getattr(np, shape.operation)(data, axis=1)
    else:
        with np.errstate(over="ignore"):
            wanted = getattr(np, shape.operation)(data, axis=1, dtype=np.int32)
    np.testing.assert_array_equal(out, wanted)


def test_the_mean_of_whole_numbers_is_refused_in_words():
    with pytest.raises(TemplateError, match="the mean of int32 is no whole number"):
        create("reduce.cuda", ("mean", 4, 4, 1, "int32"), HOPPER)
