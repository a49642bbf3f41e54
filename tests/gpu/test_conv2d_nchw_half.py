"""NCHW convolutions of 16-bit floats on a Hopper device: exact on integers, clusters too."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_nchw_half
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window

import autotune
from autotune.target import Target

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

SAME = Window((3, 3), padding=(1, 1, 1, 1))
SHAPES = {
    "clusters": Conv2dNhwc(1, 14, 14, 128, 256, SAME, "float16"),
    "edges": Conv2dNhwc(2, 13, 19, 70, 132, SAME, "bfloat16"),
    "stride": Conv2dNhwc(1, 29, 31, 65, 80, Window((3, 5), (2, 2), (1, 2, 0, 1)), "float16"),
    "odd-channels": Conv2dNhwc(2, 7, 9, 72, 51, Window((2, 1)), "bfloat16"),
    "many-taps": Conv2dNhwc(1, 15, 14, 40, 48, Window((5, 6), (1, 1), (2, 3, 2, 2)), "float16"),
    "pointwise": Conv2dNhwc(32, 7, 7, 512, 2048, Window((1, 1)), "float16"),
    "groups": Conv2dNhwc(
        2, 12, 12, 192, 128, Window((3, 3), (1, 1), (2,) * 4, (2, 2)), "float16", groups=2
    ),
}
SPLITS = (1, 2, 4, 8)
# Choices whose sums, which blocks of a cluster exchange, take more memory than filters and input.
LONG = {"rows": 7, "across": 1, "groups": 2, "channels": 32, "filter_stages": 2}
MORE = {"pointwise": [LONG | {"split": split} for split in SPLITS[1:]]}


def choices(shape):
    """Draw a choice of each number of ranges of channels that the shape has, the default first."""
    target, options = Target("cuda"), conv2d_nchw_half.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    valid = [choice for choice in every if not conv2d_nchw_half.violation(shape, choice, target)]
    rng, found = np.random.default_rng(0), [conv2d_nchw_half.default_choice(shape, target)]
    for split in SPLITS:
        of_split = [choice for choice in valid if choice["split"] == split]
        found += [of_split[i] for i in rng.permutation(len(of_split))[:1]]
    return found


def built(made):
    return autotune.build(made, target="cuda")


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_exact_with_and_without_clusters(name):
    """Compare with integers, whose sums are exact, three times: a race would move."""
    shape, rng = SHAPES[name], np.random.default_rng(1)
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    drawn = choices(shape) + MORE.get(name, [])
    kernels = [conv2d_nchw_half.kernel(shape, choice) for choice in drawn]
    *inputs, out = kernels[0].args
    arrays = [rng.integers(-1, 2, each.shape).astype(dtype) for each in inputs]
    wanted = kernels[0].reference(*(x.astype(np.float64) for x in arrays)).astype(dtype)
    assert max(choice["split"] for choice in drawn) > 1
    with ThreadPoolExecutor(4) as pool:
        for choice, function in zip(drawn, pool.map(built, kernels), strict=True):
            for _ in range(3):
                result = np.full(out.shape, np.nan, dtype)
                function(*arrays, result)
                np.testing.assert_array_equal(result, wanted, err_msg=str(choice))
