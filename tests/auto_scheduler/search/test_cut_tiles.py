"""Products on tensor cores whose tiles do not divide rows and columns: the last are cut short."""

import numpy as np
import pytest

from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.space.rounded_tiles import TILE_SIDES
from autotune.auto_scheduler.search.space.sampler import RowSampler
from tests.auto_scheduler.convolutions import Conv, check_kernels
from tests.auto_scheduler.sketch.test_tensor_cores import wanted_of
from tests.auto_scheduler.tensor_core_programs import (
    TYPES,
    check_launches,
    kernels,
    product,
    programs,
)
from tests.fuzz.running import MANY_PRODUCTS, Job, run_batch

PRODUCTS = {
    "rows": (50, 64, 64, {}),
    "both": (197, 80, 64, {"cast": True}),
    "odd columns": (20, 33, 32, {}),
    "transposed": (100, 50, 64, {"transposed": True, "dtype": "bfloat16"}),
    "across, batch": (70, 200, 128, {"across": True, "batch": 2}),
    "tf32": (67, 72, 64, {"dtype": "tf32"}),
    "tf32 transposed": (100, 100, 64, {"dtype": "tf32", "transposed": True}),
}
CONVOLUTIONS = {
    "rows": Conv(n=1, c=64, h=9, w=9, f=64),
    "both": Conv(n=1, c=64, h=14, w=14, f=72, stride=(1, 2)),
    "odd columns": Conv(n=3, c=16, h=7, w=9, f=67, kernel=(2, 2), pad=(0, 0, 1, 1), follows=False),
}
KINDS = (TensorCoreCostModel, WarpgroupCostModel)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_any_number_of_rows_and_columns_are_exact(name, tmp_path):
    m, n, k, options = PRODUCTS[name]
    rng, dtype = np.random.default_rng(0), TYPES[options.get("dtype", "float16")]
    for kind in KINDS if min(m, n) >= 64 else KINDS[:1]:
        task, (model, *_) = programs(product(m, n, k, **options), kind)
        rows, found = kernels(task, model, 2)
        assert len(found) == 2
        check_launches(task, model.shape(rows), found)
        shapes = [each.shape for each in found[0].args if each.role == "in"]
        inputs = [rng.integers(-3, 4, each).astype(dtype) for each in shapes]
        wanted = wanted_of(options, *inputs)
        jobs = [Job(each, inputs, i) for i, each in enumerate(found)]
        many = m * n * k * options.get("batch", 1) > MANY_PRODUCTS
        for got in run_batch(jobs, tmp_path, optimized=many):
            assert not isinstance(got, str), got
            np.testing.assert_array_equal(got[0].astype(np.float64), wanted)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_any_number_of_rows_and_columns_are_right(name, tmp_path):
    check_kernels(CONVOLUTIONS[name], TensorCoreCostModel, "mma_m16n8k", tmp_path)
    if name != "odd columns":
        check_kernels(CONVOLUTIONS[name], WarpgroupCostModel, "wgmma_m64n", tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_little_is_computed_for_nothing(kind):
    """Tiles are counted as if there were an eighth more rows at most, where there are many."""
    for m in (264, 777, 1000, 3137):
        _, (model, *_) = programs(product(m, 1000, 64), kind)
        hint = "tensor_core" if kind is TensorCoreCostModel else "wgmma"
        sides = zip(model.program.slots, (m, 1000), TILE_SIDES[hint], strict=False)
        for slot, n, side in sides:
            assert slot.extent * side.unit < (n + side.unit) * 9 / 8


def test_no_tile_is_larger_than_what_there_is():
    _, (model, *_) = programs(product(70, 72, 64), WarpgroupCostModel)
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(100)
    shape = model.shape(rows)
    assert set(shape.tile_rows) == {64}
    assert set(shape.tile_columns) <= {32, 64}


@pytest.mark.parametrize(
    ("n", "k", "count"), [(1024, 256, 2), (1000, 256, 1), (1024, 64, 1)],
    ids=["whole", "cut", "of one chunk"],
)  # fmt: skip
def test_blocks_take_tiles_in_turn_only_where_all_are_whole_and_of_several_chunks(n, k, count):
    assert len(programs(product(1024, n, k), WarpgroupCostModel)[1]) == count
