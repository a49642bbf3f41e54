"""Defaults of templates: what rules say of many choices at once is what they say of each."""

from functools import partial
from itertools import product

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
}
WINDOWS = {
    "depthwise": (Depthwise(2, 9, 9, 12, WINDOW, "NHWC"), HOPPER),
    "pool": (Pool(1, 12, 12, 4, WINDOW, "NCHW", "max"), AMPERE),
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


@pytest.mark.parametrize("name", WINDOWS)
def test_asked_about_all_choices_at_once_the_default_of_windows_is_the_best_of_each(name):
    shape, target = WINDOWS[name]
    options = window_cuda.candidates(shape)
    every = [dict(zip(options, values, strict=True)) for values in product(*options.values())]
    good = [c for c in every if window_cuda.violation(shape, c, target) is None]
    best = min(good, key=partial(window_cuda.estimate, shape, target=target))
    assert window_cuda.default_choice(shape, target) == best
