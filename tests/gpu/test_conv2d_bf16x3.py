"""Convolutions of float32 by products of bfloat16 on a Hopper device: as exact as by fma."""

from itertools import product

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_bf16x3
from autotune.templates.convolutions.conv2d_shape import Conv2d

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

SHAPES = {
    "clusters": Conv2d(1, 14, 14, 256, 256, 3, 3, (1, 1), (1, 1), False, False),
    "edges": Conv2d(2, 13, 19, 100, 36, 3, 3, (1, 1), (1, 1), True, True, True, True),
    "stride": Conv2d(1, 29, 31, 70, 48, 3, 3, (2, 2), (1, 1), True, False),
    "one-tap": Conv2d(1, 15, 17, 64, 256, 1, 1, (2, 2), (0, 0), False, False),
    "few-channels": Conv2d(1, 61, 67, 64, 3, 7, 7, (2, 2), (3, 3), False, False),
    "many-taps": Conv2d(1, 14, 15, 40, 43, 7, 7, (1, 1), (3, 3), True, False),
    "groups": Conv2d(
        2, 12, 12, 128, 64, 3, 3, (1, 1), (2, 2), True, False, dilation=(2, 2), groups=2
    ),
}
DRAWN = 4


def choices(shape):
    """Draw some choices, the default one first."""
    target, options = Target("cuda"), conv2d_bf16x3.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    valid = [choice for choice in every if not conv2d_bf16x3.violation(shape, choice, target)]
    drawn = np.random.default_rng(0).permutation(len(valid))[: DRAWN - 1]
    return [conv2d_bf16x3.default_choice(shape, target), *(valid[i] for i in drawn)]


def run(shape, choice, inputs):
    function = autotune.build(conv2d_bf16x3.kernel(shape, choice), target="cuda")
    out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, np.float32), cuda(0))
    function(*(nd.array(x, cuda(0)) for x in inputs), out)
    return out.numpy()


def normal(shape, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(a.shape, np.float32) for a in shape.arguments()[:-1]]


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_right(name):
    shape, inputs = SHAPES[name], normal(SHAPES[name])
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    for choice in choices(shape):
        error = np.abs(run(shape, choice, inputs) - wanted).max() / np.abs(wanted).max()
        assert error < 2e-6, f"{choice}"


@pytest.mark.parametrize("name", ["clusters", "stride", "few-channels"])
def test_infinities_nans_and_tiny_floats_give_what_they_give_in_float32(name):
    shape = SHAPES[name]
    inputs = normal(shape)
    for x, value in zip(inputs, (np.inf, np.nan), strict=False):
        x.flat[5], x.flat[x.size // 2], x.flat[-1] = value, 1e-41, -1e18
    with np.errstate(all="ignore"):
        wanted = shape.reference()(*(x.astype(np.float64) for x in inputs)).astype(np.float32)
    for choice in choices(shape):
        np.testing.assert_allclose(
            run(shape, choice, inputs), wanted, 1e-4, 1e-4, err_msg=str(choice)
        )


def uniform(rng, extents):
    return rng.random(extents, np.float32)


def scattered(rng, extents):
    floats = rng.standard_normal(extents, np.float32)
    return floats * np.exp2(rng.integers(-20, 20, extents)).astype(np.float32)


@pytest.mark.parametrize("draw", [uniform, scattered])
def test_errors_are_no_larger_than_those_of_fma(draw):
    shape, rng = SHAPES["clusters"], np.random.default_rng(0)
    inputs = [draw(rng, a.shape) for a in shape.arguments()[:-1]]
    exact, bound = (
        shape.reference()(*(x.astype(np.float64) for x in each))
        for each in (inputs, [np.abs(x) for x in inputs])
    )
    most = np.abs((chain(shape, *inputs) - exact) / bound).max()
    for choice in choices(shape):
        assert np.abs((run(shape, choice, inputs) - exact) / bound).max() <= most, f"{choice}"


def chain(shape, data, weight):
    """Return the sums of one chain of fmaf each, of a layer of stride 1."""
    (py, px), size = shape.padding, (shape.oh, shape.ow)
    padded = np.pad(data[0].astype(np.float64), ((0, 0), (py, py), (px, px)))
    total = np.zeros((shape.co, *size), np.float32)
    for c, ky, kx in np.ndindex(*weight.shape[1:]):
        window = padded[c, ky : ky + size[0], kx : kx + size[1]]
        total = (total + weight[:, c, ky, kx, None, None].astype(np.float64) * window).astype(
            np.float32
        )
    return total
