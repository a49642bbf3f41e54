"""Products of 16-bit floats on copies whose rows vectors can read: where they gain."""

import subprocess

import numpy as np
import pytest
from autotune.templates import source
from autotune.templates.products import gemm_half, gemm_padded, gemm_tma
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_tiling import TmaTiling

from autotune.errors import TemplateError
from autotune.target import Target
from tests.templates.assembled import needs_nvcc
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
PADDED = gemm_padded.Padded(gemm_half)
LARGE = [
    Gemm(1028, 1028, 1028, "float16"),
    Gemm(197, 3074, 770, "bfloat16", 1, False, True),
    Gemm(1024, 1024, 1026, "float16"),
]


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_products_of_even_rows_gain_by_copies_where_there_is_wgmma(shape):
    assert gemm_padded.gains(shape, HOPPER)
    assert not gemm_padded.is_needed(shape)
    assert not gemm_padded.gains(shape, Target("cuda -arch=sm_80"))


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(333, 300, 202, "float16"),
        Gemm(512, 1000, 514, "float16"),
        Gemm(4, 4098, 4098, "float16"),
        Gemm(1024, 1024, 1024, "float16"),
        Gemm(1024, 1026, 1024, "float16", 1, False, True),
    ],
    ids=["small", "few-results", "few-rows", "whole", "whole-operands"],
)
def test_other_products_of_even_rows_are_read_as_they_are(shape):
    assert not gemm_padded.gains(shape, HOPPER)


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(32, 4098, 4098, "float16"),
        Gemm(64, 4098, 4098, "float16"),
        Gemm(128, 8194, 1026, "bfloat16", 1, False, True),
        Gemm(274, 1746, 5040, "float16"),
    ],
    ids=str,
)
def test_a_large_b_of_few_even_rows_is_read_without_copies_of_it_untuned(shape):
    assert gemm_padded.gains(shape, HOPPER)
    assert not gemm_padded.gains(shape, Target("cuda -arch=sm_80"))
    with HOPPER:
        untuned = source.gemm_cuda_any(
            shape.m, shape.n, shape.k, shape.dtype, transpose_b=shape.transpose_b
        )
    assert untuned.calls[-1].entry == "gemm_unaligned"
    assert "padded_b" not in [one.name for one in untuned.workspace]


def test_a_large_product_of_even_rows_is_two_kernels_untuned():
    with HOPPER:
        untuned = source.gemm_cuda_any(1030, 1030, 1030, "float16")
    assert [call.entry for call in untuned.calls] == ["pad", "gemm_tma"]


def test_copies_of_even_rows_are_right(tmp_path):
    shape = Gemm(66, 74, 70, "float16", 2)
    made = PADDED.kernel(shape, gemm_half.choice_without_tma(gemm_padded.padded(shape), HOPPER))
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)


def test_long_rows_of_copies_begin_at_lines_of_the_cache():
    whole = gemm_padded.padded(Gemm(1000, 1001, 1003, "float16"))
    assert (whole.m, whole.n, whole.k) == (1000, 1024, 1024)
    short = gemm_padded.padded(Gemm(300, 301, 302, "float16"))
    assert (short.m, short.n, short.k) == (300, 304, 304)


def test_rows_of_vectors_are_not_copied_to_begin_at_lines():
    shape = Gemm(1000, 1001, 1000, "float16")
    whole = gemm_padded.padded(shape)
    assert (whole.n, whole.k) == (1024, 1000)


def test_copies_of_long_rows_are_right(tmp_path):
    shape = Gemm(65, 521, 515, "float16")
    choice = gemm_half.choice_without_tma(gemm_padded.padded(shape), HOPPER)
    made = PADDED.kernel(shape, choice)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=6e-2)


BOXES = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "changes", "copied"),
    [
        (Gemm(66, 72, 75, "float16"), {}, ["a"]),
        (Gemm(66, 72, 75, "float16"), {"wgmma": 8}, ["a"]),  # operands are swapped
        (Gemm(72, 71, 67, "float16", 1, True, True), {}, ["b"]),
        (Gemm(66, 72, 75, "float16", 2), {}, ["a", "b"]),
    ],
    ids=["b", "b-swapped", "a", "batch"],
)
def test_aligned_rows_along_k_are_not_copied_for_boxes(shape, changes, copied, tmp_path):
    made = PADDED.kernel(shape, BOXES | changes)
    assert [one.name for one in made.workspace] == [f"padded_{name}" for name in copied]
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=6e-2)


@pytest.mark.parametrize(
    ("shape", "ranges"),
    [
        (Gemm(162, 977, 1669, "float16", 1, False, True), 2),
        (Gemm(437, 463, 7121, "float16", 1, False, True), 4),
        (Gemm(700, 777, 2301, "float16"), 1),
    ],
    ids=str,
)
def test_blocks_share_long_sums_of_few_results_on_copies_untuned(shape, ranges):
    choice = PADDED.choice_on_copies(shape, HOPPER)
    assert choice["split"] == ranges
    assert gemm_tma.violation(gemm_padded.padded(shape), choice, HOPPER) is None


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        (Gemm(399, 1101, 813, "float16", 1, False, True), "gemm_tma"),
        (Gemm(638, 482, 1083, "float16"), "gemm_tma"),
        (Gemm(718, 130, 554, "bfloat16", 1, False, True), "gemm_tma"),
        (Gemm(694, 377, 1739, "float16", 1, False, True), "gemm_wgmma"),
        (Gemm(399, 1101, 813, "float16", 2, False, True), "gemm_wgmma"),
    ],
    ids=["many-columns", "nn", "few-columns", "ranges-of-k", "batch"],
)
def test_small_products_on_copies_run_by_tma_where_blocks_do_not_share_sums(shape, family):
    made = PADDED.kernel(shape, PADDED.choice_on_copies(shape, HOPPER))
    assert [call.entry for call in made.calls] == ["pad", family]


@pytest.mark.parametrize("k", [75, 78])
def test_a_b_whose_rows_were_padded_before_is_not_copied(k, tmp_path):
    shape = Gemm(66, 71, k, "float16", 1, False, True, b_row=80)
    made = PADDED.kernel(shape, BOXES)
    assert [one.name for one in made.workspace] == ["padded_a"]
    a, b, c = arrays_of(made)
    b[:, k:] = 0
    got, wanted = in_the_emulator(made, tmp_path, [a, b, c])
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=6e-2)
    plain = Gemm(66, 71, k, "float16", 1, False, True).reference()
    np.testing.assert_array_equal(shape.reference()(a, b), plain(a, b[:, :k]))


def test_untuned_products_by_a_padded_b_copy_a_alone():
    with HOPPER:
        untuned = source.gemm_cuda_any(138, 3795, 4217, "float16", transpose_b=True, b_row=4224)
    assert [call.entry for call in untuned.calls] == ["pad", "gemm_tma"]
    assert [one.name for one in untuned.workspace] == ["padded_a"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b_row": 4100}, "b_row must be a multiple of 8 from k = 4098 to"),
        ({"b_row": 4096}, "b_row must be a multiple of 8 from k = 4098 to"),
        ({"transpose_b": False}, "b_row is for one b of 16-bit floats stored as"),
        ({"batch": 2}, "b_row is for one b of 16-bit floats stored as"),
        ({"dtype": "float32"}, "b_row is for one b of 16-bit floats stored as"),
    ],
)
def test_other_rows_of_b_are_refused(changes, message):
    with pytest.raises(TemplateError, match=message):
        Gemm(64, 9, 4098, **{"dtype": "float16", "transpose_b": True, "b_row": 4104} | changes)


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(923, 1269, 1325, "float16", 1, False, True),
        Gemm(923, 1267, 1313, "float16"),
        Gemm(1593, 1125, 1371, "bfloat16"),
        Gemm(917, 1176, 1019, "float16", 1, False, True),
    ],
    ids=str,
)
def test_untuned_products_leave_shared_memory_for_the_blocks_that_copy(shape):
    whole = gemm_padded.padded(shape)
    choice = PADDED.choice_on_copies(shape, HOPPER)
    most = HOPPER.limits.shared_bytes_optin - gemm_padded.COPYING_BYTES
    assert TmaTiling(whole, choice).shared_bytes <= most
    # Without copies before them the deepest pipeline is chosen.
    alone = gemm_tma.default_choice(whole, HOPPER, strips=shape.n % 8 > 0)
    assert TmaTiling(whole, alone).shared_bytes > most


BY_TMA = {
    "wgmma": gemm_tma.Form(0, 1).knob, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 16,
    "chunk": 64, "stages": 3, "split": 1, "band": 1,
}  # fmt: skip
SWAPPED = {**BY_TMA, "wgmma": gemm_tma.Form(0, 1, 1).knob}
IN_VECTORS = {
    "a-column-behind-a-tile": (Gemm(70, 129, 71, "float16"), BY_TMA),
    "three-columns-behind-a-tile": (Gemm(66, 131, 72, "bfloat16"), BY_TMA),
    "even-rows": (Gemm(37, 202, 70, "float16"), {**BY_TMA, "frags_n": 24}),
    "rows-of-half-vectors": (Gemm(75, 140, 70, "float16"), {**BY_TMA, "frags_n": 11}),
    "aligned-matrices": (Gemm(64, 59, 72, "float16", 2), {**BY_TMA, "frags_n": 8}),
    "swapped": (Gemm(150, 131, 72, "float16"), {**SWAPPED, "frags_n": 19}),
    "swapped-few-rows": (Gemm(37, 71, 72, "bfloat16"), {**SWAPPED, "frags_n": 13}),
    "swapped-fragments": (Gemm(99, 203, 72, "float16"), {**SWAPPED, "frags_m": 2, "frags_n": 6}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", IN_VECTORS)
def test_unaligned_rows_are_written_in_vectors(name, tmp_path):
    made = PADDED.kernel(*IN_VECTORS[name])
    assert "write_vectors" in made.source
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)


def test_rows_are_not_written_in_vectors_where_matrices_begin_anywhere():
    assert "write_vectors" not in PADDED.kernel(Gemm(67, 59, 72, "float16", 2), BY_TMA).source
    assert "write_vectors" not in PADDED.kernel(Gemm(67, 56, 71, "float16"), BY_TMA).source


@needs_nvcc
def test_vectors_of_eight_rows_of_more_than_four_gigabytes_are_written_where_they_belong(tmp_path):
    shape = Gemm(16, 2**29 + 1, 16, "float16")
    kernel = PADDED.kernel(shape, BY_TMA).kernel("cuda")
    text = tmp_path / "kernel.cu"
    text.write_text(kernel.source)
    command = ["nvcc", "-w", "-ptx", *kernel.flags, text, "-o", tmp_path / "out"]
    subprocess.run(command, check=True)
    found = (tmp_path / "out").read_text()
    for row in range(1, 8):  # from the first aligned column of each
        assert f", {2 * (row * shape.n + 8 - row)};" in found


@pytest.mark.parametrize(
    ("shape", "copied"),
    [
        (Gemm(197, 3071, 767, "float16"), {"padded_a": 208 * 768}),
        (Gemm(197, 3071, 767, "float16", 1, False, True), {"padded_a": 208 * 768}),
        (Gemm(197, 3071, 768, "float16", 2), {}),
    ],
    ids=str,
)
def test_copies_have_rows_that_fill_boxes(shape, copied):
    choice = PADDED.choice_on_copies(Gemm(197, 3071, 767, "float16"), HOPPER)
    assert (gemm_tma.Form.of(choice["wgmma"]).swapped, choice["frags_n"]) == (1, 13)
    made = PADDED.kernel(shape, choice)
    sizes = {each.name: each.shape[0] for each in made.workspace}
    assert {name: sizes[name] for name in copied} == copied
    if shape.transpose_b:  # 48 tiles of 64 columns
        assert sizes["padded_b"] == 3072 * 768
