"""Windows written as a matrix, as products, on a Hopper device: as exact as floats are."""

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_im2col
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.products.gemm_wgmma import has_wgmma

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = pytest.mark.gpu

SHAPES = {
    "16": Conv2d(2, 224, 224, 768, 3, 16, 16, (16, 16), (0, 0), True, False),
    "14": Conv2d(1, 336, 336, 1024, 3, 14, 14, (14, 14), (0, 0), False, True),
    "gaps": Conv2d(3, 61, 63, 200, 24, 3, 3, (4, 3), (0, 0), True, False, activation="gelu"),
    "line": Conv2d(1, 1, 3000, 512, 512, 1, 3, (1, 2), (0, 1), True, False, activation="gelu"),
    "points": Conv2d(3, 27, 29, 240, 97, 1, 1, (1, 1), (0, 0), False, True),
    "every second point": Conv2d(
        2, 51, 50, 200, 116, 1, 1, (2, 2), (0, 0), True, False, residual=True
    ),
    "dilated": Conv2d(
        1, 60, 61, 136, 65, 3, 3, (1, 1), (12, 12), True, False, residual=True, dilation=(12, 12)
    ),
    "uneven": Conv2d(2, 19, 31, 136, 40, 3, 4, (2, 2), (0, 2, 3, 4), False, True, dilation=(2, 1)),
}
DRAWN = 4


def choices(shape):
    """Draw some choices, the default one first."""
    rng, target = np.random.default_rng(0), Target("cuda")
    options = conv2d_im2col.candidates(shape)
    found = [conv2d_im2col.default_choice(shape, target)]
    while len(found) < DRAWN:
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if conv2d_im2col.violation(shape, choice, target) is None and choice not in found:
            found.append(choice)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_configurations_are_right(name, device_needed):
    shape, rng = SHAPES[name], np.random.default_rng(1)
    if not has_wgmma(Target("cuda")):
        pytest.skip("no wgmma")
    inputs = [rng.standard_normal(a.shape, np.float32) for a in shape.arguments()[:-1]]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    for choice in choices(shape):
        function = autotune.build(conv2d_im2col.kernel(shape, choice), target="cuda")
        out = nd.array(np.full(wanted.shape, np.nan, np.float32), cuda(0))
        for _ in range(3):
            function(*(nd.array(x, cuda(0)) for x in inputs), out)
        error = np.abs(out.numpy() - wanted).max()
        assert error <= 2e-6 * np.abs(wanted).max(), choice
