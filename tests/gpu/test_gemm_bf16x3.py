"""Products of float32 by those of bfloat16 on a Hopper device: as exact as by fma, any floats."""

import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_bf16x3, gemm_bf16x3_fused
from autotune.templates.products.gemm_shape import Gemm

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

FULL = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
SHAPES = {
    "whole": Gemm(256, 256, 256),
    "odd": Gemm(301, 257, 333),
    "tn": Gemm(131, 257, 77, transpose_a=True, epilogue=FULL),
    "nt": Gemm(65, 200, 130, transpose_b=True),
    "tt": Gemm(131, 300, 517, "float32", 3, True, True, "b", FULL),
    "long": Gemm(300, 301, 4000, epilogue=FULL),
}
DRAWN = 8
FAMILIES = pytest.mark.parametrize(
    "family", [gemm_bf16x3, gemm_bf16x3_fused], ids=["packed", "fused"]
)


def choices(family, shape):
    """Draw some choices, the default one first."""
    rng, options, target = np.random.default_rng(0), family.candidates(shape), Target("cuda")
    found = [family.default_choice(shape, target)]
    while len(found) < DRAWN:
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if family.violation(shape, choice, target) is None and choice not in found:
            found.append(choice)
    return found


def run(family, shape, choice, inputs):
    function = autotune.build(family.kernel(shape, choice), target="cuda")
    out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, np.float32), cuda(0))
    function(*(nd.array(x, cuda(0)) for x in inputs), out)
    return out.numpy()


def normal(shape, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(a.shape, np.float32) for a in shape.arguments()[:-1]]


@FAMILIES
@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_right(name, family):
    shape, inputs = SHAPES[name], normal(SHAPES[name])
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    for choice in choices(family, shape):
        error = np.abs(run(family, shape, choice, inputs) - wanted).max() / np.abs(wanted).max()
        assert error < 2e-6, f"{choice}"


@FAMILIES
@pytest.mark.parametrize("name", ["odd", "tt", "long"])
def test_infinities_nans_and_tiny_floats_give_what_they_give_in_float32(name, family):
    shape = SHAPES[name]
    inputs = normal(shape)
    for x, value in zip(inputs, (np.inf, np.nan), strict=False):
        x.flat[5], x.flat[x.size // 2], x.flat[-1] = value, 1e-41, -1e18
    with np.errstate(all="ignore"):
        wanted = shape.reference()(*(x.astype(np.float64) for x in inputs)).astype(np.float32)
    for choice in choices(family, shape):
        np.testing.assert_allclose(
            run(family, shape, choice, inputs), wanted, 1e-4, 1e-4, err_msg=str(choice)
        )


def uniform(rng, extents):
    return rng.random(extents, np.float32)


def scattered(rng, extents):
    floats = rng.standard_normal(extents, np.float32)
    return floats * np.exp2(rng.integers(-20, 20, extents)).astype(np.float32)


@FAMILIES
@pytest.mark.parametrize("draw", [uniform, scattered])
def test_errors_are_no_larger_than_those_of_fma(draw, family):
    shape, rng = Gemm(256, 256, 4096), np.random.default_rng(0)
    a, b = draw(rng, (256, 4096)), draw(rng, (4096, 256))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    chain = np.zeros((256, 256), np.float32)
    for left, right in zip(a.T.astype(np.float64), b.astype(np.float64), strict=True):
        chain = (chain + left[:, None] * right).astype(np.float32)
    most = np.abs((chain - exact) / bound).max()
    for choice in choices(family, shape):
        error = np.abs((run(family, shape, choice, [a, b]) - exact) / bound).max()
        assert error <= most, f"{choice}"
