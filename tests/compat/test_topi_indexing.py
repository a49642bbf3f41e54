"""TVM's operators that sort, read and write by index, and scale images, beside numpy and torch."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import ExpressionError
from autotune.tvm import te, topi

RNG = np.random.default_rng(11)
X = RNG.permutation(3 * 5 * 4).reshape(3, 5, 4).astype("float32")


def run(operator, *arrays):
    """Build what an operator makes of arrays, without a schedule, and run it."""
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{i}") for i, a in enumerate(arrays)]
    made = operator(*tensors)
    outputs = made if isinstance(made, list) else [made]
    function = tvm.build(te.create_schedule([o.op for o in outputs]), [*tensors, *outputs], "llvm")
    results = [np.empty([int(n) for n in o.shape], o.dtype) for o in outputs]
    function(*arrays, *results)
    return results if isinstance(made, list) else results[0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_sorted_along_an_axis(axis):
    np.testing.assert_array_equal(run(lambda x: topi.sort(x, axis), X), np.sort(X, axis))
    order = run(lambda x: topi.argsort(x, axis=axis, is_ascend=False, dtype="int32"), X)
    np.testing.assert_array_equal(order, np.argsort(-X, axis))


def test_equal_elements_keep_their_order_and_nans_go_last():
    x = np.array([2, np.nan, 1, 2, np.inf, np.nan, 1, -np.inf], "float32")
    order = run(lambda x: topi.argsort(x, dtype="int32"), x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    falling = run(lambda x: topi.argsort(x, is_ascend=0, dtype="int32"), x)
    assert falling.tolist() == [4, 0, 3, 2, 6, 7, 1, 5]


def test_the_greatest_elements_come_with_their_indices():
    values, indices = run(lambda x: topi.topk(x, 2, axis=1), X)
    wanted = np.argsort(-X, 1)[:, :2]
    np.testing.assert_array_equal(indices, wanted)
    assert indices.dtype == "int64"
    np.testing.assert_array_equal(values, np.take_along_axis(X, wanted, 1))
    least = run(lambda x: topi.topk(x, 0, ret_type="values", is_ascend=True), X)
    np.testing.assert_array_equal(least, np.sort(X))
    with pytest.raises(ExpressionError, match="topk: ret_type must be one of 'both'"):
        topi.topk(te.placeholder((4,)), ret_type="value")


def test_elements_are_read_at_indices():
    at = RNG.integers(-5, 5, (3, 2, 4)).astype("int32")
    found = run(lambda x, i: topi.gather(x, 1, i), X, at)
    np.testing.assert_array_equal(found, np.take_along_axis(X, at, 1))
    points = np.array([[0, 2, -1], [4, 0, -2]], "int32")
    found = run(topi.gather_nd, X, points)
    np.testing.assert_array_equal(found, X[points[0], points[1]])
    rows = RNG.integers(0, 5, (1, 3), "int32")
    found = run(lambda x, i: topi.gather_nd(x, i, batch_dims=1), X, rows)
    np.testing.assert_array_equal(found, X[np.arange(3), rows[0]])
    hot = run(lambda i: topi.one_hot(i, 2, -1, 4, 0, "int32"), np.array([3, 0, 9], "int32"))
    np.testing.assert_array_equal(hot, [[-1, 2, -1], [-1, -1, -1], [-1, -1, -1], [2, -1, -1]])


@pytest.mark.many_cases
@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max"])
def test_elements_are_written_at_indices(reduction):
    rng = np.random.default_rng(0)  # of its own: sums that nearly cancel depend on their order
    at = rng.integers(-5, 5, (3, 7, 4)).astype("int32")
    new = rng.normal(size=at.shape).astype("float32")
    join = {
        "update": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum,
        "max": np.maximum,
    }[reduction]  # fmt: skip
    wanted = X.copy()
    for i, j, k in np.ndindex(at.shape):
        wanted[i, at[i, j, k], k] = join(wanted[i, at[i, j, k], k], new[i, j, k])
    found = run(lambda x, i, u: topi.scatter_elements(x, i, u, 1, reduction), X, at, new)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    points = rng.integers(0, 3, (2, 6), "int32")
    rows = rng.normal(size=(6, 4)).astype("float32")
    wanted = X.copy()
    for n, (i, j) in enumerate(points.T):
        wanted[i, j] = join(wanted[i, j], rows[n])
    found = run(lambda x, i, u: topi.scatter_nd(x, i, u, reduction), X, points, rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_names_of_older_versions_write_as_well():
    at, new = np.array([1, 1, 3], "int64"), np.array([5, 6, 7], "float32")
    x = np.zeros(4, "float32")
    np.testing.assert_array_equal(run(topi.scatter, x, at, new), [0, 6, 0, 7])
    np.testing.assert_array_equal(run(topi.scatter_add, x, at, new), [0, 11, 0, 7])
    with pytest.raises(ExpressionError, match="indices must be a tensor of whole numbers"):
        run(topi.scatter, x, new, new)


def test_updates_of_another_shape_than_their_places_are_refused():
    at, new = np.array([1, 1, 3], "int64"), np.array([5, 6], "float32")
    with pytest.raises(ExpressionError, match=r"updates must be the shape \(3,\)"):
        run(topi.scatter, np.zeros(4, "float32"), at, new)
    points = np.zeros((2, 6), "int32")
    with pytest.raises(ExpressionError, match=r"updates must be the shape \(6, 4\)"):
        run(topi.scatter_nd, X, points, np.zeros((6, 3), "float32"))


def test_prefixes_are_summed_and_multiplied():
    small = (X % 3 + 1).astype("int32")
    np.testing.assert_array_equal(run(lambda x: topi.cumsum(x, 1), X), np.cumsum(X, 1))
    np.testing.assert_array_equal(run(topi.cumsum, X), np.cumsum(X))
    found = run(lambda x: topi.cumprod(x, 2, "int64", exclusive=True), small)
    ones = np.ones((3, 5, 1), "int64")
    np.testing.assert_array_equal(found, np.cumprod(np.concatenate([ones, small], 2), 2)[..., :4])
    assert found.dtype == "int64"
    np.testing.assert_array_equal(run(lambda: topi.arange(1, 8, 2, "int32")), [1, 3, 5, 7])


@pytest.mark.parametrize(("factor", "shift"), [(1 << 30, 1), (1395864371, -3), (-(1 << 30), 0)])
def test_integers_are_multiplied_as_fixed_point_numbers(factor, shift):
    x = RNG.integers(-(2**30), 2**30, 64).astype("int32")
    found = run(lambda x: topi.fixed_point_multiply(x, factor, shift), x)
    wanted = np.floor(x.astype("float64") * factor * 2.0 ** (shift - 31) + 0.5)
    np.testing.assert_array_equal(found, wanted.astype("int32"))


@pytest.mark.parametrize("shift", [-40, 40, "a"])
def test_a_shift_that_64_bits_do_not_hold_is_refused(shift):
    with pytest.raises(ExpressionError, match="shift must be a whole number from -31 to 31"):
        run(lambda x: topi.fixed_point_multiply(x, 1, shift), np.zeros(4, "int32"))


def test_the_numbers_of_a_vector_are_written_into_the_kernel():
    numbers = np.array([1.5, -2, 8], "float32")
    np.testing.assert_array_equal(run(lambda: topi.const_vector(numbers)), numbers)
    with pytest.raises(ExpressionError, match="vector must be a vector of numbers"):
        topi.const_vector(np.ones((2, 2)))


@pytest.mark.many_cases
@pytest.mark.parametrize("method", ["nearest_neighbor", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(7, 12), (3, 5), (5, 4)])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners"])
def test_images_are_scaled_as_by_torch(method, size, mode):
    torch = pytest.importorskip("torch")
    images = RNG.normal(size=(2, 3, 5, 8)).astype("float32")
    name = {"nearest_neighbor": "nearest"}.get(method, method)
    asymmetric = method == "nearest_neighbor"
    corners = {} if asymmetric else {"align_corners": mode == "align_corners"}
    wanted = torch.nn.functional.interpolate(torch.from_numpy(images), size, mode=name, **corners)
    found = run(
        lambda x: topi.image.resize2d(
            x, None, size, method=method, bicubic_alpha=-0.75,
            coordinate_transformation_mode="asymmetric" if asymmetric else mode,
        ),
        images,
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_images_with_channels_last_and_the_older_name_are_scaled():
    images = RNG.normal(size=(1, 4, 4, 2)).astype("float32")
    found = run(
        lambda x: topi.image.resize(
            x, (8, 8), "NHWC", "nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
        images,
    )
    np.testing.assert_array_equal(found, images.repeat(2, 1).repeat(2, 2))
    with pytest.raises(ExpressionError, match="resize2d: size must be 2 extents, got"):
        topi.image.resize2d(te.placeholder((1, 2, 4, 4)), None, (8,))
