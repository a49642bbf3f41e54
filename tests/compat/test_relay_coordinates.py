"""Operators of `relay` on coordinates, images in other sizes, and logical reductions."""

import numpy as np
import pytest

from autotune import te
from autotune.errors import GraphError
from autotune.tvm import relay, topi
from tests.compat.test_relay_operators import X, call
from tests.compat.test_relay_windows import check, numbers
from tests.topi.evaluate import evaluate

IMAGES = numbers(1, 2, 5, 4)
SIZES = [
    {"size": (10, 8), "method": "nearest_neighbor"},
    {"size": (3, 7), "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
    {"size": (3, 7), "method": "nearest_neighbor", "rounding_method": "round_prefer_floor"},
    {"size": (10, 3)},
    {"size": (9, 7), "coordinate_transformation_mode": "align_corners", "out_dtype": "float64"},
    {"size": (2, 9), "method": "cubic", "layout": "NHWC"},
]


@pytest.mark.parametrize("how", SIZES)
def test_images_in_other_sizes_are_those_of_topi(how):
    layout = how.get("layout", "NCHW")
    data = IMAGES if layout == "NCHW" else np.moveaxis(IMAGES, 1, 3).copy()
    given = te.placeholder(data.shape, "float32")
    expected = evaluate(topi.image.resize2d(given, None, **how), [(given, data)])
    made, arrays = call(lambda x: relay.image.resize2d(x, **how), data)
    check([expected], (made, arrays))


def test_images_are_resized_as_scripts_of_older_versions_write_it():
    def twice(x):
        return relay.image.resize(x, (10, 8), "NCHW", "nearest_neighbor", "asymmetric")

    check([IMAGES.repeat(2, 2).repeat(2, 3)], call(twice, IMAGES))


def test_elements_and_slices_are_found_by_several_indices():
    at = np.array([[0, 1, 1], [2, 0, 1]], "int64")
    check([X[at[0], at[1]]], call(relay.gather_nd, X, at))
    check([X[[1, 0]]], call(relay.gather_nd, X, np.array([[1, 0]], "int32")))


def test_an_index_may_be_a_constant_number():
    check([X[:, 1]], call(lambda x: relay.take(x, relay.const(1), 1), X))
    largest = call(lambda x: relay.stack([relay.const(2.0), relay.max(x)]), X)
    check([np.array([2, X.max()])], largest)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids_have_the_coordinates_of_their_points(indexing):
    vectors = [numbers(3), numbers(2), numbers(4)]
    expected = np.meshgrid(*vectors, indexing=indexing)
    for number, want in enumerate(expected):
        check([want], call(lambda *v, n=number: relay.meshgrid(list(v), indexing)[n], *vectors))


@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triangles_are_those_of_numpy(diagonal):
    check([np.triu(X, diagonal)], call(lambda x: relay.trilu(x, diagonal), X))
    lower = call(lambda x: relay.trilu(x, relay.const(diagonal), upper=False), X)
    check([np.tril(X, diagonal)], lower)


def test_logical_reductions_and_sums_of_powers():
    above = X > 0
    check([above.all(1)], call(lambda x: relay.all(x, 1), above))
    check([above.any((0, 2), keepdims=True)], call(lambda x: relay.any(x, 1, True, True), above))
    large = X * 100  # whose powers no float32 holds
    expected = np.logaddexp.reduce(large.astype("float64"), 1)
    check([expected], call(lambda x: relay.logsumexp(x, 1), large))


def test_what_is_not_there_is_refused():
    image, vector = (relay.var(n, shape=s) for n, s in (("x", (1, 2, 5, 4)), ("v", (3,))))
    with pytest.raises(GraphError, match="coordinate_transformation_mode"):
        relay.image.resize2d(image, (3, 3), coordinate_transformation_mode="tf_crop_and_resize")
    with pytest.raises(GraphError, match="a height and a width"):
        relay.image.resize2d(image, (3,))
    with pytest.raises(GraphError, match="trilu: data must be matrices"):
        relay.trilu(vector, 0)
    with pytest.raises(GraphError, match="meshgrid: data must be vectors"):
        relay.meshgrid([image, vector])
