"""Depthwise convolution and pooling compute what their references do, which are torch-like."""

import numpy as np
import pytest
from autotune.templates.convolutions import window_cuda, window_shape
from autotune.templates.convolutions.window_shape import Depthwise, Pool, Window

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from autotune.topi import testing
from tests.templates.emulated import arrays_of, check_emulated, drawn

# Extents, multiplier, filter, stride, padding, bias, activation, residual, affine, dilation.
DEPTHWISE = {
    "all-that-follows": (
        1, 9, 8, 4, 2, 3, 5, (2, 1), (1, 2, 0, 1), True, "silu", True, True, (1, 2)
    ),
    "stride-2": (1, 12, 16, 8, 1, 3, 3, 2, 1),
}  # fmt: skip
POOLS = {
    "max": ("max", 2, 9, 12, 4, 3, 2, 1),
    "uneven-average": ("avg", 1, 9, 12, 4, 3, 2, (0, 1, 2, 1)),
    "average-of-all": ("avg", 1, 9, 12, 4, (2, 3), 1, 1, 2, True),
}
MOBILENET = [(1, 112, 112, 96, 1, 3, 3, 2, 1), (1, 7, 7, 960, 1, 3, 3, 1, 1, True, "relu6")]


def laid_out(args, layout, before):
    """Fill in defaults up to the layout, which comes last."""
    defaults = (1, 0, False, "none", False, False, 1) if before == 14 else (1, 0, 1, False)
    given = len(args) - (before - len(defaults))
    return (*args, *defaults[given:], layout)


@pytest.mark.parametrize(
    ("name", "layout"),
    [("all-that-follows", "NCHW"), ("all-that-follows", "NHWC"), ("stride-2", "NCHW")],
)
def test_depthwise_kernels_match_their_reference_in_the_emulator(name, layout):
    check_emulated("depthwise_conv2d.cuda", laid_out(DEPTHWISE[name], layout, 14))


@pytest.mark.parametrize(
    ("name", "layout"), [("max", "NCHW"), ("uneven-average", "NHWC"), ("average-of-all", "NCHW")]
)
def test_pooling_kernels_match_their_reference_in_the_emulator(name, layout):
    check_emulated("pool2d.cuda", laid_out(POOLS[name], layout, 10))


EXTREMES = {"data": lambda rng, a: rng.choice(np.int8([-128, -127, 127, 3]), a.shape)}
# Extents, multiplier, filter, stride, padding, dilation.
INTEGERS = {
    "16-channels": (1, 9, 8, 16, 1, 3, 5, (2, 1), (1, 2, 0, 1), (1, 2)),
    "several-filters": (2, 6, 8, 6, 2, 3, 3, 1, 1, 1),
    "beside-the-image": (1, 5, 16, 3, 1, 3, 5, 1, (2, 4), 1),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", INTEGERS)
def test_depthwise_sums_of_8_bit_integers_are_exact(name, layout):
    *args, dilation = INTEGERS[name]
    every = (*args, False, "none", False, False, dilation, layout, "int8")
    check_emulated("depthwise_conv2d.cuda", every, 4, EXTREMES, rtol=0, atol=0)


@pytest.mark.many_cases
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", POOLS)
def test_maxima_and_averages_of_8_bit_integers_are_exact(name, layout):
    every = (*laid_out(POOLS[name], layout, 10), "int8")
    check_emulated("pool2d.cuda", every, 3, EXTREMES, rtol=0, atol=0)


@pytest.mark.many_cases
@pytest.mark.parametrize("vec", [1, 2, 4, 8, 16])
def test_8_bit_integers_are_loaded_in_vectors_of_up_to_16(vec):
    window = Window((3, 3), (1, 1), (1, 1, 1, 1))
    choice = {"pixels": 2, "lines": 2, "columns": 4, "rows": 2, "channels": 2, "vec": vec}
    for shape in (
        Depthwise(1, 5, 8, 32, window, "NHWC", dtype="int8"),
        Pool(1, 5, 8, 32, window, "NHWC", "avg", dtype="int8"),
    ):
        source = window_cuda.kernel(shape, choice)
        arrays = arrays_of(source, EXTREMES)
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
        np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:-1]))


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_of_bytes_without_a_sign_are_exact(kind):
    window = Window((3, 3), (2, 1), (1, 1, 0, 1))
    choice = {"pixels": 2, "lines": 1, "columns": 4, "rows": 2, "channels": 4, "vec": 4}
    source = window_cuda.kernel(Pool(1, 5, 8, 16, window, "NHWC", kind, dtype="uint8"), choice)
    drawn = {"data": lambda rng, a: rng.integers(0, 256, a.shape).astype("uint8")}
    arrays = arrays_of(source, {**drawn, "out": lambda rng, a: np.zeros(a.shape, "uint8")})
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:-1]))


@pytest.mark.many_cases
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 4e-3), ("bfloat16", 3e-2)])
def test_windows_of_16_bit_floats_are_summed_as_floats(dtype, rtol, layout):
    for name, args, before in (
        ("depthwise_conv2d", DEPTHWISE["all-that-follows"], 14),
        ("depthwise_conv2d", DEPTHWISE["stride-2"], 14),
        ("pool2d", POOLS["max"], 10),
        ("pool2d", POOLS["uneven-average"], 10),
    ):
        given = (*laid_out(args, layout, before), dtype)
        check_emulated(f"{name}.cuda", given, rtol=rtol, atol=rtol)


WHOLE_ROWS = {
    "a-thread-beyond-the-row": (
        Depthwise(1, 9, 28, 5, Window((3, 3), (1, 1), (1, 1, 1, 1))),
        {"pixels": 4, "lines": 2, "columns": 8, "rows": 2, "channels": 4, "vec": 4},
    ),
    "as-many-threads-as-columns": (
        Depthwise(2, 5, 16, 3, Window((5, 5), (1, 1), (2, 2, 2, 2)), filters=2),
        {"pixels": 4, "lines": 1, "columns": 4, "rows": 4, "channels": 2, "vec": 2},
    ),
    "stride-2-padded-on-the-right": (
        Depthwise(1, 8, 14, 4, Window((3, 3), (2, 2), (0, 0, 1, 1)), dtype="float16"),
        {"pixels": 2, "lines": 2, "columns": 4, "rows": 2, "channels": 4, "vec": 2},
    ),
    "dilated-and-unpadded": (
        Depthwise(1, 7, 13, 2, Window((2, 2), (1, 1), (0, 0, 0, 0), (2, 2))),
        {"pixels": 2, "lines": 1, "columns": 8, "rows": 4, "channels": 2, "vec": 1},
    ),
    "average": (
        Pool(1, 6, 14, 3, Window((3, 3), (2, 1), (1, 1, 1, 1)), kind="avg"),
        {"pixels": 2, "lines": 2, "columns": 8, "rows": 2, "channels": 2, "vec": 2},
    ),
    "outputs-beside-the-image": (
        Pool(1, 9, 6, 2, Window((2, 4), (2, 1), (3, 2, 3, 3)), kind="avg"),
        {"pixels": 2, "lines": 2, "columns": 4, "rows": 4, "channels": 2, "vec": 1},
    ),
    "maximum": (
        Pool(1, 7, 8, 4, Window((2, 2), (1, 1), (1, 1, 1, 1))),
        {"pixels": 2, "lines": 1, "columns": 8, "rows": 4, "channels": 1, "vec": 2},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_threads_that_hold_a_whole_row_have_what_is_beside_their_own_from_their_neighbours(name):
    shape, choice = WHOLE_ROWS[name]
    target = Target("cuda -arch=sm_90")
    assert window_cuda.WindowTiling(shape, choice).shuffled
    assert window_cuda.violation(shape, choice, target) is None
    source, rng = window_cuda.kernel(shape, choice), np.random.default_rng(0)
    arrays = [rng.standard_normal(a.shape).astype(a.dtype) for a in source.args]
    arrays[-1].fill(np.nan)
    run_emulated(source.kernel("cuda"), arrays)
    tolerance = 4e-3 if shape.dtype == "float16" else 1e-5
    wanted = shape.reference()(*arrays[:-1])
    np.testing.assert_allclose(arrays[-1], wanted, rtol=tolerance, atol=tolerance)


CELLS = {
    "NHWC, as many filters as neighbours": ("NHWC", 4, 2, {"vec": 2}),
    "NHWC, neighbours of two channels": ("NHWC", 4, 2, {"vec": 4}),
    "NHWC, four filters of a channel": ("NHWC", 3, 4, {"vec": 2}),
    "NHWC, filters shared unevenly": ("NHWC", 4, 3, {"vec": 2}),
    "NHWC, an odd number of channels": ("NHWC", 5, 1, {"vec": 1}),
    "NHWC, eight channels": ("NHWC", 8, 1, {"vec": 8}),
    "NCHW, pairs of columns": ("NCHW", 3, 1, {"vec": 2}),
    "NCHW, eight columns": ("NCHW", 3, 2, {"vec": 8, "pixels": 8}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", CELLS)
def test_elements_that_are_loaded_at_once_reach_their_channels_and_columns(name, dtype):
    layout, channels, filters, change = CELLS[name]
    window = Window((3, 3), (1, 1), (2, 1, 2, 3), (2, 1))
    shape = Depthwise(2, 5, 16, channels, window, layout, filters, dtype=dtype)
    choice = {"pixels": 2, "lines": 2, "columns": 2, "rows": 1, "channels": 2, **change}
    if dtype == "float32" and change["vec"] == 8:
        choice["vec"] = 4
    source = window_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = shape.reference()(*(each.astype(np.float64) for each in arrays[:-1]))
    rtol = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=rtol, atol=rtol)


def test_the_reference_of_depthwise_convolutions_is_that_of_the_operator():
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(2, 5, 9, 8)), rng.normal(size=(5, 2, 3, 3))
    shape = Depthwise(2, 9, 8, 5, Window((3, 3), (2, 2), (1, 1, 1, 1)), filters=2)
    wanted = testing.depthwise_conv2d_python_nchw(data, weight, 2, 1)
    np.testing.assert_allclose(shape.reference()(data, weight), wanted)
    nhwc = Depthwise(2, 9, 8, 5, Window((3, 3), (2, 2), (1, 1, 1, 1)), "NHWC", filters=2)
    out = nhwc.reference()(data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 0, 1))
    np.testing.assert_allclose(out.transpose(0, 3, 1, 2), wanted)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "cuda -arch=sm_75"])
@pytest.mark.parametrize("args", MOBILENET)
def test_configurations_of_mobilenets_layers_fit_the_device(args, target, layout):
    task = create("depthwise_conv2d.cuda", laid_out(args, layout, 14), target)
    sources = [*drawn(task, 20, sample=20), task.instantiate(task.default())]
    assert all(launch_violation(s.kernel("cuda"), Target(target).limits) is None for s in sources)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_blocks_of_very_many_channels_fit_the_grid(layout):
    shape, target = (
        Depthwise(2, 1, 1, 3_000_000, Window((1, 1)), layout),
        Target("cuda -arch=sm_90"),
    )
    choice = window_cuda.default_choice(shape, target)
    kernel = window_cuda.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, target.limits) is None
    narrow = choice | {"channels": 32, "vec": 1}
    many = "too many blocks of channels" if layout == "NCHW" else None
    assert window_cuda.violation(shape, narrow, target) == many


def test_a_window_that_lies_outside_of_the_image_averages_nothing():
    window = Window((1, 1), (1, 1), (1, 1, 1, 1))
    out = Pool(1, 2, 2, 1, window, kind="avg").reference()(np.ones((1, 1, 2, 2)))
    assert out[0, 0].tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("layout", "vec"), [("NCHW", 1), ("NHWC", 2)])
def test_the_maximum_of_a_window_with_a_nan_is_that_and_padding_is_less_than_all(
    layout, vec, dtype
):
    shape = Pool(1, 3, 6, 2, Window((3, 3), (1, 1), (1, 1, 1, 1)), layout, dtype=dtype)
    choice = {"pixels": 2, "lines": 3, "columns": 2, "rows": 1, "channels": 1, "vec": vec}
    source = window_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    data, out = shape.as_nchw(arrays[0]), shape.as_nchw(arrays[1])
    data[0, 0] = -np.inf
    data[0, 1, 1, 0] = np.nan
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = shape.as_nchw(shape.reference()(arrays[0]))
    assert (out[0, 0] == -np.inf).all()
    assert np.isnan(out[0, 1].astype(np.float32)).nonzero()[1].tolist() == [0, 1] * 3
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_averages_are_as_exact_as_by_divisions_and_keep_infinities(dtype):
    shape = Pool(1, 6, 6, 3, Window((3, 3), (1, 1), (1, 1, 1, 1)), kind="avg", dtype=dtype)
    choice = {"pixels": 2, "lines": 2, "columns": 2, "rows": 1, "channels": 1, "vec": 2}
    source = window_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    arrays[0][0, :, 2, 2] = np.inf, -np.inf, np.nan
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = shape.reference()(arrays[0].astype(np.float64))
    rtol = 1e-3 if dtype == "float16" else 3e-7
    np.testing.assert_allclose(arrays[1], wanted, rtol=rtol, atol=rtol)
    assert np.isinf(arrays[1]).sum() == 18
    assert np.isnan(arrays[1]).sum() == 9


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("depthwise_conv2d", (1, 4, 4, 8, 1, 7, 7), "7x7 filter does not fit into the 4x4 image"),
        ("depthwise_conv2d", (1, 4, 4, 8, 0, 3, 3), "must be at least 1"),
        ("depthwise_conv2d", (1, 4, 4, 8, 1, 3, 3, 1, (1, 1, 1)), "padding must be a"),
        ("depthwise_conv2d", (1, 4, 4, 8, 1, 3, 3, 1, 1.5), "padding must be a"),
        ("depthwise_conv2d", (1, 4, 4, 8, 1, 3, 3, (1, 1.5)), "stride.* must be a whole number"),
        ("pool2d", ("max", 1, 4, 4, 8, 3, 1, True), "padding must be a"),
        ("depthwise_conv2d", (1, 4, 4, 8, 1, 3, 3, 1, 1, True, "tanh"), "activation must be one"),
        ("pool2d", ("min", 1, 4, 4, 8, 2), "kind must be max or avg"),
        ("pool2d", ("max", 1, 4, 4, 8, 2, 1, 0, 1, False, "CHWN"), "layout must be NCHW or NHWC"),
        ("pool2d", ("max", 1, 4, 4, 8, 2, 1, 0, 1, False, "NCHW", "int16"), "dtype must be"),
        (
            "depthwise_conv2d",
            (1, 4, 4, 8, 1, 3, 3, 1, 1, True, "none", False, False, 1, "NCHW", "int8"),
            "sums are stored as they are, so there can be no bias",
        ),
        (
            "depthwise_conv2d",
            (1, 40, 40, 8, 1, 33, 33, 1, 0, False, "none", False, False, 1, "NCHW", "int8"),
            "may have 1024 elements",
        ),
        ("pool2d", ("max", 2**14, 512, 512, 8, 3), "kernels index up to .* an array has"),
        ("pool2d", ("max", 1, 1000, 1000, 2000, 3, 1, 1100, 1100), "its padding has 20480000"),
    ],
)  # fmt: skip
def test_a_shape_that_cannot_be_is_an_error_that_says_so(name, args, message):
    with pytest.raises(TemplateError, match=message):
        create(f"{name}.cuda", args, "cuda")


@pytest.mark.parametrize(("rows", "ahead"), [(8, 1), (1, 0)])
def test_the_next_kernel_may_begin_early_only_beside_few_blocks(rows, ahead):
    shape = Depthwise(1, 112, 112, 96, Window((3, 3), (2, 2), (1, 1, 1, 1)))
    choice = {"pixels": 2, "lines": 4, "columns": 32, "rows": rows, "channels": 1, "vec": 4}
    assert window_cuda.kernel(shape, choice).defines["AHEAD"] == ahead


@pytest.mark.parametrize("products", [1, 300, 5000])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_depthwise_reference_gives_in_parts_what_it_gives_at_once(monkeypatch, layout, products):
    task = create(
        "depthwise_conv2d.cuda",
        (5, 6, 7, 4, 2, 3, 2, (2, 1), (1, 0, 2, 1), True, "relu", False, False, (1, 2), layout),
        "cuda -arch=sm_90",
    )
    with task.target:
        kernel = task.instantiate(task.default())
    reference, shapes = kernel.reference, [a.shape for a in kernel.args[:-1]]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    whole = reference(*inputs)
    monkeypatch.setattr(window_shape, "_PRODUCTS", products)
    assert np.any(whole)
    np.testing.assert_allclose(reference(*inputs), whole, rtol=1e-5, atol=1e-5)
