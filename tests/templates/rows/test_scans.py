"""Prefix sums along a middle axis, and of whole numbers and double precision."""

from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import ml_dtypes
import numpy as np
import pytest
from autotune.templates.rows import scan_columns, scan_cuda, scan_staged
from autotune.templates.rows.scan_columns import ScanColumns
from autotune.templates.rows.scan_cuda import Scan
from autotune.templates.rows.split_rows import SplitRows

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create

HOPPER = Target("cuda -arch=sm_90")
SHAPES = [
    ScanColumns(3, 50, 24),
    ScanColumns(1, 700, 6, "float16"),
    ScanColumns(40, 5, 3, "bfloat16"),
    ScanColumns(2, 90, 33, "int64"),
    ScanColumns(1, 300, 20, "float64"),
    ScanColumns(5, 1, 8, "int32"),
]


def check(family, shape, choice, extents):
    """Sum up small whole numbers, which all types hold exactly."""
    source = family.kernel(shape, choice)
    kernel = source.kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None
    data = np.random.default_rng(1).integers(-1, 2, extents)
    given = data.astype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    out = np.zeros_like(given)
    run_emulated(kernel, [given, out], orders=(0,))
    np.testing.assert_array_equal(out.astype(int), data.cumsum(1), err_msg=str(choice))


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_summed_exactly(shape):
    options = scan_columns.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    choices = [c for c in every if not scan_columns.violation(shape, c, HOPPER)]
    default = scan_columns.default_choice(shape, HOPPER)
    assert default in choices
    split = [c for c in choices if c["split"] > 1 and c["rows"] > 1]
    for choice in (default, choices[0], choices[-1], *split[:: len(split) // 2 + 1]):
        check(scan_columns, shape, choice, (shape.outer, shape.depth, shape.inner))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_rows_of_other_types_are_summed_exactly(dtype):
    for family, shape in (
        (scan_cuda, Scan(5, 301, dtype)),
        (scan_staged, Scan(300, 7, dtype)),
        (SplitRows(scan_cuda, always=True), Scan(2, 20000, dtype)),
    ):
        choice = family.default_choice(shape, HOPPER)
        check(family, shape, choice, (shape.rows, shape.columns))


@pytest.mark.many_cases
@pytest.mark.parametrize("vec", [2, 4, 8])
@pytest.mark.parametrize(("rows", "columns"), [(5, 301), (3, 9), (7, 517)])
def test_vectors_need_not_divide_rows(rows, columns, vec):
    shape = Scan(rows, columns, "float16")
    for items in (1, 2):
        choice = {"threads": 32, "rows": 2, "vec": vec, "items": items}
        check(scan_cuda, shape, choice, (rows, columns))


def test_sums_beyond_32_bits_are_kept():
    data = np.full((2, 100, 4), 2**31 - 1, np.int64)
    shape = ScanColumns(2, 100, 4, "int64")
    choice = {"threads": 8, "rows": 4, "width": 1, "items": 4, "split": 2}
    out = np.zeros_like(data)
    run_emulated(scan_columns.kernel(shape, choice).kernel("cuda"), [data, out], orders=(0,))
    np.testing.assert_array_equal(out, data.cumsum(1))


def test_an_inner_extent_of_1_means_rows():
    assert "width" in create("cumsum.cuda", (8, 300, "float32", 2), HOPPER).config_space.space_map
    assert "vec" in create("cumsum.cuda", (8, 300, "float32", 1), HOPPER).config_space.space_map


def test_more_columns_than_kernels_count_are_refused_in_words():
    with pytest.raises(TemplateError, match=r"kernels take up to .* columns"):
        create("cumsum.cuda", (2**20, 3, "float16", 2**12), HOPPER)
