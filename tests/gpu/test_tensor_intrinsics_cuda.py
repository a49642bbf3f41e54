"""Tensor intrinsics and hand-written statements on a device: exact, run again and again."""

import numpy as np
import pytest

from autotune.driver import build
from tests.compat.test_tensor_intrinsics import dp4a_product
from tests.compat.test_warp_matrices import wmma_product
from tests.te.test_extern_threads import GIVEN, OVERWRITING, through_threads


def check(schedule, arrays, wanted):
    """Run five times: what lacks a barrier differs at some time."""
    module = build(*schedule, "cuda")
    for _ in range(5):
        found = np.full(wanted.shape, 7, wanted.dtype)
        module(*arrays, found)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
def test_a_product_by_fragments_is_that_of_numpy(shape):
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (256, 512)).astype("float16")
    b = rng.integers(-4, 5, (512, 512)).astype("float16")
    wanted = a.astype("float32") @ b.T.astype("float32")
    check(wmma_product(256, 512, 512, shape), (a, b), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dp4a_is_that_of_numpy(dtype):
    schedule, args, total = dp4a_product(dtype, 300, 128, 512)
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    a = rng.integers(limits.min, limits.max + 1, (300, 512)).astype(dtype)
    b = rng.integers(limits.min, limits.max + 1, (128, 512)).astype(dtype)
    check((schedule, args), (a, b), a.astype(total) @ b.T.astype(total))


@pytest.mark.parametrize("number", range(len(OVERWRITING)))
def test_what_other_threads_wrote_is_overwritten_after_a_barrier(number):
    statements, wanted = OVERWRITING[number]
    check(through_threads(statements), (GIVEN,), wanted.astype("int32"))
