"""Products by `wgmma` on a device: all layouts of operands, rows of the search, to the bit."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.driver import build
from autotune.target import Target
from tests.auto_scheduler.sketch.test_warpgroups import warpgroup_models
from tests.auto_scheduler.tensor_core_programs import product as definition
from tests.lowering.test_warpgroups import CASES
from tests.lowering.warpgroup_products import product

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SIZES = (256, 384, 1024)


@pytest.fixture(autouse=True)
def hopper():
    if not (Target("cuda").arch or "").startswith("sm_90"):
        pytest.skip("needs compute capability 9.0")


def check(module, arguments, transposed=(False, True)):
    """Compare with integers, whose sums are exact, five times: a race would move."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, each.shape).astype(numpy_type(each)) for each in arguments[:2])
    left, right = (x.astype(np.float64) for x in (a, b))
    exact = (left.T if transposed[0] else left) @ (right if transposed[1] else right.T)
    wanted = exact.astype(numpy_type(arguments[2]))
    for _ in range(5):
        out = np.full(wanted.shape, np.nan, wanted.dtype)
        module(a, b, out)
        np.testing.assert_array_equal(out, wanted)


def numpy_type(argument):
    return np.dtype(TYPES.get(argument.dtype, argument.dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_products_of_warpgroups_are_right_on_the_device(name):
    tiles, options = CASES[name]
    options = dict(options)
    schedule, tensors = product(*options.pop("size", SIZES), tiles, **options)
    module = build(schedule, tensors, target="cuda", name="product")
    check(module, tensors, options.get("transposed", (False, True)))


@pytest.mark.gpu
@pytest.mark.parametrize("transposed", [False, True], ids=["nn", "nt"])
def test_rows_of_the_search_by_warpgroups_are_right_on_the_device(transposed):
    tensors = definition(*SIZES, cast=True, transposed=transposed)
    task, (model, *_), _ = warpgroup_models(tensors, "cuda")
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(32)

    def built(row):
        schedule, arguments = task.realise(model.program.candidate(row)).what
        return build(schedule, arguments, target="cuda", name="product")

    with ThreadPoolExecutor(8) as pool:
        for module in pool.map(built, rows):
            check(module, tensors, (False, not transposed))
