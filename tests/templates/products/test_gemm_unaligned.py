"""Products of 16-bit floats that read rows where they begin: right in the emulator, and chosen."""

from dataclasses import replace

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_half,
    gemm_padded,
    gemm_skinny,
    gemm_tma_form,
    gemm_unaligned,
    gemm_unaligned_tiling,
)
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_unaligned_form import BOTH, B, Form

from autotune.errors import TemplateError
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
PADDED = gemm_padded.Padded(gemm_half)
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
GELU = Epilogue(bias=True, activation="gelu")
CHOICE = {
    "wgmma": BOTH, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 2, "chunk": 64,
    "stages": 2, "split": 1, "band": 1,
}  # fmt: skip
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "both": (Gemm(66, 71, 75, "float16"), {}),
    "both-bfloat16-wide": (Gemm(131, 275, 199, "bfloat16"), {"warps_m": 8, "band": 8}),
    "both-whole-columns": (Gemm(66, 72, 203, "float16"), {"stages": 3}),
    "both-even": (Gemm(74, 70, 198, "float16"), {}),
    "both-half-of-eight": (Gemm(74, 204, 67, "float16"), {"warps_m": 8}),
    "both-even-both": (Gemm(74, 204, 198, "float16"), {"stages": 3}),
    "b-batch-odd-matrices": (Gemm(65, 197, 67, "bfloat16", 3), {"wgmma": B, "frags_n": 9}),
    "both-classes-of-two-tiles": (Gemm(529, 64, 129, "float16"), {"frags_n": 8}),
    "both-rest": (Gemm(70, 200, 67, "float16", epilogue=REST), {"warps_m": 12}),
    "both-short": (Gemm(9, 65, 3, "float16"), {}),
    "both-57-left": (Gemm(24, 65, 121, "float16"), {}),
    "both-58-left": (Gemm(24, 65, 122, "float16"), {}),
    "both-63-left": (Gemm(24, 65, 127, "bfloat16"), {}),
    "both-1-left": (Gemm(24, 65, 193, "float16"), {"stages": 4}),
    "both-nt": (Gemm(66, 71, 75, "float16", 1, False, True), {"stages": 3}),
    "both-nt-wide": (Gemm(131, 275, 199, "bfloat16", 1, False, True), {"warps_m": 8, "band": 8}),
    "both-nt-58-left": (Gemm(24, 65, 122, "float16", 1, False, True), {}),
    "both-nt-short": (Gemm(9, 65, 5, "float16", 1, False, True, epilogue=REST), {}),
    "b-nt-batch": (
        Gemm(65, 59, 75, "float16", 2, False, True, epilogue=GELU),
        {"wgmma": B, "frags_n": 9},
    ),
    "b": (Gemm(66, 71, 72, "float16"), {"wgmma": B, "frags_n": 9}),
    "b-few-rows": (Gemm(3, 131, 128, "float16"), {"wgmma": B, "warps_m": 8}),
    "b-one-fragment": (Gemm(5, 131, 75, "float16"), {"wgmma": B, "frags_n": 1}),
    "b-nt-one-fragment-rest": (
        Gemm(3, 70, 201, "bfloat16", 1, False, True, epilogue=REST),
        {"wgmma": B, "warps_m": 8, "frags_n": 1, "stages": 3},
    ),
    "b-batch-rest": (Gemm(65, 59, 72, "float16", 2, epilogue=REST), {"wgmma": B, "frags_n": 9}),
    "b-batch-shared": (
        Gemm(65, 67, 136, "bfloat16", 3, shared="a", epilogue=GELU),
        {"wgmma": B, "frags_n": 6},
    ),
    "b-and-copies-of-a": (Gemm(40, 133, 75, "float16", 2), {"wgmma": B, "frags_n": 5}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_right(name, tmp_path):
    shape, changes = PRODUCTS[name]
    made = PADDED.kernel(shape, {**CHOICE, **changes})
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(
        got / scale, wanted / scale, rtol=0, atol=4e-3 if shape.dtype == "float16" else 2e-2
    )


@pytest.mark.many_cases
@pytest.mark.parametrize(("operand", "turned"), [(0, False), (1, False), (0, True), (1, True)])
def test_what_is_infinite_stays_in_its_row_or_column(operand, turned, tmp_path):
    made = PADDED.kernel(Gemm(24, 65, 75, "float16", 1, False, turned), CHOICE)
    arrays = arrays_of(made)
    arrays[operand][(3, -1) if operand == 0 or turned else (-1, 3)] = np.inf
    got, wanted = in_the_emulator(made, tmp_path, arrays)
    assert np.array_equal(np.isfinite(got), np.isfinite(wanted))


def test_only_rows_that_begin_anywhere_are_copied():
    def copied(shape, knob):
        calls = PADDED.kernel(shape, {**CHOICE, "wgmma": knob}).calls
        return [argument for call in calls if call.entry == "pad" for argument in call.args]

    assert copied(Gemm(66, 71, 75, "float16"), BOTH) == []
    assert copied(Gemm(66, 71, 75, "float16"), B) == ["a", "padded_a"]
    assert copied(Gemm(66, 71, 72, "float16"), B) == []


@pytest.mark.parametrize(
    ("shape", "knob", "reason"),
    [
        (Gemm(66, 71, 75, "float16", 1, True), B, r"a must be stored as \[m, k\]"),
        (Gemm(66, 71, 75, "float16", 2), BOTH, "matrices of a batch have any misalignment"),
        (Gemm(66, 71, 72, "float16"), BOTH, "all rows of a are aligned to 16 bytes"),
        (Gemm(7, 71, 75, "float16"), BOTH, "there must be a row of a of each class"),
    ],
)
def test_other_operands_are_refused(shape, knob, reason):
    assert knob not in gemm_unaligned.forms(shape)
    with pytest.raises(TemplateError, match=reason):
        gemm_unaligned.kernel(shape, {**CHOICE, "wgmma": knob})


def test_the_space_of_odd_products_has_choices_without_copies():
    shape = Gemm(1023, 1023, 1023, "float16")
    options = PADDED.candidates(shape)
    assert {B, BOTH} < set(options["wgmma"])
    assert PADDED.violation(shape, {**CHOICE, "frags_n": 16, "stages": 8}, HOPPER) is None
    assert PADDED.violation(shape, {**CHOICE, "frags_m": 2}, HOPPER) is not None
    assert PADDED.violation(shape, {**CHOICE, "frags_n": 16}, Target("cuda -arch=sm_80"))


def test_a_choice_of_another_shape_is_no_choice_of_this_one():
    turned = replace(Gemm(1023, 1023, 1023, "float16"), transpose_a=True)
    assert PADDED.violation(turned, {**CHOICE, "frags_n": 16}, HOPPER) is not None


LARGE = [
    Gemm(2047, 2047, 2047, "float16"),
    Gemm(1024, 50257, 768, "bfloat16"),
    Gemm(197, 50257, 769, "float16", 1, False, True),
    Gemm(2050, 2050, 2050, "float16"),
    Gemm(16, 1500, 5001, "float16"),
    Gemm(12, 16335, 513, "bfloat16", epilogue=GELU),
    Gemm(2047, 2047, 2047, "float16", 1, False, True),
]


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_products_known_to_gain_are_read_as_they_are_untuned(shape):
    choice = PADDED.default_choice(shape, HOPPER)
    assert choice["wgmma"] in gemm_unaligned.FORMS
    assert PADDED.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(1023, 1023, 1023, "float16"),
        Gemm(1000, 1001, 1003, "float16"),
        Gemm(333, 2049, 511, "float16"),
        Gemm(700, 777, 2301, "float16"),
        Gemm(1023, 1025, 1027, "float16"),
        Gemm(1023, 1023, 1023, "float16", 1, False, True),
        Gemm(2047, 2047, 2047, "float16", epilogue=GELU),
    ],
    ids=str,
)
def test_other_products_run_on_copies_untuned(shape):
    assert PADDED.default_choice(shape, HOPPER)["wgmma"] not in gemm_unaligned.FORMS


def test_values_of_the_knob_mean_what_they_meant_in_old_records():
    forms = {knob: Form.of(knob) for knob in range(15, 19)}
    assert forms == {15: Form(0), 16: Form(1), 17: Form(0, 1, 2), 18: Form(1, 1, 2)}


def test_every_value_of_the_knob_is_of_one_family():
    others = {form.knob for form in gemm_tma_form.FORMS}
    others |= {0, 1, gemm_skinny.VALUE, gemm_tma_form.HALO}
    assert others.isdisjoint(gemm_unaligned.FORMS)
    assert all(Form.of(knob).knob == knob for knob in gemm_unaligned.FORMS)


@pytest.mark.parametrize(
    ("form", "changes", "reason"),
    [
        (Form(0, 2, 1), {"frags_n": 32}, "a block without rows"),
        (Form(0, 4, 1), {"frags_n": 8}, "a block without rows"),
        (Form(0, 1, 2), {"frags_n": 5}, "multicast of part of a swizzle"),
        (Form(0, 2, 1), {"frags_n": 12}, None),
    ],
    ids=str,
)
def test_blocks_of_a_cluster_have_work(form, changes, reason):
    shape = Gemm(187, 7861, 3195, "float16")
    choice = {**CHOICE, "wgmma": form.knob, "stages": 4, **changes}
    assert gemm_unaligned.violation(shape, choice, HOPPER) == reason


@pytest.mark.parametrize(
    ("form", "changes", "reason"),
    [
        (Form(0), {"frags_n": 2, "split": 4}, "a reduction of parts of fragments"),
        (Form(0, 4, 1), {"frags_n": 2, "split": 4}, "a cluster of more than eight blocks"),
        (Form(0), {"frags_n": 8, "split": 8}, "more ranges than run at a time"),
        (Form(0), {"frags_n": 8, "split": 2}, None),
        (Form(0, 2, 1), {"frags_n": 4, "split": 2}, None),
    ],
    ids=str,
)
def test_ranges_of_k_run_together(form, changes, reason):
    shape = Gemm(64, 2093, 2315, "float16")
    choice = {**CHOICE, "wgmma": form.knob, "stages": 4, **changes}
    assert gemm_unaligned.violation(shape, choice, HOPPER) == reason


def test_larger_clusters_leave_some_multiprocessors_idle():
    shape = Gemm(206, 1002, 7566, "float16", 1, False, True)
    choice = {**CHOICE, "wgmma": B, "stages": 6}
    for split, frags, blocks in ((2, 16, 132), (3, 18, 117), (6, 18, 102), (8, 16, 120)):
        tiling = gemm_unaligned_tiling.Tiling(shape, {**choice, "frags_n": frags, "split": split})
        assert (tiling.resident(HOPPER), tiling.at_a_time(HOPPER)) == (1, blocks)
    small = {**choice, "frags_n": 5, "stages": 2, "split": 5}
    tiling = gemm_unaligned_tiling.Tiling(Gemm(40, 71, 1920, "float16"), small)
    assert (tiling.resident(HOPPER), tiling.at_a_time(HOPPER)) == (2, 5 * 47)


@pytest.mark.parametrize(
    ("form", "frags", "boxes"),
    [
        (Form(0), 12, [96, 48]),  # rows 96 to 137
        (Form(0), 18, [144]),
        (Form(0, 1, 2), 20, [80, 64]),
        (Form(1), 2, [16] * 8 + [8] * 8),  # rows 16 and 17 of a class
    ],
    ids=str,
)
def test_the_last_rows_of_a_are_loaded_by_boxes_of_as_many(form, frags, boxes):
    shape = Gemm(138, 3795, 4217, "float16", 1, False, True)
    tiling = gemm_unaligned_tiling.Tiling(shape, {**CHOICE, "wgmma": form.knob, "frags_n": frags})
    maps = [
        [int(word.strip(" u"), 0) for word in each.strip("{} ").split(",")]
        for each in tiling.a_maps(4224).split("}}, ")
    ]
    assert [(words[14] & 0xFF) + 1 for words in maps] == boxes


def test_a_large_b_beside_an_a_of_even_rows_along_m_is_no_matter_of_these_kernels():
    shape = Gemm(406, 5028, 3716, "float16", 1, True, True)
    assert not gemm_unaligned.reads_large_b(shape)
    task = create("gemm.cuda", (406, 5028, 3716, "float16", 1, True, True), HOPPER)
    entries = [one.entry for one in task.instantiate(task.default()).kernel("cuda").calls]
    assert entries == ["pad", "gemm_tma"]


def test_three_tiles_of_rows_share_columns_of_b_untuned():
    choice = PADDED.default_choice(Gemm(235, 4831, 2341, "float16"), HOPPER)
    assert (Form.of(choice["wgmma"]), 8 * choice["frags_n"]) == (Form(0, 3, 1), 80)


def test_blocks_of_a_cluster_take_a_range_of_k_each():
    shape = Gemm(64, 2093, 2315, "float16")
    source = PADDED.kernel(shape, {**CHOICE, "wgmma": B, "frags_n": 8, "stages": 4, "split": 2})
    assert source.calls[-1].launch.grid == (33, 1, 2)
    assert source.defines["CLUSTER_REDUCE"] == 1


def test_tiles_of_few_rows_share_what_they_load_of_a_large_b():
    shape = Gemm(187, 7860, 3195, "float16")
    choice = PADDED.default_choice(shape, HOPPER)
    rows = Form.of(choice["wgmma"]).cluster_m
    assert rows > 1
    source = PADDED.kernel(shape, choice)
    assert source.defines["CLUSTER_M"] == rows
    assert source.calls[-1].launch.grid[0] % rows == 0


def test_copies_that_the_cache_does_not_hold_are_estimated_to_take_longer():
    near, far = (gemm_unaligned.copying_cycles(millions * 10**6) for millions in (8, 24))
    assert far > 3.5 * near


def test_long_sums_on_copies_are_multiplied_by_tma_where_the_estimate_is_less_untuned():
    shape = Gemm(700, 777, 2301, "float16")
    assert gemm_half.by_boxes(PADDED.choice_on_copies(shape, HOPPER))
