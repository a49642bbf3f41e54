"""Products of float32 with short sums: operands, edges, what follows, choices."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_small_k
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, activation="relu")
# Extents reach into tiles; a sum of 13 begins anywhere in memory.
PRODUCTS = {
    "[n, k]": (Gemm(37, 70, 13, transpose_b=True, rest=REST), 2, 8),
    "[k, n]": (Gemm(21, 300, 27), 4, 16),
    "odd columns": (Gemm(6, 33, 5, transpose_b=True), 1, 4),
    "whole tiles": (Gemm(64, 256, 16, transpose_b=True, rest=REST), 4, 32),
    "a sum of one": (Gemm(9, 130, 1), 2, 4),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_short_sums_match_their_reference_in_the_emulator(name):
    shape, cols, tile_m = PRODUCTS[name]
    source = gemm_small_k.kernel(shape, {"threads": 64, "cols": cols, "tile_m": tile_m})
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [Gemm(2048, 512, 13, transpose_b=True), Gemm(2049, 2048, 33)])
def test_every_choice_of_short_sums_can_be_launched(shape):
    args = (shape.m, shape.n, shape.k, "float32", 1, False, shape.transpose_b)
    task = create("gemm.cuda", args, HOPPER)
    space = task.config_space
    for place in space.sample(100, np.random.default_rng(0)):
        kernel = task.instantiate(space.get(place)).kernel("cuda")
        assert kernel.name == "gemm_small_k"
        assert launch_violation(kernel, HOPPER.limits) is None


OTHERS = {
    "longer sums": Gemm(2048, 512, 33),
    "sums of more than 64": Gemm(2048, 2048, 65),
    "few results": Gemm(64, 512, 16),
    "few columns": Gemm(16384, 64, 27),
    "a stored as [k, m]": Gemm(2048, 512, 13, transpose_a=True),
    "a batch": Gemm(2048, 512, 13, batch=2),
    "16-bit floats": Gemm(2048, 512, 16, "float16"),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS)
def test_other_products_are_staged_in_chunks(shape):
    assert not gemm_small_k.suits(shape)


def test_products_that_were_tuned_before_short_sums_had_a_kernel_run_as_they_did():
    shape = Gemm(2048, 512, 13)
    assert gemm_small_k.suits(shape)
    assert not gemm_small_k.suits(shape, {"threads_m": 4})
