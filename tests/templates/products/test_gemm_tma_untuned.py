"""Products whose operands boxes bring: which choice is taken untuned."""

from dataclasses import replace

import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_half,
    gemm_padded,
    gemm_tma,
    gemm_tma_tiling,
    gemm_tma_untuned,
    gemm_transposed,
)
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import Form

from autotune.target import Target
from tests.templates.products.test_gemm_tma import (
    BIAS,
    GELU,
    HOPPER,
)


@pytest.mark.parametrize(
    ("shape", "schedule", "tile", "split"),
    [
        (Gemm(4096, 4096, 4096, "float16"), 1, (128, 256), 1),
        (Gemm(2048, 2048, 2048, "float16", 1, False, True, "", GELU), 0, (128, 256), 1),
        (Gemm(1792, 1792, 1792, "float16"), 0, (200, 128), 1),
        (Gemm(512, 512, 8192, "float16"), 0, (64, 128), 4),
        (Gemm(256, 256, 2560, "float16", 1, False, True), 0, (64, 64), 4),
    ],
    ids=["many-tiles", "followed", "one-for-each-multiprocessor", "long-sums", "joined"],
)
def test_products_that_are_known_to_gain_run_by_boxes_untuned(shape, schedule, tile, split):
    choice = gemm_half.default_choice(shape, HOPPER)
    form, tiling = gemm_tma.Form.of(choice["wgmma"]), gemm_tma.TmaTiling(shape, choice)
    taken = (tiling.tile_m, tiling.tile_n)
    assert (form.schedule, choice["split"]) == (schedule, split)
    assert (taken[::-1] if form.swapped else taken) == tile
    assert gemm_half.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize(
    ("sizes", "boxes"),
    [((512, 4096, 4096), True), ((32, 4096, 4096), True), ((999, 1001, 1008), True),
     ((20, 258, 39440), True), ((217, 3769, 80), True),
     ((16, 4096, 2048), False), ((64, 512, 512), False), ((1024, 1024, 64), False)],
    ids=str,
)  # fmt: skip
def test_products_of_integers_are_by_boxes_untuned_where_these_win(sizes, boxes):
    shape = Gemm(*sizes, "int8", 1, False, True)
    choice = gemm_half.default_choice(shape, HOPPER)
    assert (choice["wgmma"] > 1) == boxes
    assert gemm_half.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize("n", [1280, 1536, 1792, 2304, 2560, 3072])
def test_tiles_are_such_that_few_multiprocessors_wait_in_the_last_step(n):
    shape = Gemm(n, n, n, "float16")
    tiling = gemm_tma.TmaTiling(shape, gemm_tma.default_choice(shape, HOPPER))
    steps = -(-tiling.tiles // gemm_tma_tiling.MULTIPROCESSORS)
    assert n * n > 0.8 * steps * gemm_tma_tiling.MULTIPROCESSORS * tiling.tile_m * tiling.tile_n


def test_of_tiles_side_by_side_the_narrowest_are_offered():
    assert [8 * width for width in gemm_tma_tiling.widths(768)][-4:] == [128, 160, 192, 256]
    assert 200 // 8 in gemm_tma_tiling.widths(1792)
    assert 208 // 8 not in gemm_tma_tiling.widths(1792)


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(8, 5888, 920, "float16", 1, True, True, "", GELU),
        Gemm(24, 24528, 1432, "float16", 1, True),
        Gemm(8, 4056, 8904, "float16", 1, True),
        Gemm(2048, 2048, 64, "float16", 1, False, True, "", Epilogue(residual=True)),
    ],
    ids=["few-rows-across", "few-rows-across-wide", "few-rows-across-long", "residual-short"],
)
def test_others_keep_copies_of_16_bytes_untuned_and_have_boxes_in_their_space(shape):
    assert gemm_half.default_choice(shape, HOPPER)["wgmma"] == 1
    assert max(gemm_half.candidates(shape)["wgmma"]) > 1


@pytest.mark.parametrize(
    ("n", "boxes"), [(1104, True), (5000, True), (1280, False), (4096, False)]
)
def test_few_rows_as_k_by_m_run_by_boxes_untuned_where_rows_of_b_straddle_lines(n, boxes):
    choice = gemm_half.default_choice(Gemm(48, n, 2048, "float16", 1, True), HOPPER)
    assert gemm_half.by_boxes(choice) == boxes


@pytest.mark.parametrize(
    ("sizes", "turned"), [((24, 4560, 2016), False), ((24, 5544, 1320), True)]
)
def test_few_rows_as_k_by_m_have_tall_tiles_of_b_and_several_ranges_untuned(sizes, turned):
    shape = Gemm(*sizes, "float16", 1, True, turned)
    choice = gemm_half.default_choice(shape, HOPPER)
    tiling = gemm_tma.TmaTiling(shape, choice)
    assert tiling.form.swapped
    assert tiling.form.cluster_reduce
    assert (tiling.tile_m, choice["split"]) == (192, 4)


@pytest.mark.parametrize(
    ("sizes", "turned"),
    [((32, 4096, 4096), True), ((24, 5376, 904), False), ((16, 736, 5504), True)],
)
def test_sixteen_rows_as_k_by_m_split_k_in_clusters_of_swapped_operands_untuned(sizes, turned):
    shape = Gemm(*sizes, "float16", 1, True, turned)
    form = gemm_tma.TmaTiling(shape, gemm_half.default_choice(shape, HOPPER)).form
    assert (form.swapped, form.cluster_reduce) == (1, 1)


@pytest.mark.parametrize("sizes", [(8, 736, 6552), (16, 1424, 7736)])
def test_few_rows_as_k_by_m_have_no_narrow_tiles_of_long_sums_untuned(sizes):
    shape = Gemm(*sizes, "float16", 1, True, True)
    choice = gemm_half.default_choice(shape, HOPPER)
    assert gemm_half.by_boxes(choice)
    assert choice["frags_n"] >= 8


@pytest.mark.parametrize("k", [256, 1024, 4096])
def test_long_sums_with_a_residual_are_loaded_by_boxes_untuned(k):
    shape = Gemm(1024, 1024, k, "float16", 1, False, True, "", Epilogue(residual=True))
    assert gemm_half.by_boxes(gemm_half.default_choice(shape, HOPPER))


@pytest.mark.parametrize("turned", [False, True])
def test_long_sums_of_few_rows_with_a_residual_are_shared_within_clusters_untuned(turned):
    added = Epilogue(bias=True, residual=True)
    shape = Gemm(197, 768, 3072, "float16", 1, False, turned, "", added)
    assert Form.of(gemm_half.default_choice(shape, HOPPER)["wgmma"]).cluster_reduce


def test_persistent_kernels_do_not_swap_operands_untuned_where_they_need_not():
    form = Form.of(gemm_half.default_choice(Gemm(3200, 3200, 3200, "float16"), HOPPER)["wgmma"])
    assert form.persistent
    assert not form.swapped


@pytest.mark.parametrize("sizes", [(4608, 1115, 104), (2205, 4100, 30), (1000, 1115, 300)])
def test_floats_of_rows_that_are_no_whole_sectors_are_written_in_strips_untuned(sizes):
    shape = Gemm(*sizes, "tf32")
    choice = gemm_transposed.default_choice(shape, HOPPER)
    whole = gemm_transposed.k_major(shape, choice["wgmma"])
    assert gemm_tma.TmaTiling(whole, choice).float_strip_bytes > 0


def test_residuals_of_floats_decide_which_operand_is_the_left_one_untuned():
    even = Gemm(1024, 1024, 512, "tf32", 1, False, True)
    assert Form.of(gemm_half.default_choice(even, HOPPER)["wgmma"]).swapped
    added = replace(even, epilogue=Epilogue(residual=True))
    assert not Form.of(gemm_half.default_choice(added, HOPPER)["wgmma"]).swapped


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(1023, 1023, 1023, "float16"),
        Gemm(1023, 1025, 1021, "bfloat16"),
        Gemm(1000, 1001, 1003, "float16"),
        Gemm(2008, 687, 281, "float16", 1, False, True),
    ],
    ids=str,
)
def test_rows_that_begin_anywhere_are_written_in_strips_untuned(shape):
    padded = gemm_padded.Padded(gemm_half)
    choice = padded.default_choice(shape, HOPPER)
    tiling = gemm_tma.TmaTiling(gemm_padded.padded(shape), choice)
    assert padded.violation(shape, choice, HOPPER) is None
    assert tiling.strips
    assert choice["split"] == tiling.form.cluster_m == 1


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(97, 1031, 767, "float16"),
        Gemm(1023, 1023, 1023, "float16", epilogue=BIAS),
    ],
    ids=["few-rows", "followed"],
)
def test_other_odd_sizes_keep_copies_of_16_bytes_untuned(shape):
    assert gemm_padded.Padded(gemm_half).default_choice(shape, HOPPER)["wgmma"] == 1


@pytest.mark.parametrize("sizes", [(1361, 1383, 1567), (1487, 1409, 1451), (1533, 1355, 1029)])
def test_one_warpgroup_writes_narrow_tiles_in_strips_untuned(sizes):
    whole = gemm_padded.padded(Gemm(*sizes, "float16"))
    choice = gemm_tma.default_choice(whole, HOPPER, strips=True)
    assert choice["frags_n"] > gemm_tma_untuned.NARROW_STRIPS or choice["warps_m"] == 4


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(197, 50257, 768, "float16", 1, False, True),
        Gemm(1023, 1023, 1024, "bfloat16", 1, False, True),
        Gemm(2048, 2060, 2048, "float16", 1, False, True),
    ],
    ids=str,
)
def test_results_that_begin_anywhere_are_written_in_strips_untuned(shape):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert gemm_half.violation(shape, choice, HOPPER) is None
    assert gemm_tma.TmaTiling(shape, choice).strips
    assert choice["wgmma"] > 1


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(64, 50257, 768, "float16", 1, False, True),
        Gemm(1023, 1023, 1024, "float16", 1, False, True, epilogue=BIAS),
        Gemm(512, 511, 64, "float16", 1, False, True),
    ],
    ids=["few-rows", "followed", "short"],
)
def test_other_results_that_begin_anywhere_are_not(shape):
    assert gemm_half.default_choice(shape, HOPPER)["wgmma"] < 2


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, True)], ids=str)
def test_untuned_products_of_floats_can_run_however_operands_stand(transposed):
    shape = Gemm(780, 1032, 136, "tf32", 2, *transposed)
    target = Target("cuda -arch=sm_90")
    choice = gemm_tma.default_choice(shape, target)
    assert gemm_tma.violation(shape, choice, target) is None


@pytest.mark.parametrize(
    ("shape", "form"),
    [
        (Gemm(1496, 232, 1952, "bfloat16"), (2, 4, 1, 0)),
        (Gemm(296, 1912, 3224, "bfloat16"), (2, 4, 1, 0)),
        (Gemm(600, 1000, 3000, "float16", 1, False, True), (2, 4, 0, 0)),
        (Gemm(368, 640, 2624, "float16"), (2, 2, 0, 1)),
    ],
    ids=str,
)
def test_long_sums_of_few_tiles_run_in_large_clusters_untuned(shape, form):
    found = gemm_tma.Form.of(gemm_half.default_choice(shape, HOPPER)["wgmma"])
    assert (found.cluster_m, found.cluster_n, found.swapped, found.cluster_reduce) == form


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(512, 4096, 14336, "bfloat16", 1, False, True),
        Gemm(1928, 2264, 2720, "bfloat16"),
        Gemm(1440, 2720, 3672, "float16"),
    ],
    ids=str,
)
def test_wide_tiles_that_keep_tensor_cores_busy_run_in_small_clusters_untuned(shape):
    choice = gemm_half.default_choice(shape, HOPPER)
    form = gemm_tma.Form.of(choice["wgmma"])
    assert form.cluster_m * form.cluster_n <= 2 or choice["chunk"] > 64


@pytest.mark.parametrize(
    ("shape", "rows", "band"),
    [
        (Gemm(384, 1024, 4096, "float16", 1, False, True), 16, 4),
        (Gemm(197, 3072, 768, "float16"), 48, 1),
        (Gemm(300, 4608, 3584, "float16", 1, False, True), 5, 8),
    ],
    ids=str,
)
def test_untuned_tiles_run_in_bands_by_which_blocks_share_operands(shape, rows, band):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert gemm_half.violation(shape, choice, HOPPER) is None
    tiles = gemm_tma.TmaTiling(shape, choice).blocks[0]
    assert (tiles, choice["band"]) == (rows, band)


@pytest.mark.parametrize(
    ("shape", "knob"),
    [
        (Gemm(336, 320, 560, "bfloat16"), 2),
        (Gemm(656, 184, 192, "float16", 1, True), 2),
        (Gemm(872, 2720, 112, "bfloat16"), 2),
        (Gemm(72, 72, 16, "bfloat16", 106, True, True), 2),
        (Gemm(16, 512, 512, "float16", 1, False, True), 2),
        (Gemm(197, 3072, 768, "float16", 1, False, True, "", GELU), 2),
        (Gemm(320, 24, 12192, "bfloat16", epilogue=Epilogue(residual=True)), 2),
        (Gemm(160, 176, 360, "float16", 1, False, True), 0),
        (Gemm(856, 40, 176, "bfloat16"), 0),
    ],
    ids=[
        "nn", "left-across", "short-sums", "batch", "few-rows", "followed",
        "residual-of-long-sums", "tiny", "tiny-of-few-columns",
    ],
)  # fmt: skip
def test_short_products_are_loaded_by_tma_and_tiny_ones_multiplied_by_mma(shape, knob):
    assert min(gemm_half.default_choice(shape, HOPPER)["wgmma"], 2) == knob


@pytest.mark.parametrize("sizes", [(128, 64, 192), (160, 176, 360)])
def test_the_untuned_choice_of_tiny_products_is_in_their_space(sizes):
    shape = Gemm(*sizes, "float16")
    choice = gemm_half.default_choice(shape, HOPPER)
    assert choice["wgmma"] == 0
    assert gemm_half.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize(
    ("shape", "swapped"),
    [
        (Gemm(64, 7232, 8384, "float16", 1, False, True), True),
        (Gemm(32, 4096, 4096, "float16", 1, False, True), True),
        (Gemm(16, 128, 26840, "bfloat16", 1, True, True), False),
        (Gemm(24, 616, 18048, "float16", 1, True), False),
        (Gemm(64, 256, 99456, "float16", 1, False, True), False),
        (Gemm(8, 816, 576, "bfloat16", 1, True), True),
        (Gemm(40, 768, 720, "bfloat16", 1, True), True),
        (Gemm(8, 816, 576, "float16", 1, True, epilogue=Epilogue(affine=True)), False),
    ],
    ids=[
        "far", "near", "left-across", "left-across-nn", "few-columns", "short-left-across",
        "more-rows-across", "scaled-left-across",
    ],
)  # fmt: skip
def test_few_rows_swap_operands_untuned_where_that_loads_less(shape, swapped):
    knob = gemm_half.default_choice(shape, HOPPER)["wgmma"]
    assert knob in {form.knob for form in gemm_tma.FORMS}
    assert gemm_tma.Form.of(knob).swapped == swapped


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(32, 32, 4096, "tf32", 1, False, True),
        Gemm(64, 64, 1024, "tf32"),
        Gemm(24, 128, 1000, "tf32"),
        Gemm(128, 128, 256, "tf32", 1, False, True),
        Gemm(48, 96, 160, "tf32", 1, False, True),
        Gemm(32, 5856, 1536, "tf32", 1, True, True),
        Gemm(48, 2048, 1024, "tf32", 1, True, True),
    ],
    ids=str,
)
def test_small_products_as_tf32_of_more_than_128_terms_run_by_tma(shape):
    assert gemm_half.by_boxes(gemm_half.default_choice(shape, HOPPER))


def test_few_results_are_split_into_as_many_ranges_as_fill_the_device():
    shape = Gemm(64, 152, 35200, "bfloat16")
    choice = gemm_half.default_choice(shape, HOPPER)
    assert 96 < gemm_tma.TmaTiling(shape, choice).tiles * choice["split"] <= 132


def test_few_results_may_have_more_ranges_of_k():
    assert max(gemm_tma.candidates(Gemm(192, 64, 14560, "float16"))["split"]) == 66
    assert max(gemm_tma.candidates(Gemm(512, 512, 8192, "float16"))["split"]) == 8


def test_odd_widths_write_no_longer_where_rows_of_results_are_unaligned():
    shape = Gemm(1137, 1043, 1088, "float16", 1, False, True)
    choice = {
        "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 19, "chunk": 64,
        "stages": 8, "split": 1, "band": 2,
    }  # fmt: skip

    def longer(**other):
        aligned, strips = (
            gemm_tma.estimate(shape, choice | other, HOPPER, strips=s) for s in (False, True)
        )
        return aligned > strips

    assert longer()
    assert not longer(frags_n=20)
    assert not longer(wgmma=8)  # columns of such a tile are rows of the result


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(64, 10464, 1216, "tf32", epilogue=Epilogue(bias=True, activation="silu")),
        Gemm(228, 3372, 820, "tf32"),
    ],
    ids=str,
)
def test_a_left_operand_from_registers_is_multiplied_by_two_warpgroups_untuned(shape):
    choice = gemm_tma.default_choice(shape, HOPPER)
    assert (choice["warps_m"], choice["frags_m"]) == (8, 1)


@pytest.mark.parametrize(
    ("sizes", "turned"), [((136, 1696, 3336), True), ((672, 280, 816), False)], ids=str
)
def test_narrow_tiles_have_an_even_number_of_fragments_untuned(sizes, turned):
    shape = Gemm(*sizes, "bfloat16", transpose_b=turned)
    assert gemm_half.default_choice(shape, HOPPER)["frags_n"] == 6
