"""Windows by the copy engine on a Hopper device: drawn configurations are right."""

import ml_dtypes
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_halo, conv2d_padded
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_half,
    gemm_mma,
    gemm_tma,
    gemm_transposed,
)
from autotune.templates.products.gemm_shape import stored

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

FULL = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
BIAS = Epilogue(bias=True, activation="silu")
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
SHAPES = {
    "same": Conv2dNhwc(2, 64, 64, 320, 320, SAME, "float16", BIAS),
    "strides": Conv2dNhwc(
        3, 31, 27, 136, 64, Window((3, 3), (2, 3), (0, 1, 2, 1)), "bfloat16", FULL
    ),
    "dilated": Conv2dNhwc(
        2, 33, 30, 104, 128, Window((3, 2), (1, 1), (4, 3, 4, 2), (4, 6)), "float16"
    ),
    "small-images": Conv2dNhwc(9, 8, 8, 320, 640, SAME, "float16", FULL),
    "tf32": Conv2dNhwc(8, 28, 28, 128, 128, SAME, "tf32", BIAS),
    "tf32-strides": Conv2dNhwc(
        3, 31, 27, 137, 96, Window((3, 3), (2, 3), (0, 1, 2, 1)), "tf32", FULL
    ),
    "tf32-channels": Conv2dNhwc(
        3, 31, 27, 136, 44, Window((3, 3), (2, 3), (0, 1, 2, 1)), "tf32", FULL
    ),
    "channels": Conv2dNhwc(8, 35, 35, 96, 48, SAME, "float16", BIAS),
    "many-channels": Conv2dNhwc(
        2, 40, 37, 200, 352, Window((3, 3), (1, 2), (2, 1, 0, 3), (2, 1)), "bfloat16", FULL
    ),
    "patches": Conv2dNhwc(2, 56, 56, 192, 128, Window((2, 2), (2, 2)), "float16", BIAS),
}
# Layers whose channels do not fill 16 bytes.
COPIED = {
    "odd": Conv2dNhwc(2, 33, 31, 131, 67, SAME, "float16", BIAS),
    "odd-filters": Conv2dNhwc(1, 40, 40, 255, 256, SAME, "float16"),
    "even": Conv2dNhwc(
        2, 31, 27, 386, 190, Window((1, 7), padding=(0, 6, 0, 6), dilation=(1, 2)), "bfloat16",
        FULL,
    ),
    "floats": Conv2dNhwc(2, 33, 31, 131, 67, SAME, "tf32", BIAS),
}  # fmt: skip
DRAWN = 6
BOUNDS = {"bfloat16": 2e-2, "float16": 4e-3, "tf32": 2e-3}


def choices(shape):
    """Return the untuned choice and some that are drawn."""
    rng, target = np.random.default_rng(0), Target("cuda")
    shape = gemm_transposed.k_major(shape) if gemm_tma.refusal(shape) else shape
    options = gemm_tma.candidates(shape)
    found = [gemm_tma.default_choice(shape, target)]
    while len(found) <= DRAWN:
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if gemm_tma.violation(shape, choice, target) is None and choice not in found:
            found.append(choice)
    return found


def run(source, inputs, dtype):
    function = autotune.build(source, target="cuda")
    out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, dtype), cuda(0))
    for _ in range(3):
        function(*(nd.array(x, cuda(0)) for x in inputs), out)
    return out.numpy().astype(np.float64)


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_of_windows_are_right(name):
    shape, rng = SHAPES[name], np.random.default_rng(1)
    dtype = np.dtype(getattr(ml_dtypes, stored(shape.dtype), stored(shape.dtype)))
    family = gemm_transposed if gemm_tma.refusal(shape) else gemm_tma
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    for choice in choices(shape):
        error = np.abs(run(family.kernel(shape, choice), inputs, dtype) - wanted).max()
        assert error <= BOUNDS[shape.dtype] * np.abs(wanted).max(), choice


def choices_on_copies(family, shape):
    """Return the untuned choice and some by each instruction that are drawn."""
    rng, options, target = np.random.default_rng(0), family.candidates(shape), Target("cuda")
    found = {min(knob, 2): [] for knob in options[gemm_half.KNOB]}
    while any(len(each) < DRAWN // 2 for each in found.values()):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        kind = found[min(choice[gemm_half.KNOB], 2)]
        if len(kind) < DRAWN // 2 and family.violation(shape, choice, target) is None:
            kind.append(choice)
    drawn = [choice for each in found.values() for choice in each]
    return [family.default_choice(shape, target), *drawn]


@pytest.mark.parametrize("name", COPIED)
def test_drawn_configurations_on_padded_copies_are_right(name):
    shape, rng, family = COPIED[name], np.random.default_rng(1), conv2d_padded.Padded(gemm_half)
    dtype = np.dtype(getattr(ml_dtypes, stored(shape.dtype), stored(shape.dtype)))
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    for choice in choices_on_copies(family, shape):
        error = np.abs(run(family.kernel(shape, choice), inputs, dtype) - wanted).max()
        assert error <= BOUNDS[shape.dtype] * np.abs(wanted).max(), choice


@pytest.mark.parametrize(
    "shape",
    [
        Conv2dNhwc(2, 40, 37, 96, 200, SAME, "float16", BIAS),
        Conv2dNhwc(3, 17, 19, 136, 72, Window((3, 5), (1, 1), (1, 2, 3, 1), (2, 1)), "bfloat16"),
        Conv2dNhwc(2, 1, 77, 64, 128, Window((1, 7), padding=(0, 3, 0, 3)), "float16", FULL),
    ],
    ids=["same", "uneven", "lines"],
)
def test_drawn_configurations_with_halos_are_right(shape):
    rng, target, options = np.random.default_rng(0), Target("cuda"), conv2d_halo.candidates(shape)
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    found = [conv2d_halo.default_choice(shape, target)]
    while len(found) <= DRAWN:
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if conv2d_halo.violation(shape, choice, target) is None and choice not in found:
            found.append(choice)
    for choice in found:
        error = np.abs(run(conv2d_halo.kernel(shape, choice), inputs, dtype) - wanted).max()
        assert error <= BOUNDS[shape.dtype] * np.abs(wanted).max(), choice


def test_groups_of_odd_numbers_of_channels_are_right():
    shape = Conv2dNhwc(2, 20, 18, 3 * 5, 3 * 7, SAME, "float16", FULL, groups=3)
    rng, family = np.random.default_rng(1), conv2d_padded.Padded(gemm_mma)
    inputs = [rng.standard_normal(a.shape).astype("float16") for a in shape.arguments()[:-1]]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    choice = family.default_choice(shape, Target("cuda"))
    error = np.abs(run(family.kernel(shape, choice), inputs, "float16") - wanted).max()
    assert error <= BOUNDS["float16"] * np.abs(wanted).max()
