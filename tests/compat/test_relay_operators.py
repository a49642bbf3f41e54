"""Operators of `relay` beside numpy: single elements, order, indices and layouts."""

import numpy as np
import pytest

from autotune.errors import AutotuneError, GraphError
from autotune.tvm import relay
from tests.compat.test_relay_windows import check, numbers, variable

X = numbers(2, 3, 4)
INTS = np.array([[-7, -2, 0, 3], [5, 8, 6, -1]], "int32")
DIVISORS = np.array([2, -3, 4, 5], "int32")


def call(function, *args, **named):
    """Apply an operator to variables for arrays; return it with the arrays by name."""
    given = [variable(f"a{i}_{a.shape}{a.dtype}", a) for i, a in enumerate(args)]
    return function(*given, **named), {v.name: a for v, a in zip(given, args, strict=True)}


def test_functions_of_one_element_are_those_of_numpy():
    near = np.clip(X, -0.9, 0.9)
    halves = np.array([-2.5, -0.5, 0.49999997, 0.5, 1.5, 2.4], "float32")
    away = np.array([-3, -1, 0, 1, 2, 2], "float32")
    odd = np.array([np.nan, np.inf, -np.inf, 1], "float32")
    names = {"log2": np.abs(X) + 1, "log10": np.abs(X) + 1, "tan": near, "sinh": X, "cosh": X}
    names |= {"trunc": 3 * X, "sign": X}
    inverse = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
    pairs = [call(getattr(relay, name), data) for name, data in names.items()]
    expected = [getattr(np, name)(data) for name, data in names.items()]
    pairs += [call(getattr(relay, name), near) for name in inverse]
    expected += [function(near) for function in inverse.values()]
    pairs += [call(relay.round, halves), call(relay.isfinite, odd), call(relay.isnan, odd)]
    expected += [away, np.isfinite(odd), np.isnan(odd)]
    for want, pair in zip(expected, pairs, strict=True):
        check([want], pair)


def test_whole_numbers_are_divided_shifted_and_combined():
    shifts = np.array([1, 0, 2, 3], "int32")
    pairs = {
        "floor_divide": (np.floor_divide(INTS, DIVISORS), DIVISORS),
        "floor_mod": (np.mod(INTS, DIVISORS), DIVISORS),
        "trunc_divide": (np.trunc(INTS / DIVISORS).astype("int32"), DIVISORS),
        "trunc_mod": (np.fmod(INTS, DIVISORS), DIVISORS),
        "right_shift": (INTS >> shifts, shifts),
        "left_shift": (INTS << shifts, shifts),
        "bitwise_and": (INTS & shifts, shifts),
        "bitwise_or": (INTS | shifts, shifts),
        "bitwise_xor": (INTS ^ shifts, shifts),
    }
    for name, (want, other) in pairs.items():
        check([want], call(getattr(relay, name), INTS, other))
    check([~INTS], call(relay.bitwise_not, INTS))
    a, b = X > 0, X > 0.5
    for name in ("logical_and", "logical_or", "logical_xor"):
        check([getattr(np, name)(a, b)], call(getattr(relay, name), a, b))


@pytest.mark.parametrize("axis", [1, -1])
def test_elements_are_put_in_order(axis):
    order = np.argsort(X, axis, kind="stable")
    x = variable("x", X)
    values, places = relay.topk(x, 2, axis)
    first = np.flip(np.take(order, range(X.shape[axis])[-2:], axis), axis)
    given = {"x": X}
    check(
        [np.sort(X, axis), order, np.take_along_axis(X, first, axis), first],
        (relay.sort(x, axis), given),
        (relay.argsort(x, axis, dtype="int64"), given),
        (values, given),
        (places, given),
    )


TAKEN = [(1, 1, (2, 5)), (2, 1, (2,)), (-1, -1, (2, 3, 2))]


@pytest.mark.parametrize(("axis", "batch", "places"), TAKEN)
def test_slices_are_taken_in_each_place_of_the_first_dimensions(axis, batch, places):
    index = np.random.default_rng(0).integers(-3, 7, places)
    first = batch if batch > 0 else batch + len(places)
    data, own = (each.reshape(-1, *each.shape[first:]) for each in (X, index))
    pairs, expected = [], []
    for mode in ("clip", "wrap"):
        found = [
            np.take(x, i, axis % 3 - first, mode=mode) for x, i in zip(data, own, strict=True)
        ]
        expected.append(np.stack(found).reshape(*X.shape[:first], *found[0].shape))
        given = {f"{mode} data": X, f"{mode} places": index}
        values = [variable(name, array) for name, array in given.items()]
        pairs.append((relay.take(*values, axis, batch, mode), given))
    check(expected, *pairs)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_indices_may_have_too_few_bits_for_the_axis_they_are_of(mode):
    data, index = np.arange(600.0, dtype="float32").reshape(2, 300), np.array([[-5, 2], [7, 127]])
    expected = [np.take(x, i, mode=mode) for x, i in zip(data, index, strict=True)]
    given = {"data": data, "places": index.astype("int8")}
    values = [variable(name, array) for name, array in given.items()]
    check([np.stack(expected)], (relay.take(*values, 1, 1, mode), given))


def test_elements_are_found_by_index():
    index = np.array([[[0, 2, 1, 1]], [[2, 0, 0, 1]]], "int64")
    check([np.take_along_axis(X, index, 1)], call(lambda x, i: relay.gather(x, 1, i), X, index))
    at = np.array([[0, 3], [2, 1]], "int32")
    on, off = relay.const(5.0), relay.const(-1.0)
    hot = np.where(np.arange(4)[None, :, None] == at[:, None], 5, -1).astype("float32")
    check([hot], call(lambda i: relay.one_hot(i, on, off, 4, 1, "float32"), at))
    x = variable("x", X)
    like = relay.slice_like(x, relay.zeros((1, 2), "float32"), (0, 1))
    check([X[:1, :2]], (like, {"x": X}))
    shifted = relay.add(x, relay.arange(relay.const(1), relay.const(5), dtype="float32"))
    check([X + np.arange(1, 5, dtype="float32")], (shifted, {"x": X}))
    assert relay.shape_of(x).array.tolist() == [2, 3, 4]
    assert relay.ndarray_size(x).array == 24


def test_layouts_have_blocks_of_channels_and_lose_them():
    image = numbers(1, 8, 3, 5)
    blocks = image.reshape(1, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    filters = numbers(8, 4, 3, 3, seed=1)
    packed = filters.reshape(2, 4, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    for array, source, wanted, want in (
        (image, "NCHW", "NCHW4c", blocks),
        (blocks, "NCHW4c", "NHWC", image.transpose(0, 2, 3, 1)),
        (blocks, "NCHW4c", "NCHW2c", image.reshape(1, 4, 2, 3, 5).transpose(0, 1, 3, 4, 2)),
        (filters, "OIHW", "OIHW2i4o", packed),
        (packed, "OIHW2i4o", "HWIO", filters.transpose(2, 3, 1, 0)),
    ):
        check([want], call(relay.layout_transform, array, src_layout=source, dst_layout=wanted))


def test_images_are_mirrored_enlarged_and_divided_into_blocks():
    image = numbers(1, 8, 4, 6)
    deep = image.reshape(1, 8, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 32, 2, 3)
    inner = deep.reshape(1, 4, 8, 2, 3).transpose(0, 2, 1, 3, 4).reshape(1, 32, 2, 3)
    check([deep], call(relay.nn.space_to_depth, image, block_size=2))
    check([image], call(relay.nn.depth_to_space, deep, block_size=2))
    check([image], call(relay.nn.depth_to_space, inner, block_size=2, mode="CRD"))
    last = [each.transpose(0, 2, 3, 1) for each in (image, deep)]
    check([last[1]], call(relay.nn.space_to_depth, last[0], block_size=2, layout="NHWC"))
    widths = ((0, 0), (0, 0), (2, 1), (0, 3))
    for mode in ("SYMMETRIC", "REFLECT"):
        want = np.pad(image, widths, mode=mode.lower())
        check([want], call(relay.nn.mirror_pad, image, pad_width=widths, mode=mode))
    want = image.repeat(2, 2).repeat(3, 3)
    check([want], call(relay.nn.upsampling, image, scale_h=2, scale_w=3))


@pytest.mark.parametrize("axis", [1, 3])
def test_elements_are_divided_by_the_power_of_their_neighbours(axis):
    image, size = numbers(2, 6, 3, 5), 3
    squares = np.pad(image**2, [(1, 1) if i == axis else (0, 0) for i in range(4)])
    around = sum(np.take(squares, range(i, i + image.shape[axis]), axis) for i in range(size))
    want = image / (2 + 0.1 * around / size) ** 0.75
    check([want], call(relay.nn.lrn, image, size=size, axis=axis, alpha=0.1))
    norm = np.sqrt(np.maximum((image**2).sum(axis, keepdims=True), 0.5))
    check([image / norm], call(relay.nn.l2_normalize, image, eps=0.5, axis=[axis]))


IMAGE = relay.var("image", shape=(1, 6, 4, 4))
WRONG = {
    "dst_layout must be blocks that divide 6": lambda: relay.layout_transform(
        IMAGE, "NCHW", "NCHW4c"
    ),
    "dst_layout must be of the axes of NCHW": lambda: relay.layout_transform(
        IMAGE, "NCHW", "NCDHW"
    ),
    "src_layout must be axes and blocks": lambda: relay.layout_transform(IMAGE, "NCHW4", "NCHW"),
    "k must be 1 to 4": lambda: relay.topk(IMAGE, 5),
    "indices must be of the shape of": lambda: relay.gather(IMAGE, 1, relay.const([1, 2])),
    "block_size must divide 4x4": lambda: relay.nn.space_to_depth(IMAGE, 3),
    "block_size must have a square that divides 6": lambda: relay.nn.depth_to_space(IMAGE, 2),
    "those of at least one number": lambda: relay.arange(0),
    "data must be of whole numbers": lambda: relay.bitwise_not(IMAGE),
    "expected whole scales": lambda: relay.nn.upsampling(IMAGE, 1.5, 2),
}


@pytest.mark.parametrize("make", [relay.shape_of, relay.ndarray_size, relay.arange])
def test_an_unknown_dtype_is_named(make):
    with pytest.raises(AutotuneError, match="int33"):
        make(3 if make is relay.arange else IMAGE, dtype="int33")


def test_extents_and_axes_may_be_arrays():
    assert relay.slice_like(IMAGE, IMAGE, np.array([0, 1])).shape == IMAGE.shape
    assert relay.nn.adaptive_max_pool2d(IMAGE, np.array([2, 1])).shape[2:] == (2, 1)


@pytest.mark.parametrize("message", WRONG)
def test_what_has_no_meaning_is_refused(message):
    with pytest.raises(GraphError, match=message):
        WRONG[message]()
