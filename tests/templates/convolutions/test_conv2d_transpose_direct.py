"""Transposed convolutions in one kernel, by ``fmaf``."""

from functools import cache, partial

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates import choices
from autotune.templates.convolutions import (
    conv2d_cuda,
    conv2d_product,
    conv2d_transpose_direct,
)
from autotune.templates.convolutions.conv2d_transpose import Conv2dTranspose, Phases

from autotune.emulator import run_emulated
from autotune.graph import ops
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, create
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")


def layer(data, weight, strides=(1,), padding=(0,), more=(0,)):
    return Conv2dTranspose(ops.Conv2dTranspose(strides, padding, more), data, weight)


LAYERS = {
    "uneven": layer((1, 2, 34, 13), (2, 6, 2, 2), (2, 1), (0, 1, 1, 0)),
    "a pixel": layer((1, 10, 1, 1), (10, 12, 4, 4)),
    "few filters": layer((1, 6, 12, 12), (6, 3, 4, 4), (2,), (1,)),
    "output padding": layer((2, 5, 7, 6), (5, 7, 3, 5), (2, 3), (1, 2, 0, 1), (1,)),
    "16x16 of 8": layer((1, 3, 4, 4), (3, 3, 16, 16), (8,), (4,)),
    "fewer taps than phases": layer((1, 3, 6, 5), (3, 4, 2, 2), (3,), (0,), (2,)),
}


@cache
def valid(shape):
    """Return all choices that can run."""
    options = conv2d_transpose_direct.candidates(shape)
    rules = partial(conv2d_transpose_direct._rules, shape=shape, target=HOPPER)
    good = choices.all_valid(options, rules)
    rows = zip(*(values.tolist() for values in good.values()), strict=True)
    return [dict(zip(options, row, strict=True)) for row in rows]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_right(name):
    shape = LAYERS[name]
    every = valid(shape)
    default = conv2d_transpose_direct.default_choice(shape, HOPPER)
    assert default in every
    for choice in (default, *every[:: len(every) // 3 + 1]):
        source = conv2d_transpose_direct.kernel(shape, choice)
        kernel, arrays = source.kernel("cuda"), arrays_of(source)
        assert launch_violation(kernel, HOPPER.limits) is None
        run_emulated(kernel, arrays, orders=(0,))
        wanted = source.reference(*(each.astype(np.float64) for each in arrays[:-1]))
        np.testing.assert_allclose(arrays[-1], wanted, 1e-5, 1e-5, err_msg=str(choice))


@pytest.mark.many_cases
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "a pixel"])
@pytest.mark.parametrize("slices", [1, 2])
def test_a_thread_may_have_the_columns_of_all_phases(name, slices):
    shape = LAYERS[name]
    every = [c for c in valid(shape) if c["columns"] > 1 and c["slices"] == slices]
    for choice in (every[0], every[len(every) // 2]) if every else ():
        source = conv2d_transpose_direct.kernel(shape, choice)
        arrays = arrays_of(source)
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
        wanted = source.reference(*(each.astype(np.float64) for each in arrays[:-1]))
        np.testing.assert_allclose(arrays[-1], wanted, 1e-5, 1e-5, err_msg=str(choice))


FEW = (1, 64, 128, 128), (64, 3, 4, 4), (2,), (1,)
MANY = (1, 128, 56, 56), (128, 64, 3, 3), (2,), (1,), (1,)


def entries(source):
    return [call.entry for call in source.calls]


def test_few_filters_take_one_kernel_and_many_a_convolution_between_copies():
    few, many = (create("conv2d_transpose.cuda", args, HOPPER) for args in (FEW, MANY))
    assert entries(few.instantiate(few.default())) == ["conv2d_transpose"]
    assert entries(many.instantiate(many.default()))[0] == "arrange_weight"


def test_a_configuration_of_one_kernel_builds_it_whatever_is_estimated():
    few, many = (create("conv2d_transpose.cuda", args, HOPPER) for args in (FEW, MANY))
    assert entries(many.instantiate(few.default())) == ["conv2d_transpose"]


def test_a_configuration_from_before_columns_were_joined_builds_its_kernel():
    task = create("conv2d_transpose.cuda", FEW, HOPPER)
    names = ("filters", "pixels", "lanes", "slices", "unroll")
    old = {name: OtherOptionEntity(v) for name, v in zip(names, (3, 4, 32, 2, 2), strict=True)}
    kernel = task.instantiate(ConfigEntity(0, None, old))
    assert (kernel.defines["COLUMNS"], entries(kernel)) == (1, ["conv2d_transpose"])


def test_phases_run_by_whatever_family_is_fastest_for_their_convolution():
    task = create("conv2d_transpose.cuda", ((1, 200, 128, 128), (200, 6, 2, 2), (3,)), HOPPER)
    assert "gemm_bf16x3_fused" in entries(task.instantiate(task.default()))


def test_phases_of_short_sums_are_not_taken_for_the_one_kernel_that_has_a_knob_of_that_name():
    task = create("conv2d_transpose.cuda", ((21973, 3, 10, 103), (3, 10, 2, 2)), HOPPER)
    assert entries(task.instantiate(task.default())) == ["arrange_weight", "conv2d_small_k"]


@pytest.mark.parametrize("stride", [1, 2])
def test_phases_are_right_by_products_whose_windows_are_gathered(stride, tmp_path):
    shape = layer((1, 5, 6, 5), (5, 3, 3, 3), (stride,), (1,))
    knobs = {"groups": 1, "tile_n": 16, "stages": 2, "ahead": 1, "split": 1, "swapped": 1}
    source = Phases(conv2d_product, (0,)).kernel(shape, {"apart": 0, **knobs})
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_a_configuration_of_phases_still_builds_its_kernels():
    shape = Conv2dTranspose(ops.Conv2dTranspose(*FEW[2:]), *FEW[:2])
    knobs = Phases(conv2d_cuda, (0, 1)).default_choice(shape, HOPPER)
    old = ConfigEntity(0, None, {name: OtherOptionEntity(v) for name, v in knobs.items()})
    task = create("conv2d_transpose.cuda", FEW, HOPPER)
    assert "arrange_weight" in entries(task.instantiate(old))
