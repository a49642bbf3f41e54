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
]


@pytest.mark.parametrize(("extent", "scale", "coordinates", "nearest", "expected"), CASES)
def test_the_nearest_elements_are_those_of_scales_in_float32(
    extent, scale, coordinates, nearest, expected
):
    node = onnx.helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode="nearest", nearest_mode=nearest,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    scales = np.array([1, scale], "float32")
    model = model_of([node], {"x": (1, extent)}, weights={"scales": scales})
    x = np.arange(extent, dtype="float32")[None]
    (result,) = from_onnx(model).graph.run(x)
    np.testing.assert_array_equal(result, [expected])
