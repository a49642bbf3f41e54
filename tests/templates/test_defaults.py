"""Defaults of templates: what rules say of many choices at once is what they say of each."""

from functools import partial

import pytest
from autotune.templates import common
from autotune.templates.convolutions import window_cuda
from autotune.templates.convolutions.window_shape import Depthwise, Pool, Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_mma, gemm_wgmma
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Target

HOPPER = Target("cuda -arch=sm_90")
AMPERE = Target("cuda -arch=sm_80")
WINDOW = Window((3, 3), (2, 2), (1, 1, 1, 1))
GELU = Epilogue(True, activation="gelu")
CASES = {
    "wgmma": (gemm_wgmma, Gemm(197, 3072, 768, "float16", 1, False, True, "", GELU), HOPPER),
    "wgmma, tf32": (gemm_wgmma, Gemm(77, 1000, 516, "tf32", 3, False, True), HOPPER),
    "no wgmma": (gemm_wgmma, Gemm(512, 512, 512, "float16"), AMPERE),
    "mma": (gemm_mma, Gemm(63, 130, 1025, "tf32"), AMPERE),
    "mma, int8": (gemm_mma, Gemm(1024, 1024, 1024, "int8", 1, False, True), HOPPER),
    "depthwise": (window_cuda, Depthwise(2, 57, 57, 144, WINDOW, "NHWC"), HOPPER),
    "pool": (window_cuda, Pool(1, 112, 112, 64, WINDOW, "NCHW", "max"), AMPERE),
}


@pytest.mark.parametrize("name", CASES)
def test_asked_about_all_draws_at_once_rules_leave_the_same_default(name):
    family, shape, target = CASES[name]
    one_by_one = common.best_drawn(
        family.candidates(shape),
        5000,
        partial(family.violation, shape, target=target),
        partial(family.estimate, shape, target=target),
    )
    assert family.default_choice(shape, target) == one_by_one
