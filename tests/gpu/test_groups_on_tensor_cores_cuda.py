"""Convolutions of groups of channels are exact on tensor cores of the device."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.driver import build
from autotune.target import Target
from tests.auto_scheduler.sketch.test_groups_on_tensor_cores import Grouped, drawn
from tests.auto_scheduler.tensor_core_programs import TYPES, programs

CASES = {
    "32 wide": (TensorCoreCostModel, Grouped(n=4, c=128, size=14, f=128, groups=4)),
    "odd": (
        TensorCoreCostModel,
        Grouped(n=3, c=192, size=9, f=96, groups=3, stride=2, dtype="bfloat16"),
    ),
    "64 wide": (WarpgroupCostModel, Grouped(n=4, c=256, size=14, f=256, groups=4)),
    "of rows": (WarpgroupCostModel, Grouped(n=2, c=128, size=28, f=256, groups=2, follows=False)),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_groups_are_right_on_the_device(name):
    """Compare with integers, whose sums are exact, five times: a race would move."""
    kind, conv = CASES[name]
    arch = Target("cuda").arch or ""
    if kind is WarpgroupCostModel and not arch.startswith("sm_90"):
        pytest.skip("needs compute capability 9.0")
    task, found = programs(conv.tensors(), kind, f"cuda -arch={arch}")
    candidates = [each.program.candidate(row) for each in found for row in drawn(each, 2)]

    def built(candidate):
        schedule, arguments = task.realise(candidate).what
        return build(schedule, arguments, target="cuda", name="conv")

    rng, dtype = np.random.default_rng(0), TYPES[conv.dtype]
    shapes = [tuple(map(int, each.shape)) for each in task.compute_dag.tensors]
    inputs = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes[:-1]]
    wanted = conv.wanted(inputs).astype(dtype if conv.follows else np.float32)
    assert candidates
    with ThreadPoolExecutor(8) as pool:
        for module in pool.map(built, candidates):
            for _ in range(5):
                out = np.full(wanted.shape, np.nan, wanted.dtype)
                module(*inputs, out)
                np.testing.assert_array_equal(out, wanted)
