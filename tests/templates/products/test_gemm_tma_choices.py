"""Products whose operands boxes bring: which choices there are."""

import shutil

import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_half,
    gemm_tma,
    gemm_tma_tiling,
)
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import Form

from autotune.errors import TemplateError
from tests.templates.assembled import spilled
from tests.templates.products.test_gemm_tma import (
    BIAS,
    CHOICE,
    HOPPER,
    JOINED,
    REST,
    SWAPPED,
)


@pytest.mark.parametrize(
    ("change", "k_tiles"),
    [
        ({}, 3),
        ({"wgmma": 4}, 3),
        ({"wgmma": 6}, 0),
        ({"frags_n": 12}, 0),
        ({"warps_m": 4}, 0),
        ({"chunk": 128, "stages": 3}, 2),
        ({"chunk": 128, "frags_n": 16, "split": 4}, 0),
    ],
    ids=["two", "cooperative", "ping-pong", "narrow", "one", "long-K-tiles", "short-range"],
)
def test_warpgroups_of_wide_tiles_multiply_the_last_k_tiles_in_order(change, k_tiles):
    choice = {**CHOICE, "warps_m": 8, "frags_n": 32, "stages": 4, **change}
    shape = Gemm(1024, 1024, 1024, "float16")
    assert gemm_tma.TmaTiling(shape, choice).ordered == k_tiles


def test_a_box_outside_of_its_matrix_is_not_asked_for():
    shape = Gemm(128, 128, 192, "float16", 1, False, True)
    choice = {**CHOICE, "chunk": 128}
    assert gemm_tma.violation(shape, choice, HOPPER) == "a TMA box beyond K"
    with pytest.raises(TemplateError, match="a TMA box beyond K"):
        gemm_tma.kernel(shape, choice)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wgmma": gemm_tma.Form(0, 2).knob, "frags_n": 9}, "multicast of part of a panel"),
        (
            {"wgmma": gemm_tma.Form(0, 2, 0, 2, 1).knob, "frags_n": 16, "split": 4, "band": 2},
            "a cluster of more than eight blocks",
        ),
        ({"wgmma": gemm_tma.Form(1, 1).knob, "split": 2}, "split-K in a persistent kernel"),
        ({"split": 8, "chunk": 128}, "an empty range"),
        ({"warps_m": 12, "frags_m": 2}, "a TMA box of too many rows"),
        ({"split": 2, "frags_n": 9}, "sums that are not a multiple of the reducing blocks"),
        ({"wgmma": JOINED.knob, "split": 2, "frags_n": 9}, "a reduction of parts of fragments"),
        ({"wgmma": JOINED.knob}, "a cluster reduction without split-K"),
    ],
    ids=["multicast", "cluster", "persistent", "empty", "rows", "sums", "reduction", "one-range"],
)
def test_a_choice_whose_results_would_be_wrong_is_an_error_that_says_so(change, message):
    shape, choice = Gemm(1024, 1024, 640, "float16"), {**CHOICE, "stages": 4, **change}
    assert gemm_tma.violation(shape, choice, HOPPER) == message
    with pytest.raises(TemplateError, match=message):
        gemm_tma.kernel(shape, choice)


@pytest.mark.parametrize(("fragments", "together"), [(24, True), (25, False)])
def test_two_blocks_fit_only_if_sums_and_a_left_operand_in_registers_can_be_assembled(
    fragments, together, tmp_path
):
    shape = Gemm(2048, 2048, 512, "tf32")
    change = {"wgmma": Form(0, 1, 1).knob, "frags_n": fragments, "chunk": 32, "stages": 3}
    change |= {"warps_m": 4, "frags_m": 1, "split": 1, "band": 1}
    tiling = gemm_tma_tiling.TmaTiling(shape, {**CHOICE, **change})
    assert tiling.left_in_registers
    assert tiling.fits(1, HOPPER)
    assert tiling.fits(2, HOPPER) == together
    if shutil.which("nvcc") is None:
        return
    kernel = gemm_tma.kernel(shape, tiling.choice).kernel("cuda")
    assert spilled(kernel, tmp_path)


def test_split_k_within_a_cluster_needs_neither_a_second_kernel_nor_a_workspace():
    shape = Gemm(1024, 1024, 1024, "float16")
    source = gemm_tma.kernel(shape, {**CHOICE, "wgmma": JOINED.knob, "split": 4, "stages": 4})
    assert [one.entry for one in source.calls] == ["gemm_tma"]
    assert source.calls[0].launch.grid == (256, 1, 4)
    assert not source.workspace


def test_a_cluster_that_reduces_split_k_may_multicast_too():
    form, shape = gemm_tma.Form(0, 2, 0, 2, 1), Gemm(1024, 1024, 1024, "float16")
    choice = {**CHOICE, "wgmma": form.knob, "frags_n": 16, "split": 2, "stages": 6, "band": 2}
    source = gemm_tma.kernel(shape, choice)
    assert gemm_tma.TmaTiling(shape, choice).cluster_blocks == 8
    assert source.calls[0].launch.grid == (16 * 8, 1, 2)
    assert [source.defines[name] for name in ("CLUSTER_M", "CLUSTER_N", "SPLIT")] == [2, 2, 2]


def test_swapped_operands_share_sums_within_a_cluster_and_start_with_a_residual():
    added = Epilogue(residual=True, activation="relu")
    form, shape = gemm_tma.Form(0, 2, 1, 1, 1), Gemm(197, 768, 3072, "float16", epilogue=added)
    choice = {**CHOICE, "wgmma": form.knob, "frags_n": 6, "split": 2, "stages": 4, "band": 2}
    assert gemm_tma.violation(shape, choice, HOPPER) is None
    source = gemm_tma.kernel(shape, choice)
    assert source.calls[0].launch.grid == (12 * 5, 1, 2)
    wanted = {
        "SWAP_AB": 1,
        "CLUSTER_REDUCE": 1,
        "RESIDUAL_FIRST": 1,
        "RESIDUAL": 0,
        "BOX_ROWS": 24,
    }
    assert {name: source.defines[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("shape", "forms"),
    [
        (Gemm(296, 1912, 3224, "bfloat16"), {(1, 2), (2, 4), "reduce"}),
        (Gemm(1536, 2048, 768, "float16"), {(1, 2), (2, 4)}),
        (Gemm(4096, 4096, 4096, "float16"), {(1, 2)}),
        (Gemm(64, 4096, 4096, "float16"), set()),
        (Gemm(512, 512, 512, "int8", 1, False, True), set()),
    ],
    ids=["few-results", "more", "many-results", "few-rows", "integers"],
)
def test_large_clusters_are_offered_where_all_can_run_at_the_same_time(shape, forms):
    offered = [gemm_tma.Form.of(knob) for knob in gemm_half.candidates(shape)["wgmma"]]
    found = {(form.cluster_m, form.cluster_n) for form in offered if not form.cluster_reduce}
    reduces = {"reduce"} if gemm_tma.Form(0, 2, 0, 2, 1) in offered else set()
    assert (found & {(1, 2), (2, 4)}) | reduces == forms


@pytest.mark.parametrize(
    ("epilogue", "split", "message"),
    [
        (
            REST,
            1,
            "more than a bias, residual or factor, and an activation, after swapped operands",
        ),
        (BIAS, 2, "split-K of swapped operands by two kernels"),
    ],
    ids=["residual", "split"],
)
def test_what_swapped_operands_cannot_be_is_an_error_that_says_so(epilogue, split, message):
    shape = Gemm(128, 128, 256, "float16", epilogue=epilogue)
    choice = {**CHOICE, "wgmma": SWAPPED.knob, "split": split}
    assert gemm_tma.violation(shape, choice, HOPPER) == message
    with pytest.raises(TemplateError, match=message):
        gemm_tma.kernel(shape, choice)


def test_integers_are_swapped_only_for_an_operand_that_is_not_k_major():
    choice = {**CHOICE, "wgmma": SWAPPED.knob, "warps_m": 8}
    across = Gemm(128, 128, 256, "int8")
    assert gemm_tma.violation(across, choice, HOPPER) is None
    along_k = Gemm(128, 128, 256, "int8", 1, False, True)
    message = "swapped operands of integers that are both K-major"
    assert gemm_tma.violation(along_k, choice, HOPPER) == message
    with pytest.raises(TemplateError, match=message):
        gemm_tma.kernel(along_k, choice)


@pytest.mark.parametrize(
    ("shape", "width", "message"),
    [
        (Gemm(704, 1000, 1000, "float16", 1, False, True), 16, None),
        (Gemm(704, 64, 1000, "float16", 1, False, True), 8, "a block without columns"),
        (Gemm(704, 1000, 1000, "float16", 1, True), 15, None),
        (Gemm(2048, 2048, 1024, "float16"), 16, "more clusters than run at a time"),
    ],
    ids=["fits", "few-columns", "panels-in-turn", "many-tiles"],
)
def test_clusters_that_multicast_both_operands_have_rules_of_their_own(shape, width, message):
    form = gemm_tma.Form(0, 2, 0, 2)
    choice = {**CHOICE, "wgmma": form.knob, "frags_n": width, "band": 8}
    assert gemm_tma.violation(shape, choice, HOPPER) == message


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Gemm(128, 132, 128, "float16"), "must be multiples of 8 elements"),
        (Gemm(128, 128, 128, "tf32", 1, True), "one operand of floats must be K-major"),
        (Gemm(128, 128, 128, "tf32"), "an MN-major right operand of floats"),
        (Gemm(128, 128, 128, "int8"), "an MN-major right operand of floats or integers"),
        (Gemm(128, 128, 128, "int8", 1, True), "one operand of integers must be K-major"),
        (Gemm(128, 128, 128, "int8", 1, True, True), "half a panel of integers"),
        (Gemm(128, 128, 136, "int8", 1, False, True), "must be multiples of 16 elements"),
    ],
    ids=["odd", "tf32-tn", "tf32-nn", "int8-nn", "int8-tn", "int8-tt", "int8-any-k"],
)
def test_what_tma_cannot_load_is_an_error_that_says_so(shape, message):
    with pytest.raises(TemplateError, match=message):
        gemm_tma.kernel(shape, CHOICE)


def test_forms_are_values_of_the_knob():
    assert [gemm_tma.Form.of(form.knob) for form in gemm_tma.FORMS] == list(gemm_tma.FORMS)
    assert min(form.knob for form in gemm_tma.FORMS) > 1  # those are of other families


@pytest.mark.parametrize(
    ("shape", "form", "boxes"),
    [
        (Gemm(70, 100, 72, "float16", 1, False, True), gemm_tma.Form(0, 1), [6, 36]),
        (Gemm(26, 100, 72, "bfloat16", 1, False, True), gemm_tma.Form(0, 1), [26, 36]),
        (Gemm(70, 128, 144, "int8", 1, False, True), gemm_tma.Form(0, 1), [6, 0]),
        (Gemm(70, 100, 72, "tf32", 1, False, True), gemm_tma.Form(1, 1), [6, 36]),
        (Gemm(170, 100, 72, "float16", 1, False, True), gemm_tma.Form(0, 1, 0, 2), [10, 36]),
        (Gemm(3, 104, 72, "float16"), SWAPPED, [0, 3]),
        (Gemm(72, 104, 70, "float16", 1, True), gemm_tma.Form(0, 1), [0, 0]),
        (Gemm(128, 128, 72, "float16", 1, False, True), gemm_tma.Form(0, 1), [0, 0]),
    ],
    ids=["both", "few-rows", "int8", "tf32", "parts-of-a-cluster", "swapped", "across", "whole"],
)
def test_no_rows_beyond_an_operand_are_loaded(shape, form, boxes):
    choice = {**CHOICE, "wgmma": form.knob, "chunk": 32 if shape.dtype == "tf32" else 64}
    maps = gemm_tma.TmaTiling(shape, choice).maps(shape)
    words = [maps.get(f"{side}_LAST_MAP", "0").split(", ") for side in "AB"]
    assert [int(each[14].rstrip("u"), 16) + 1 if len(each) > 14 else 0 for each in words] == boxes
