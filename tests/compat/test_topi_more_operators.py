"""Operators of TVM's `topi` that are made of others, against numpy."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import ExpressionError
from autotune.tvm import te, topi
from autotune.tvm.topi import testing

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.normal(size=shape).astype("float32")


def computed(operator, *arrays):
    """Return what an operator makes of arrays, as the C it becomes computes it."""
    inputs = [te.placeholder(a.shape, str(a.dtype), f"in{i}") for i, a in enumerate(arrays)]
    made = operator(*inputs)
    out = made[0] if isinstance(made, list) else made
    with tvm.target.Target("llvm"):
        schedule = topi.generic.schedule_injective([out])
    result = np.empty([int(n) for n in out.shape], out.dtype)
    tvm.build(schedule, [*inputs, out], "llvm")(*arrays, result)
    return result


IMAGE, GAMMA, BETA = numbers(2, 6, 4, 5), numbers(6), numbers(6)
MEAN, VARIANCE = numbers(6), numbers(6) ** 2
SQUARE = numbers(3, 4, 6)
CHANNEL = (slice(None), None, None)
CASES = {
    "lrn": (
        lambda x: topi.nn.lrn(x, 3, 1, 0.1, 0.7, 2.0),
        (IMAGE,),
        testing.lrn_python(IMAGE, 3, 1, 2.0, 0.1, 0.7),
    ),
    "l2_normalize": (
        lambda x: topi.nn.l2_normalize(x, 1e-3, [1]),
        (IMAGE,),
        testing.l2_normalize_python(IMAGE, 1e-3, 1),
    ),
    "group_norm": (
        lambda x, g, b: topi.nn.group_norm(x, g, b, 3, 1, [2, 3]),
        (IMAGE, GAMMA, BETA),
        testing.group_norm_python(IMAGE, GAMMA, BETA, 3, 1, [2, 3]),
    ),
    "instance_norm": (
        lambda x, g, b: topi.nn.instance_norm(x, g, b, 1, [2, 3]),
        (IMAGE, GAMMA, BETA),
        testing.instance_norm_python(IMAGE, GAMMA, BETA, 1, [2, 3]),
    ),
    "batch_norm": (
        topi.nn.batch_norm,
        (IMAGE, GAMMA, BETA, MEAN, VARIANCE),
        (IMAGE - MEAN[CHANNEL]) / np.sqrt(VARIANCE + 1e-5)[CHANNEL] * GAMMA[CHANNEL]
        + BETA[CHANNEL],
    ),
    "mirror_pad symmetric": (
        lambda x: topi.nn.mirror_pad(x, (0, 0, 1, 2), (0, 0, 4, 0)),
        (IMAGE,),
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 4), (2, 0)), "symmetric"),
    ),
    "mirror_pad reflect": (
        lambda x: topi.nn.mirror_pad(x, (0, 0, 3, 2), (0, 0, 3, 4), "REFLECT"),
        (IMAGE,),
        np.pad(IMAGE, ((0, 0), (0, 0), (3, 3), (2, 4)), "reflect"),
    ),
    "space_to_depth": (
        lambda x: topi.nn.space_to_depth(x, 2),
        (SQUARE[None],),
        testing.space_to_depth_python(SQUARE[None], 2),
    ),
    "depth_to_space": (
        lambda x: topi.nn.depth_to_space(x, 2, "NHWC", "CRD"),
        (numbers(1, 2, 3, 8),),
        None,
    ),
    "upsampling": (
        lambda x: topi.nn.upsampling(x, 2, 3),
        (IMAGE,),
        testing.upsampling_python(IMAGE, (2, 3)),
    ),
    "pool1d": (
        lambda x: topi.nn.pool1d(x, [3], [2], [1], [1, 0], "avg", count_include_pad=False),
        (SQUARE,),
        None,
    ),
    "pool3d": (
        lambda x: topi.nn.pool3d(x, (2, 2, 2), (2, 1, 1), (1, 1, 1), (0,) * 6, "avg"),
        (IMAGE[None],),
        np.lib.stride_tricks.sliding_window_view(IMAGE[None], (2, 2, 2), (2, 3, 4))[
            :, :, ::2
        ].mean((5, 6, 7)),
    ),
    "strided_slice": (
        lambda x: topi.nn.strided_slice(x, [0, 1], [3, 4], [2, 1]),
        (SQUARE,),
        testing.strided_slice_python(SQUARE, [0, 1], [3, 4], [2, 1]),
    ),
    "einsum": (
        lambda a, b: topi.einsum("bij, bkj -> bik", a, b),
        (SQUARE, SQUARE),
        np.einsum("bij,bkj->bik", SQUARE, SQUARE),
    ),
    "einsum of a diagonal": (
        lambda a: topi.einsum("ii", a),
        (numbers(5, 5),),
        None,
    ),
    "layout_transform to blocks": (
        lambda x: topi.layout_transform(x, "NCHW", "NCHW3c"),
        (IMAGE,),
        IMAGE.reshape(2, 2, 3, 4, 5).transpose(0, 1, 3, 4, 2),
    ),
    "layout_transform of filters": (
        lambda x: topi.layout_transform(x, "NCHW2c", "NHWC"),
        (numbers(1, 3, 4, 5, 2),),
        None,
    ),
    "meshgrid": (
        lambda a, b: topi.meshgrid([a, b], "xy"),
        (GAMMA, numbers(4)),
        np.broadcast_to(GAMMA, (4, 6)),
    ),
    "sequence_mask": (
        lambda x, n: topi.sequence_mask(x, n, -1.0, axis=1),
        (SQUARE, np.array([0, 4, 2], "int32")),
        np.where(np.arange(4)[None, :, None] < np.array([0, 4, 2])[:, None, None], SQUARE, -1),
    ),
    "trilu": (lambda x: topi.trilu(x, 1, upper=False), (SQUARE,), np.tril(SQUARE, 1)),
    "ndarray_size": (topi.ndarray_size, (SQUARE,), np.array([72])),
}
BLOCKED = CASES["layout_transform of filters"][1][0]
ROWS = np.pad(SQUARE, ((0, 0), (0, 0), (1, 0)))
PRESENT = np.pad(np.ones_like(SQUARE), ((0, 0), (0, 0), (1, 0)))
OTHERS = {
    "layout_transform of filters": BLOCKED.transpose(0, 2, 3, 1, 4).reshape(1, 4, 5, 6),
    "einsum of a diagonal": np.array([np.trace(CASES["einsum of a diagonal"][1][0])]),
    "depth_to_space": testing.depth_to_space_python(
        CASES["depth_to_space"][1][0].transpose(0, 3, 1, 2), 2, "CRD"
    ).transpose(0, 2, 3, 1),
    "pool1d": np.stack(
        [ROWS[..., i : i + 3].sum(-1) / PRESENT[..., i : i + 3].sum(-1) for i in (0, 2, 4)], -1
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_numpy_does(name):
    operator, arrays, expected = CASES[name]
    expected = OTHERS[name] if expected is None else expected
    np.testing.assert_allclose(computed(operator, *arrays), expected, rtol=1e-4, atol=1e-5)


def test_a_convolution_of_blocked_channels_is_the_plain_one():
    data, weight = numbers(1, 4, 6, 6), numbers(6, 4, 3, 3)
    blocks = data.reshape(1, 2, 2, 6, 6).transpose(0, 1, 3, 4, 2).copy()
    filters = weight.reshape(2, 3, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1).copy()
    found = computed(
        lambda a, b: topi.nn.conv2d_NCHWc(a, b, 2, 1, 1, "NCHW2c", "NCHW3c"), blocks, filters
    )
    plain = testing.conv2d_nchw_python(data, weight, 2, 1)
    np.testing.assert_allclose(
        found.transpose(0, 1, 4, 2, 3).reshape(plain.shape), plain, rtol=1e-4, atol=1e-5
    )


def x_of(*shape):
    return te.placeholder(shape, name="given")


def blocked(size, stride):
    data, weight = x_of(1, 2, 4, 4, 2), x_of(1, 2, size, size, 2, 2)
    return topi.nn.conv2d_NCHWc(data, weight, stride, 0, 1, "NCHW2c", "NCHW2c")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: topi.nn.lrn(x, 2), "size must be an odd number"),
        (lambda x: topi.nn.group_norm(x, None, None, 4, 1, [2, 3]), "divides 6 channels"),
        (lambda x: topi.nn.mirror_pad(x, (0, 0, 5, 0)), "pad_before must be a whole number"),
        (lambda x: topi.nn.depth_to_space(x, 2), "whose square divides 6 channels"),
        (lambda x: topi.nn.space_to_depth(x, 3), "divides images of 4x5"),
        (lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), "blocks that divide C of 6"),
        (lambda x: topi.layout_transform(x, "NCHW", "NCH"), "dst_layout must be the axes of"),
        (lambda x: topi.layout_transform(x, "NCHW", "NCHW0c"), "dst_layout must be axes by"),
        (
            lambda x: topi.layout_transform(x_of(1, 2, 3, 2, 5), "NCHW4c", "NCHW"),
            "array must be of blocks",
        ),
        (lambda x: topi.layout_transform(x, 7, "NCHW"), "src_layout must be a text"),
        (lambda x: topi.einsum("abcd,ab->a", x), "letters such as"),
        (lambda x: topi.einsum(5, x), "subscripts must be a text"),
        (lambda x: topi.trilu(x_of(6)), "data must be a tensor of at least 2"),
        (lambda x: topi.matrix_set_diag(x, x_of(6)), "diagonal must be a tensor of 3 dim"),
        (lambda x: topi.matrix_set_diag(x, x_of(2, 6, 5)), r"diagonal must be of shape \(2, 6, 4"),
        (lambda x: topi.sequence_mask(x, x_of(6), axis=1), "a length of each of 2 sequences"),
        (lambda x: topi.sequence_mask(x_of(6), x_of(6)), "data must be a tensor of at least 2"),
        (lambda x: topi.nn.mirror_pad(x, 1), "pad_before must be 4 paddings"),
        (lambda x: topi.nn.pool1d(x_of(1, 3, 4), (2, 2), 2), "kernel must be 1 whole numbers"),
        (
            lambda x: topi.nn.pool1d(x_of(1, 3, 4), 2, 2, 1, (1, 2, 3)),
            "padding must be 1 or 2 who",
        ),
        (lambda x: topi.nn.pool3d(x_of(1, 3, 4, 4, 4), 2, 0), "stride must be a whole number"),
        (lambda x: blocked(3, 0), "stride must be a whole number of at least 1"),
        (lambda x: blocked(9, 1), "kernel must be at most as large as padded images"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call, said):
    with pytest.raises(ExpressionError, match=said):
        call(te.placeholder(IMAGE.shape, name="x"))


def test_a_test_gets_the_schedule_of_a_target():
    x = te.placeholder((64,), name="x")
    y = topi.exp(x)
    assert testing.get_injective_schedule("cuda -emulate")([y]).binds_threads()
    assert not testing.get_injective_schedule("llvm")([y]).binds_threads()
