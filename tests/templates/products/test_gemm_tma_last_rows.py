"""The last rows of operands that tiles reach beyond: loaded by boxes of as many rows.

Clusters with such rows are among those of `tests/templates/test_clusters.py`.
"""

import numpy as np
import pytest
from autotune.templates.products import gemm_tma
from autotune.templates.products.gemm_shape import Gemm

from tests.templates.emulated import arrays_of, in_the_emulator

CHOICE = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip
SWAPPED = {"wgmma": gemm_tma.Form(0, 1, 1).knob}


def boxes(shape, choice):
    """Return the rows of the boxes of last rows, by their operands."""
    defines = gemm_tma.kernel(shape, choice).defines
    maps = {name: defines.get(f"{name}_LAST_MAP") for name in "AB"}
    return {
        name: (int(words.split(", ")[14][:-1], 16) & 255) + 1
        for name, words in maps.items()
        if words
    }


@pytest.mark.parametrize(
    ("shape", "change", "rows"),
    [
        (Gemm(136, 200, 72, "float16", 1, False, True), {}, {"A": 8, "B": 8}),
        (Gemm(136, 200, 72, "float16", 1, False, True), {"frags_n": 13}, {"A": 8, "B": 96}),
        (Gemm(136, 200, 72, "float16", 1, False, True), SWAPPED, {"A": 8, "B": 8}),
        (Gemm(136, 200, 72, "bfloat16"), {}, {"A": 8}),
        (Gemm(136, 200, 72, "float16", 1, True, False), {}, {}),
        (Gemm(128, 192, 72, "float16", 1, False, True), {}, {}),
        (Gemm(124, 192, 72, "float16", 1, False, True), {}, {"A": 60}),
        (Gemm(136, 200, 72, "tf32", 1, False, True), {"chunk": 32}, {"A": 8, "B": 8}),
    ],
    ids=["both", "b-wide", "swapped", "b-across", "across", "whole", "few-beyond", "tf32"],
)
def test_last_rows_along_k_are_loaded_by_boxes_of_as_many(shape, change, rows):
    assert boxes(shape, CHOICE | change) == rows


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "change"),
    [
        (Gemm(88, 90, 136, "float16", 1, False, True), {}),
        (Gemm(40, 72, 136, "bfloat16", 2, False, True), {"frags_n": 12}),
        (Gemm(136, 40, 72, "float16"), {**SWAPPED, "frags_n": 13}),
    ],
    ids=["both", "batch", "swapped"],
)
def test_products_are_right_by_boxes_of_last_rows(shape, change, tmp_path):
    assert boxes(shape, CHOICE | change)
    made = gemm_tma.kernel(shape, CHOICE | change)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=6e-2)
