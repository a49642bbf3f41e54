"""Scales of images are float32: sizes and the nearest elements are those of that arithmetic."""

import numpy as np
import pytest

from autotune.importers import from_onnx

onnx = pytest.importorskip("onnx")

from tests.importers.onnx.models import model_of  # noqa: E402

# Extent, scale, how elements are chosen, and which ones: what ONNX Runtime 1.32 gives.
CASES = [
    (10, 0.7, "asymmetric", "floor", [0, 1, 2, 4, 5, 7, 8]),
    (13, 0.7, "asymmetric", "ceil", [0, 2, 3, 5, 6, 8, 9, 10, 12]),
    (10, 0.7, "half_pixel", "round_prefer_floor", [0, 2, 3, 4, 6, 7, 9]),
    (10, 0.7, "pytorch_half_pixel", "round_prefer_ceil", [0, 2, 3, 5, 6, 7, 9]),
    (10, 0.7, "align_corners", "round_prefer_floor", [0, 1, 3, 4, 6, 7, 9]),
    # Within a millionth of a half, which counts as one.
    (9, 1.2, "asymmetric", "round_prefer_ceil", [0, 1, 2, 3, 3, 4, 5, 6, 7, 8]),
    (19, 0.3, "half_pixel", "round_prefer_ceil", [1, 5, 8, 11, 15]),
]
# Extent, how elements are chosen, and which ones; there are as many as the size that is given.
SIZES = [
    (10, "pytorch_half_pixel", "ceil",
     [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 8, 8, 8, 9, 9, 9, 9]),
    (36, "half_pixel", "floor",
     [0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 18, 20, 21, 23, 25, 27, 29, 30, 32, 34]),
]  # fmt: skip


def resized(extent, coordinates, nearest, **given):
    """Return which elements a model chooses that has scales or sizes."""
    (name,) = given
    node = onnx.helper.make_node(
        "Resize", ["x", "", *[""] * (name == "sizes"), name], ["y"], mode="nearest",
        nearest_mode=nearest, coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    model = model_of([node], {"x": (1, extent)}, weights=given)
    (result,) = from_onnx(model).graph.run(np.arange(extent, dtype="float32")[None])
    return result[0].tolist()


@pytest.mark.parametrize(("extent", "scale", "coordinates", "nearest", "expected"), CASES)
def test_the_nearest_elements_are_those_of_scales_in_float32(
    extent, scale, coordinates, nearest, expected
):
    scales = np.array([1, scale], "float32")
    assert resized(extent, coordinates, nearest, scales=scales) == expected


@pytest.mark.parametrize(("extent", "coordinates", "nearest", "expected"), SIZES)
def test_so_are_those_of_sizes(extent, coordinates, nearest, expected):
    sizes = np.array([1, len(expected)])
    assert resized(extent, coordinates, nearest, sizes=sizes) == expected
