"""Convolutions on tensor cores on a device: rows of the search, to the bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.driver import build
from autotune.target import Target
from tests.auto_scheduler.convolutions import Conv, models_of
from tests.auto_scheduler.sketch.test_convolutions_on_tensor_cores import CASES, LARGE
from tests.auto_scheduler.sketch.test_permuted_operands import copies_of
from tests.auto_scheduler.tensor_core_programs import TYPES

WARPS = {
    **CASES,
    "layer": Conv(n=1, c=64, h=56, w=56, f=64),
    "stride of a layer": Conv(n=4, c=64, h=28, w=28, f=128, stride=(2, 2)),
    "rows and columns that are cut": Conv(n=1, c=64, h=7, w=7, f=200),
    "odd columns": Conv(n=3, c=64, h=9, w=11, f=67, filters="OHWI"),
}
WARPGROUPS = {
    **LARGE,
    "layer": Conv(n=1, c=64, h=56, w=56, f=64),
    "layer of a batch": Conv(n=4, c=128, h=28, w=28, f=128),
    "stride of a layer": Conv(n=4, c=64, h=28, w=28, f=128, stride=(2, 2), filters="OHWI"),
    "1x1": Conv(n=1, c=256, h=56, w=56, f=64, kernel=(1, 1), pad=(0, 0, 0, 0)),
    "rows and columns that are cut": Conv(n=1, c=64, h=14, w=14, f=200),
    "odd columns": Conv(n=3, c=64, h=9, w=11, f=67, filters="OHWI"),
}


IN_PARTS = {
    "14x14": Conv(n=1, c=256, h=14, w=14, f=256),
    "7x7": Conv(n=1, c=512, h=7, w=7, f=512, filters="OHWI"),
}


PERMUTED = {
    "NCHW": Conv(n=4, c=64, h=28, w=28, f=64, layout="NCHW", filters="OIHW"),
    "NHWC of OIHW": Conv(n=1, c=128, h=28, w=28, f=128, filters="OIHW"),
    "odd": Conv(
        n=3, c=192, h=9, w=31, f=72, kernel=(2, 3), stride=(1, 2), pad=(1, 0, 0, 2),
        layout="NCHW", filters="OIHW", dtype="bfloat16",
    ),
    "HWNC of TF32": Conv(n=64, c=96, h=6, w=6, f=64, layout="HWNC", filters="OIHW", dtype="tf32"),
}  # fmt: skip


def check(conv, kind, count=6, parts=1, copies=0):
    """Compare with integers, whose sums are exact, five times: a race would move."""
    task, found = models_of(conv, kind, Target("cuda").arch)
    model = next(each for each in found if each.batch == parts and len(copies_of(each)) >= copies)
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(count)

    def built(row):
        schedule, arguments = task.realise(model.program.candidate(row)).what
        return build(schedule, arguments, target="cuda", name="conv")

    rng, dtype = np.random.default_rng(0), TYPES[conv.dtype]
    shapes = [tuple(map(int, each.shape)) for each in task.compute_dag.tensors]
    inputs = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes[:-1]]
    wanted = conv.wanted(inputs).astype(dtype if conv.follows else np.float32)
    with ThreadPoolExecutor(8) as pool:
        for module in pool.map(built, rows):
            for _ in range(5):
                out = np.full(wanted.shape, np.nan, wanted.dtype)
                module(*inputs, out)
                np.testing.assert_array_equal(out, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("name", WARPS)
def test_convolutions_of_warps_are_right_on_the_device(name):
    check(WARPS[name], TensorCoreCostModel)


@pytest.mark.gpu
@pytest.mark.parametrize("name", WARPGROUPS)
def test_convolutions_of_warpgroups_are_right_on_the_device(name):
    if not (Target("cuda").arch or "").startswith("sm_90"):
        pytest.skip("needs compute capability 9.0")
    check(WARPGROUPS[name], WarpgroupCostModel)


@pytest.mark.gpu
@pytest.mark.parametrize("name", IN_PARTS)
def test_convolutions_in_parts_are_right_on_the_device(name):
    check(IN_PARTS[name], TensorCoreCostModel, parts=4)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [TensorCoreCostModel, WarpgroupCostModel])
@pytest.mark.parametrize("name", PERMUTED)
def test_convolutions_of_permuted_copies_are_right_on_the_device(name, kind):
    if kind is WarpgroupCostModel and not (Target("cuda").arch or "").startswith("sm_90"):
        pytest.skip("needs compute capability 9.0")
    check(PERMUTED[name], kind, copies=1)
