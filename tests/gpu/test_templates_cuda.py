"""The templates of the library on a device: right on real layers, tuned or not."""

import autotune.templates
import ml_dtypes
import numpy as np
import pytest

import autotune
from autotune.runtime import cuda
from autotune.task import create
from autotune.tvm import nd

pytestmark = pytest.mark.gpu

LAYERS = [
    ("conv2d_nchw.cuda", (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1), True, True)),
    ("conv2d_nchw.cuda", (1, 56, 56, 64, 64, 3, 3, 1, 1)),
    ("conv2d_nchw.cuda", (2, 57, 55, 40, 36, 3, 3, 2, 1, True)),
    ("conv2d_nchw.cuda", (1, 224, 224, 64, 3, 7, 7, 2, 3)),
    ("conv2d_nchw.cuda", (1, 28, 28, 256, 128, 1, 1, 2, 0)),
    ("gemm_nn.cuda", (1024, 1024, 1024)),
    ("gemm_nn.cuda", (1000, 999, 130)),
    ("gemm_nn.cuda", (1, 4096, 4096)),
    ("gemm_nn.cuda", (2049, 1030, 31)),
    ("softmax.cuda", (4096, 4096)),
    ("softmax.cuda", (100, 1001)),
    ("te/conv2d_nchw.cuda", (1, 14, 14, 64, 64, 3, 3, 1, 1)),
    ("te/depthwise_conv2d_nchw.cuda", (1, 28, 28, 32, 1, 3, 3, 1, 1)),
    ("te/gemm.cuda", (256, 256, 256)),
    ("te/softmax.cuda", (64, 1000)),
    ("gemm_nn.cuda", (1024, 1024, 1024, "float32", True)),
]
DRAWN = 6


def configurations(task):
    """Return a few configurations, those with clusters of blocks among them."""
    space, rng = task.config_space, np.random.default_rng(0)
    found = [space.get(i) for i in space.sample(200, rng)]
    with_clusters = [c for c in found if clustered(c)]
    return found[:DRAWN] + with_clusters[:DRAWN]


def clustered(config):
    knobs = dict(str_knobs(config))
    return knobs.get("cluster") == 1 or (knobs.get("wgmma") == 1 and knobs["split"] > 1)


def str_knobs(config):
    return [(row[0], row[2]) for row in config.to_json_dict()["entity"] if row[1] == "ot"]


def wanted(name, args, arrays):
    from autotune.topi import testing

    if "depthwise" in name:
        return testing.depthwise_conv2d_python_nchw(*arrays, *args[7:9])
    if "conv2d" in name:
        out = testing.conv2d_nchw_python(*arrays[:2], *args[7:9])
        out = out + arrays[2].reshape(1, -1, 1, 1) if len(arrays) > 2 else out
        return np.maximum(out, 0) if args[10:] else out
    return testing.softmax_python(*arrays) if "softmax" in name else arrays[0] @ arrays[1]


@pytest.mark.parametrize(("name", "args"), LAYERS)
def test_template_is_right_on_the_device(name, args):
    task, rng = create(name, args, "cuda"), np.random.default_rng(1)
    expected, inputs, checked = None, [], 0
    for config in configurations(task):
        try:
            function = autotune.build(task.instantiate(config), target="cuda")
        except autotune.InstantiationError:
            continue
        *given, out = function.kernel.args
        if expected is None:
            inputs = [rng.standard_normal(a.shape).astype(np.float32) for a in given]
            expected = wanted(name, args, [x.astype(np.float64) for x in inputs])
        result = nd.array(np.full(out.shape, np.nan, np.float32), cuda(0))
        function(*[nd.array(x, cuda(0)) for x in inputs], result)
        error = np.abs(result.numpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-5, f"{config}"
        checked += 1
    assert checked


@pytest.mark.parametrize(("name", "args"), LAYERS[:11])
def test_untuned_template_is_right_on_the_device(name, args):
    task, rng = create(name, args, "cuda"), np.random.default_rng(1)
    with autotune.FallbackContext(), autotune.Target("cuda"):
        function = autotune.build(task.func(*task.args))
    *given, out = function.kernel.args
    inputs = [rng.standard_normal(a.shape).astype(np.float32) for a in given]
    expected = wanted(name, args, [x.astype(np.float64) for x in inputs])
    result = nd.array(np.full(out.shape, np.nan, np.float32), cuda(0))
    function(*[nd.array(x, cuda(0)) for x in inputs], result)
    assert np.abs(result.numpy() - expected).max() / np.abs(expected).max() < 1e-5


@pytest.mark.parametrize(
    "args",
    [
        (512, 512, 512, "float16"),
        (100, 514, 130, "float16"),
        (200, 328, 264, "float16"),
        (16, 1032, 2048, "bfloat16"),
        (1, 8, 8, "bfloat16"),
    ],
)
def test_tensor_core_products_are_right_on_the_device(args):
    task, rng = create("gemm_nn.cuda", args, "cuda"), np.random.default_rng(1)
    dtype = np.dtype(args[3]) if args[3] == "float16" else ml_dtypes.bfloat16
    for config in configurations(task):
        function = autotune.build(task.instantiate(config), target="cuda")
        a, b = (rng.standard_normal(x.shape).astype(dtype) for x in function.kernel.args[:2])
        c = nd.array(np.full(function.kernel.args[2].shape, np.nan, dtype), cuda(0))
        function(nd.array(a, cuda(0)), nd.array(b, cuda(0)), c)
        expected = a.astype(np.float32) @ b.astype(np.float32)
        error = np.abs(c.numpy().astype(np.float32) - expected).max() / np.abs(expected).max()
        assert error < (2e-3 if args[3] == "float16" else 1.2e-2), f"{config}"


RELU = (True, "relu", True, False)
# Arguments, and the largest error relative to the largest result.
REFERENCED = {
    "heads of 40": ("attention.cuda", (2, 4, 300, 200, 40, 2, True), 3e-3),
    "heads of 72": ("attention.cuda", (1, 3, 130, 130, 72, 3, False, 0.0, "bfloat16"), 2e-2),
    "heads of 80": ("attention.cuda", (2, 4, 196, 196, 80, 4, False), 3e-3),
    "heads of 256": ("attention.cuda", (1, 4, 200, 333, 256, 2, True), 3e-3),
    "one query": ("attention.cuda", (3, 28, 1, 1777, 128, 4), 3e-3),
    "few queries": ("attention.cuda", (2, 6, 5, 1000, 64, 3, True, 0.0, "bfloat16", "BSHD"), 2e-2),
    "few keys": ("attention.cuda", (1, 4, 500, 77, 64, 4, False), 3e-3),
    "groups": ("conv2d_nhwc.cuda", (2, 15, 13, 36, 24, 3, 3, 2, 1, *RELU, 1, "float32", 4), 1e-5),
    "groups, float16": (
        "conv2d_nhwc.cuda", (2, 15, 13, 48, 24, 3, 3, 1, 1, *RELU, 2, "float16", 4), 3e-3,
    ),
    "groups of 8, float16": (
        "conv2d_nhwc.cuda", (2, 15, 13, 64, 64, 3, 3, 1, 1, *RELU, 1, "float16", 8), 3e-3,
    ),
    "groups of 16, bfloat16": (
        "conv2d_nhwc.cuda", (2, 15, 14, 96, 96, 3, 5, 2, 2, *RELU, 1, "bfloat16", 6), 2e-2,
    ),
    "groups of 32, float16": (
        "conv2d_nhwc.cuda", (8, 28, 27, 128, 128, 3, 3, 1, 1, *RELU, 1, "float16", 4), 3e-3,
    ),
    "groups of 48, bfloat16": (
        "conv2d_nhwc.cuda", (8, 28, 27, 192, 192, 3, 3, 2, 1, *RELU, 1, "bfloat16", 4), 2e-2,
    ),
    "groups of 64, tf32": (
        "conv2d_nhwc.cuda", (4, 28, 27, 256, 160, 3, 3, 1, 1, *RELU, 1, "tf32", 4), 2e-3,
    ),
    "volume": ("conv3d.cuda", ((2, 16, 6, 15, 13), (40, 16, 3, 3, 3), (1, 2, 1), (1,)), 1e-5),
    "volume, along depth": (
        "conv3d.cuda", ((1, 64, 16, 28, 28), (64, 64, 3, 1, 1), (1,), (1, 0, 0)), 1e-5,
    ),
    "volume, channels last": (
        "conv3d.cuda",
        ((2, 6, 15, 13, 16), (3, 3, 3, 16, 40), (1, 2, 1), (1,), (1,), "NDHWC"),
        1e-5,
    ),
    "transposed": ("conv2d_transpose.cuda", ((2, 70, 9, 7), (70, 36, 4, 4), (2,), (1,)), 1e-5),
    "transposed, uneven": (
        "conv2d_transpose.cuda", ((1, 33, 9, 8), (33, 5, 3, 2), (2, 3), (1, 0), (1, 2)), 1e-5,
    ),
    "groups, tf32": (
        "conv2d_nhwc.cuda", (1, 15, 13, 35, 21, 3, 3, 1, 1, *RELU, 1, "tf32", 7), 2e-3,
    ),
    "transposed, apart": (
        "conv2d_transpose.cuda", ((2, 128, 9, 8), (128, 64, 6, 5), (3, 2), (1, 2)), 1e-5,
    ),
    "turned filters": (
        "conv2d_nhwc.cuda", (2, 15, 13, 130, 132, 3, 3, 1, 1, *RELU, 1, "tf32"), 2e-3,
    ),
    "single pixels": (
        "conv2d_nhwc.cuda", (2, 28, 28, 256, 192, 1, 1, 1, 0, *RELU, 1, "bfloat16"), 2e-2,
    ),
    "single pixels, odd": (
        "conv2d_nhwc.cuda", (2, 28, 27, 255, 191, 1, 1, 1, 0, *RELU, 1, "float16"), 3e-3,
    ),
    "transposed, few filters": (
        "conv2d_transpose.cuda",
        ((2, 33, 19, 8), (33, 21, 5, 4), (2, 3), (1, 0, 2, 1), (1,)),
        1e-5,
    ),
    "depthwise": ("depthwise_conv2d.cuda", (2, 15, 14, 33, 1, 5, 5, 1, 2, *RELU), 1e-5),
    "depthwise, channels last": (
        "depthwise_conv2d.cuda",
        (2, 29, 28, 40, 2, 3, 3, 2, (0, 0, 1, 1), *RELU, 1, "NHWC", "float16"),
        3e-3,
    ),
    "depthwise, dilated": (
        "depthwise_conv2d.cuda",
        (1, 28, 32, 24, 1, 7, 7, 1, 6, False, "silu", False, False, 2, "NCHW", "bfloat16"),
        2e-2,
    ),
    "outputs beside the image": (
        "pool2d.cuda", ("avg", 2, 9, 6, 20, (2, 4), (2, 1), (3, 2, 3, 3)), 1e-5,
    ),
    "depthwise beside the image": (
        "depthwise_conv2d.cuda", (2, 9, 14, 12, 1, 3, 5, 1, (2, 4, 2, 4), *RELU), 1e-5,
    ),
    "largest of windows": (
        "pool2d.cuda", ("max", 2, 15, 17, 40, 3, 2, 1, 1, False, "NHWC", "float16"), 0.0,
    ),
    "depthwise, int8": (
        "depthwise_conv2d.cuda",
        (2, 28, 28, 96, 1, 5, 5, 2, 2, False, "none", False, False, 1, "NHWC", "int8"),
        0.0,
    ),
    "largest of int8": (
        "pool2d.cuda", ("max", 2, 15, 17, 48, 3, 2, 1, 1, False, "NHWC", "int8"), 0.0,
    ),
    "averages of int8": (
        "pool2d.cuda", ("avg", 2, 15, 16, 40, 3, 2, 1, 1, False, "NCHW", "int8"), 0.0,
    ),
    "odd planes": ("transpose.cuda", ((1000, 17, 5), (0, 2, 1)), 0.0),
    "odd planes, large": ("transpose.cuda", ((300, 55, 55), (0, 2, 1), "float16"), 0.0),
    "three channels": ("transpose.cuda", ((4, 3, 150, 151), (0, 2, 3, 1)), 0.0),
    "three channels, last": ("transpose.cuda", ((4, 150, 151, 3), (0, 3, 1, 2), "float16"), 0.0),
    "thin planes": ("transpose.cuda", ((3, 50, 2, 70, 4), (0, 1, 3, 4, 2)), 0.0),
    "few rows by unaligned weights [k, n]": ("gemm.cuda", (5, 1003, 1021, "float16"), 3e-3),
    "few rows by unaligned weights [n, k]": (
        "gemm.cuda", (13, 3001, 2999, "bfloat16", 1, False, True), 2e-2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFERENCED)
def test_a_kernel_matches_its_reference_on_the_device(case):
    name, args, tolerance = REFERENCED[case]
    task, rng = create(name, args, "cuda"), np.random.default_rng(1)
    for config in [task.default(), *configurations(task)[:DRAWN]]:
        source = task.instantiate(config)
        function, out = autotune.build(source, target="cuda"), source.args[-1]
        dtype = np.dtype(getattr(ml_dtypes, out.dtype, out.dtype))
        inputs = [_random(a, rng) for a in source.args[:-1]]
        poison = -1 if dtype.kind in "iu" else np.nan
        result = nd.array(np.full(out.shape, poison, dtype), cuda(0))
        function(*[nd.array(x, cuda(0)) for x in inputs], result)
        expected = source.reference(*(x.astype(np.float64) for x in inputs))
        error = np.abs(result.numpy().astype(np.float64) - expected).max()
        assert error <= tolerance * np.abs(expected).max(), f"{config}"


def _random(argument, rng):
    """Return normal numbers, or integers of 8 bits."""
    if argument.dtype == "int8":
        return rng.integers(-128, 128, argument.shape, np.int8)
    dtype = np.dtype(getattr(ml_dtypes, argument.dtype, argument.dtype))
    return rng.standard_normal(argument.shape).astype(dtype)
