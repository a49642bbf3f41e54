"""Tiles for tensor cores may be larger than the result: what they read is in memory then, too."""

import numpy as np
import pytest

from autotune.codegen import kernel_of_schedule
from autotune.driver import build
from autotune.errors import LoweringError
from autotune.target import Target
from tests.lowering.tensor_core_products import product

TERMS = 32


@pytest.mark.many_cases
@pytest.mark.parametrize("along", [False, True], ids=["along steps", "along columns"])
@pytest.mark.parametrize("sizes", [(8, 32), (40, 48), (64, 24)], ids=str)
def test_tiles_beyond_the_result_read_no_memory_beyond_operands(sizes, along):
    m, n = sizes  # of tiles of 64 by 32
    schedule, arguments = product(m, n, TERMS, transposed=(False, along))
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (m, TERMS)).astype("float16")
    b = rng.uniform(-1, 1, (TERMS, n)).astype("float16")
    out = np.full((m, n), np.nan, "float16")
    build(schedule, arguments, "cuda -emulate")(a, b if along else b.T.copy(), out)
    np.testing.assert_allclose(out, a.astype("float32") @ b.astype("float32"), 2e-3, 4e-3)


def test_tiles_beyond_the_result_whose_operands_are_read_in_place_are_refused():
    schedule, arguments = product(8, 32, TERMS, copied=False)
    with pytest.raises(LoweringError, match=r"C: tiles for tensor cores.*cache_read"):
        kernel_of_schedule(schedule, arguments, Target("cuda -arch=sm_90"), "kernel")


def test_tiles_that_divide_the_result_may_read_operands_in_place():
    schedule, arguments = product(64, 32, TERMS, copied=False)
    kernel = kernel_of_schedule(schedule, arguments, Target("cuda -arch=sm_90"), "kernel")
    assert "mma_m16n8k16_f16" in kernel.source
