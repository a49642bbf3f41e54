"""Products on tensor cores of sums that no tile divides: zeros are added beyond their end."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import te
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from tests.auto_scheduler.convolutions import Conv, check_kernels
from tests.auto_scheduler.sketch.test_tensor_cores import wanted_of
from tests.auto_scheduler.tensor_core_programs import (
    TYPES,
    check_launches,
    kernels,
    product,
    programs,
)
from tests.fuzz.running import Job, run_batch

KINDS = (TensorCoreCostModel, WarpgroupCostModel)
CONVOLUTIONS = {
    "of three channels": Conv(n=1, c=3, h=11, w=11, f=64, kernel=(5, 5)),
    "of a dilation": Conv(n=1, c=24, h=10, w=10, f=64, dilation=(2, 2), pad=(2, 2, 2, 2)),
    "of NCHW": Conv(n=1, c=24, h=8, w=8, f=64, layout="NCHW", filters="OIHW", dtype="tf32"),
}


def check(tensors, kind, wanted, seed=0):
    """Run two kernels of the first program of a kind, of small integers."""
    rng = np.random.default_rng(seed)
    task, (model, *_) = programs(tensors, kind)
    rows, found = kernels(task, model, 2, seed)
    check_launches(task, model.shape(rows), found)
    inputs = [
        rng.integers(-3, 4, [int(n) for n in each.shape]).astype(TYPES.get(each.dtype, "float32"))
        for each in tensors[:-1]
    ]
    jobs = [Job(each, inputs, i) for i, each in enumerate(found)]
    for got in run_batch(jobs, Path(tempfile.mkdtemp())):
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0].astype(np.float64), wanted(*inputs))
    return found


@settings(max_examples=5, deadline=None)
@given(
    m=st.integers(64, 80), n=st.integers(64, 80), k=st.integers(64, 150),
    dtype=st.sampled_from(sorted(TYPES)), transposed=st.booleans(), across=st.booleans(),
    kind=st.sampled_from(KINDS), seed=st.integers(0, 99),
)  # fmt: skip
def test_products_of_any_number_of_steps_are_exact(m, n, k, dtype, transposed, across, kind, seed):
    options = {"dtype": dtype, "transposed": transposed, "across": across}
    tensors = product(m, n, k, **options)
    check(tensors, kind, lambda *pair: wanted_of(options, *pair), seed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_ends_before_what_lies_behind_it_in_memory(kind):
    """Of a matrix whose first columns, or others, are multiplied, the rest is not read."""
    a = te.placeholder((64, 128), "float16", name="A")
    b = te.placeholder((90, 64), "float16", name="B")
    for first in (0, 19):
        r = te.reduce_axis((first, 90), name="k")

        def value(i, j, r=r):
            return te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r)

        found = check(
            [a, b, te.compute((64, 64), value, name="C")],
            kind,
            lambda x, y, first=first: (
                x[:, first:90].astype(np.float64) @ y[first:].astype(np.float64)
            ),
        )
        assert all("mma_" in each.source for each in found)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_any_number_of_channels_are_right(name, tmp_path):
    for kind, instruction in zip(KINDS, ("mma_m16n8k", "wgmma_m64n"), strict=True):
        check_kernels(CONVOLUTIONS[name], kind, instruction, tmp_path)


def test_steps_are_copied_together_where_rows_are_aligned():
    """Zeros beyond the end of a sum are part of an asynchronous copy, as those of padding are."""
    task, (model, *_) = programs(
        product(128, 128, 1000, dtype="tf32", transposed=True), WarpgroupCostModel
    )
    rows, found = kernels(task, model, 8)
    ring = [
        each.source
        for each, row in zip(found, rows, strict=True)
        if max(row) and "memcpy" in each.source
    ]
    assert any("copy_or_zero" in each for each in ring)


def test_parts_of_sums_are_whole():
    """Where a sum is cut in parts, each is a multiple of an instruction's steps."""
    _, found = programs(product(64, 64, 1000, dtype="tf32", transposed=True), KINDS)
    assert all(each.extents[2] % each.product.depth == 0 for each in found if each.in_parts)
    assert any(each.extents[2] == 1000 for each in found if isinstance(each, WarpgroupCostModel))
