"""Layers of 8-bit integers on a device: results of any configuration are those of exact sums."""

import autotune.templates  # registers the tasks
import numpy as np
import pytest

import autotune
from autotune.runtime import cuda
from autotune.task import create
from autotune.tvm import nd

pytestmark = pytest.mark.gpu

RESIDUAL = (-300.0, 300.0, "int8", -128, 0.4, 1.7, -128.0, 100.0)
# Extents and strides, padding, dilation and groups; then types and zero points.
LAYERS = {
    "image": (2, 37, 41, 64, 3, 7, 7, 2, 3, 1, 1, "uint8", 114, "uint8", 0),
    "whole": (3, 14, 14, 128, 64, 3, 3, 1, 1, 1, 1, "int8", -128, "int8", 127),
    "few pixels": (1, 7, 7, 512, 512, 3, 3, 1, 1, 1, 1, "int8", 127, "int8", -128, *RESIDUAL),
    "pointwise": (2, 28, 28, 256, 128, 1, 1, 1, 0, 1, 1, "uint8", 255, "uint8", 255),
    "odd channels": (1, 9, 12, 37, 45, 3, 2, (2, 1), (1, 0, 2, 3), (1, 2), 1, "uint8", 0, "int8"),
    "words": (2, 37, 41, 64, 4, 7, 7, 2, 3, 1, 1, "uint8", 114, "uint8", 0),
    "words, few": (3, 24, 20, 32, 4, 3, 3, 2, 1, 1, 1, "int8", 9, "int8", 0),
    "taps of half a box": (3, 14, 15, 96, 64, 3, 3, 1, 1, 1, 1, "uint8", 0, "uint8", 0),
    "few pixels by TMA": (
        1,
        7,
        7,
        512,
        512,
        3,
        3,
        1,
        1,
        1,
        1,
        "uint8",
        0,
        "int8",
        -128,
        *RESIDUAL,
    ),
    "strided": (2, 29, 28, 512, 256, 1, 1, 2, 0, 1, 1, "uint8", 9, "uint8", 3),
    "groups": (1, 19, 17, 48, 24, 3, 3, 1, 2, 2, 3, "int8", 5),
    "depthwise": (2, 28, 30, 96, 96, 3, 3, 2, 1, 1, 96, "uint8", 130, "uint8", 7),
    "depthwise, odd": (1, 11, 13, 33, 33, 5, 5, 1, 2, 1, 33, "int8", -128, "int8", -1),
}
PRODUCTS = {
    "one row": (1, 1000, 2048, "uint8", 3, "uint8", 90),
    "few rows": (3, 999, 1280, "uint8", 3, "uint8", 90),
    "rows": (333, 517, 385, "int8", -7),
}
DRAWN = 6


@pytest.mark.parametrize("name", [*LAYERS, *PRODUCTS])
def test_layers_of_integers_are_those_of_exact_sums_on_the_device(name):
    template = "conv2d_int8.cuda" if name in LAYERS else "gemm_int8.cuda"
    task = create(template, {**LAYERS, **PRODUCTS}[name], "cuda")
    space, rng = task.config_space, np.random.default_rng(0)
    sample = [space.get(i) for i in space.sample(min(2000, len(space)), rng)]
    by_wgmma = [each for each in sample if "wgmma" in each and each["wgmma"].val][:DRAWN]
    for config in [task.default(), *sample[:DRAWN], *by_wgmma]:
        source = task.instantiate(config)
        function, out = autotune.build(source, target="cuda"), source.args[-1]
        arrays = drawn(source, rng)
        wanted = source.reference(*arrays)
        for _ in range(3):
            result = nd.array(np.zeros(out.shape, out.dtype), cuda(0))
            function(*[nd.array(each, cuda(0)) for each in arrays], result)
            if out.dtype == "float32":
                np.testing.assert_allclose(result.numpy(), wanted, atol=1e-2, err_msg=str(config))
            else:
                np.testing.assert_array_equal(result.numpy(), wanted, err_msg=str(config))


def drawn(source, rng):
    """Return arguments whose results fill the range of bytes."""
    data, weight, _, scale, shift, *residual = source.args[:-1]
    x, w, *others = (
        rng.integers(np.iinfo(each.dtype).min, np.iinfo(each.dtype).max + 1, each.shape).astype(
            each.dtype
        )
        for each in (data, weight, *residual)
    )
    rows = w.reshape(len(w), -1)
    size = 60 / (74 * 74 * rows.shape[1] ** 0.5)
    return (
        x, w, rows.sum(1, dtype="int32"),
        rng.uniform(size, 2 * size, scale.shape).astype("float32"),
        rng.normal(0, 10, shift.shape).astype("float32"), *others,
    )  # fmt: skip
