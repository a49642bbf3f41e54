"""NCHW convolutions of 16-bit floats by TMA on a Hopper device: exact on integers."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nchw_tma import OF_IMAGES, OF_WINDOWS
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.products.gemm_wgmma import has_wgmma

import autotune
from autotune.target import Target

pytestmark = pytest.mark.gpu

SAME, POINT = Window((3, 3), padding=(1, 1, 1, 1)), Window((1, 1))
SHAPES = {
    "odd-planes": Conv2dNhwc(9, 7, 7, 200, 136, POINT, "float16"),
    "halves-of-vectors": Conv2dNhwc(3, 14, 14, 264, 72, POINT, "bfloat16"),
    "odd-channels": Conv2dNhwc(2, 13, 14, 75, 51, POINT, "float16"),
    "windows": Conv2dNhwc(2, 13, 19, 132, 70, SAME, "bfloat16"),
    "stride": Conv2dNhwc(3, 29, 31, 80, 64, Window((3, 5), (2, 2), (1, 2, 0, 1)), "float16"),
    "dilation": Conv2dNhwc(
        1, 16, 16, 64, 128, Window((3, 3), (1, 1), (2,) * 4, (2, 2)), "float16"
    ),
}
DRAWN = 6


@pytest.fixture(scope="module", autouse=True)
def hopper(device_needed):
    if not has_wgmma(Target("cuda")):
        pytest.skip("no wgmma")


def choices(family, shape):
    """Draw choices that the shape has, the default first."""
    target, options = Target("cuda"), family.candidates(shape)
    rng, found = np.random.default_rng(0), [family.default_choice(shape, target)]
    every = list(product(*options.values()))
    for i in rng.permutation(len(every)):
        choice = dict(zip(options, every[i], strict=True))
        if family.violation(shape, choice, target) is None:
            found.append(choice)
        if len(found) > DRAWN:
            return found
    return found


@pytest.mark.parametrize("family", [OF_IMAGES, OF_WINDOWS], ids=["images", "windows"])
@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_exact(name, family):
    """Compare with integers, whose sums are exact, three times: a race would move."""
    shape, rng = SHAPES[name], np.random.default_rng(1)
    if not family.offered(shape, Target("cuda")):
        pytest.skip("not of windows")
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    drawn = choices(family, shape)
    kernels = [family.kernel(shape, choice) for choice in drawn]
    *inputs, out = kernels[0].args
    arrays = [rng.integers(-1, 2, each.shape).astype(dtype) for each in inputs]
    wanted = kernels[0].reference(*(x.astype(np.float64) for x in arrays)).astype(dtype)
    with ThreadPoolExecutor(4) as pool:
        every = pool.map(lambda made: autotune.build(made, target="cuda"), kernels)
        for choice, function in zip(drawn, every, strict=True):
            for _ in range(3):
                result = np.full(out.shape, np.nan, dtype)
                function(*arrays, result)
                np.testing.assert_array_equal(result, wanted, err_msg=str(choice))
