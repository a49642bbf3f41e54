"""Products whose operands come by boxes: right in the emulator, chosen where they win."""

import shutil
import subprocess

import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_bulk, gemm_bulk_tiling, gemm_half, gemm_padded
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
BIAS = Epilogue(bias=True, activation="silu")
GELU = Epilogue(bias=True, activation="gelu")
FACTOR = Epilogue(alpha=0.125)
SWAPPED, JOINED = gemm_bulk.Form(0, 1, 1), gemm_bulk.Form(0, 1, joins=1)
CHOICE = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "nn": (Gemm(66, 72, 72, "float16"), {}),
    "nt": (Gemm(66, 72, 72, "float16", 1, False, True), {"stages": 3}),
    "tn": (Gemm(72, 80, 67, "float16", 2, True, False, "a", REST), {}),
    "rest-wide": (Gemm(72, 264, 64, "float16", rest=REST), {"frags_m": 2, "frags_n": 16}),
    "tt": (Gemm(136, 72, 72, "bfloat16", 1, True, True), {"warps_m": 8}),
    "two-fragments": (Gemm(72, 72, 136, "float16", 1, True, True), {"frags_m": 2, "frags_n": 16}),
    "wide": (Gemm(66, 72, 200, "float16"), {"frags_n": 32, "chunk": 128}),
    "even-columns": (Gemm(65, 58, 72, "float16", 2, False, True, "b", REST), {}),
    "odd-columns": (Gemm(65, 59, 72, "float16", 2, False, True, "b", REST), {}),
    "odd-columns-plain": (Gemm(65, 59, 72, "float16", 2, False, True), {"frags_m": 2}),
    "odd-columns-wide": (Gemm(131, 275, 71, "bfloat16"), {"frags_n": 24}),
    "odd-columns-long-chunks": (
        Gemm(131, 133, 199, "float16"),
        {"chunk": 128, "warps_m": 8, "frags_n": 16},
    ),
    "odd-columns-walk": (Gemm(200, 261, 135, "float16"), {"wgmma": 4, "stages": 3, "band": 4}),
    "odd-columns-two-teams": (
        Gemm(130, 197, 72, "float16", 3, True, False),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "odd-columns-narrow": (Gemm(66, 143, 136, "float16", 1, False, True), {"frags_n": 9}),
    "odd-columns-of-two-strips": (Gemm(66, 171, 72, "bfloat16", 1, False, True), {"frags_n": 21}),
    "odd-columns-narrow-walk": (
        Gemm(200, 143, 72, "float16", 1, False, True),
        {"wgmma": 4, "stages": 3, "frags_n": 9},
    ),
    "walk": (Gemm(200, 264, 200, "float16"), {"wgmma": 4, "stages": 3, "band": 4}),
    "walk-two-teams": (
        Gemm(130, 136, 136, "bfloat16", 5, False, True, "b", REST),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "walk-rest": (
        Gemm(136, 200, 136, "float16", 3, True, False, "", REST),
        {"wgmma": 4, "frags_n": 16, "stages": 3},
    ),
    "split": (Gemm(100, 71, 488, "float16", 2, False, True, "", REST), {"split": 3}),
    "split-wide": (
        Gemm(72, 136, 320, "bfloat16", 1, True),
        {"split": 2, "frags_n": 16, "frags_m": 2},
    ),
    "some-columns": (Gemm(66, 208, 72, "float16"), {"frags_n": 12}),
    "three-groups": (
        Gemm(200, 224, 72, "float16", 1, False, True),
        {"warps_m": 12, "frags_n": 9, "stages": 3},
    ),
    "groups-in-order": (
        Gemm(200, 136, 328, "float16"),
        {"warps_m": 8, "frags_n": 17, "stages": 3},
    ),
    "three-groups-in-order": (
        Gemm(200, 224, 264, "bfloat16", 1, False, True, "", BIAS),
        {"warps_m": 12, "frags_n": 15, "stages": 3},
    ),
    "walk-in-order": (
        Gemm(260, 264, 200, "float16"),
        {"wgmma": 4, "warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "rest-in-order": (
        Gemm(136, 136, 264, "float16", 2, False, True, "b", REST),
        {"warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "odd-columns-in-order": (
        Gemm(131, 197, 264, "float16"),
        {"warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "split-in-order": (
        Gemm(136, 72, 712, "float16", 2, False, True, "", REST),
        {"warps_m": 8, "frags_n": 16, "stages": 3, "split": 2},
    ),
    "swapped-in-order": (
        Gemm(200, 264, 264, "float16"),
        {"wgmma": SWAPPED.knob, "warps_m": 12, "frags_n": 15, "stages": 3},
    ),
    "swapped-walk-in-order": (
        Gemm(200, 264, 264, "float16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob + 2, "warps_m": 8, "frags_n": 16, "stages": 3},
    ),
    "walk-some-columns": (
        Gemm(200, 264, 200, "float16"),
        {"wgmma": 4, "frags_n": 10, "stages": 3, "band": 4},
    ),
    "bias-first": (
        Gemm(70, 328, 136, "float16", 3, False, True, "", BIAS),
        {"wgmma": 6, "frags_n": 11, "stages": 3},
    ),
    "bias-split": (
        Gemm(70, 96, 264, "float16", 1, False, True, "", BIAS),
        {"frags_n": 6, "stages": 3, "split": 2},
    ),
    "swapped": (Gemm(66, 208, 72, "float16"), {"wgmma": SWAPPED.knob, "frags_n": 9}),
    "swapped-batch": (
        Gemm(200, 136, 72, "float16", 3, True, False, "b"),
        {"wgmma": SWAPPED.knob, "frags_m": 2, "frags_n": 10},
    ),
    "swapped-walk": (
        Gemm(200, 264, 200, "float16", 1, False, True),
        {"wgmma": SWAPPED.knob + 2, "frags_n": 6, "stages": 3},
    ),
    "swapped-two-teams": (
        Gemm(130, 264, 136, "float16", 3),
        {"wgmma": SWAPPED.knob + 4, "frags_n": 7, "stages": 4},
    ),
    "swapped-bias": (
        Gemm(77, 264, 136, "bfloat16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd": (
        Gemm(77, 91, 136, "float16", 1, False, True, "", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd-plain": (
        Gemm(77, 91, 136, "float16", 1, False, True),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "swapped-odd-narrow": (
        Gemm(57, 277, 264, "bfloat16"),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 7, "stages": 3},
    ),
    "swapped-odd-two-fragments": (
        Gemm(150, 277, 264, "float16"),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_m": 2, "frags_n": 16, "stages": 3},
    ),
    "tf32": (Gemm(66, 71, 76, "tf32", 1, False, True, "", REST), {"chunk": 32}),
    "tf32-walk": (
        Gemm(200, 264, 136, "tf32", 2, False, True, "b", BIAS),
        {"wgmma": 6, "frags_n": 11, "chunk": 32, "stages": 4},
    ),
    "tf32-split": (Gemm(72, 136, 320, "tf32", 1, False, True), {"chunk": 64, "split": 2}),
    "tf32-in-order": (
        Gemm(136, 137, 264, "tf32", 1, False, True),
        {"warps_m": 8, "frags_n": 16, "chunk": 32, "stages": 3},
    ),
    "tf32-left-across": (
        Gemm(68, 71, 120, "tf32", 1, True, True, "", REST),
        {"chunk": 64, "frags_m": 2},
    ),
    "tf32-swapped": (Gemm(67, 72, 76, "tf32"), {"wgmma": SWAPPED.knob, "chunk": 32}),
    "tf32-swapped-in-order": (
        Gemm(139, 200, 264, "tf32", 1, False, False, "", BIAS),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 16, "chunk": 32, "stages": 4},
    ),
    "tf32-swapped-two-teams": (
        Gemm(139, 200, 264, "tf32", 2, False, False, "b", REST),
        {"wgmma": SWAPPED.knob + 4, "frags_n": 4, "chunk": 32, "stages": 3},
    ),
    "tf32-swapped-split": (
        Gemm(139, 200, 264, "tf32", 1, False, False, "", REST),
        {"wgmma": SWAPPED.knob, "chunk": 32, "split": 2},
    ),
    "factor": (
        Gemm(200, 264, 200, "float16", 2, False, True, "", FACTOR),
        {"wgmma": 6, "frags_n": 16, "stages": 3},
    ),
    "swapped-factor": (
        Gemm(77, 264, 136, "float16", 1, False, True, "", FACTOR),
        {"wgmma": SWAPPED.knob, "frags_n": 10},
    ),
    "odd-on-copies": (Gemm(65, 77, 71, "bfloat16", 1, False, False, "", REST), {}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_their_operands_where_boxes_put_them(name, tmp_path, monkeypatch):
    """The emulator reads shared memory where the descriptors of operands say that they are."""
    monkeypatch.setattr(
        gemm_bulk_tiling, "MULTIPROCESSORS", 2
    )  # so that few tiles are several steps
    shape, change = PRODUCTS[name]
    family = gemm_padded.Padded(gemm_bulk) if gemm_padded.is_needed(shape) else gemm_bulk
    source = family.kernel(shape, {**CHOICE, **change})
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    # Its checks know of no barriers but those of blocks and warps.
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=False)
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=2e-2, atol=2e-2)


# The same of 8-bit integers, two of which stand in a place.
INTEGERS = {
    "whole": (Gemm(64, 64, 128, "int8", 1, False, True), {}),
    "edges": (Gemm(66, 72, 144, "int8", 1, False, True), {"stages": 4}),
    "odd-columns": (Gemm(66, 71, 144, "int8", 2, False, True, "b"), {"frags_n": 6}),
    "walk": (
        Gemm(200, 264, 272, "int8", 1, False, True),
        {"wgmma": 4, "stages": 3, "band": 4, "frags_n": 10},
    ),
    "two-teams": (
        Gemm(130, 136, 272, "int8", 3, False, True, "a"),
        {"wgmma": 6, "stages": 4, "frags_n": 16},
    ),
    "split": (
        Gemm(72, 136, 640, "int8", 1, False, True),
        {"split": 2, "frags_m": 2, "frags_n": 16},
    ),
    "in-order": (
        Gemm(200, 136, 656, "int8", 1, False, True),
        {"warps_m": 8, "frags_n": 16, "stages": 5},
    ),
    "narrow": (Gemm(65, 24, 480, "int8", 1, False, True), {"frags_n": 3, "chunk": 128}),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integers_are_exact(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_bulk_tiling, "MULTIPROCESSORS", 2)
    shape, change = INTEGERS[name]
    source = gemm_bulk.kernel(shape, {**CHOICE, **change})
    kernel, (a, b, c) = source.kernel("cuda"), arrays_of(source)
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.integers(-128, 128, a.shape), rng.integers(-128, 128, b.shape)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run([a, b, c], order=7, checked=False)
    np.testing.assert_array_equal(c, source.reference(a, b))


SHAPES = [
    Gemm(512, 512, 64, "float16", 96, False, True),
    Gemm(512, 512, 8192, "float16"),
    Gemm(2048, 2048, 2048, "bfloat16", rest=REST),
    Gemm(1000, 1048, 1016, "bfloat16", 3, True, False, "b"),
    Gemm(512, 4096, 4096, "int8", 1, False, True),
    Gemm(1024, 2048, 1024, "tf32", rest=GELU),
    Gemm(1, 8, 8, "float16"),
    Gemm(1, 8, 16, "int8", 1, False, True),
]


def drawn(shape, count):
    """Draw valid choices of knobs, each once."""
    rng, options = np.random.default_rng(0), gemm_bulk.candidates(shape)
    found = []
    for _ in range(5000):
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if gemm_bulk.violation(shape, choice, HOPPER) is None and choice not in found:
            found.append(choice)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_has_choices_that_fit_a_block_and_its_default_is_one(shape):
    choices = [gemm_bulk.default_choice(shape, HOPPER), *drawn(shape, 10)]
    for choice in choices:
        assert gemm_bulk.violation(shape, choice, HOPPER) is None
        kernel = gemm_bulk.kernel(shape, choice).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("shape", SHAPES[:6], ids=str)
def test_products_are_not_serialized_and_sums_stay_in_registers(shape, tmp_path):
    for choice in drawn(shape, 2):
        kernel, text = gemm_bulk.kernel(shape, choice).kernel("cuda"), tmp_path / "kernel.cu"
        text.write_text(kernel.source)
        command = ["nvcc", "-cubin", *kernel.flags, "-Xptxas", "-v", text, "-o", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        # These say that the assembler waits for products where the kernel does not.
        assert "(C75" not in done.stderr
        lines = [line for line in done.stderr.splitlines() if "spill stores" in line]
        assert all(" 0 bytes spill stores" in line for line in lines), f"{choice}: {lines}"


@pytest.mark.parametrize(
    ("change", "chunks"),
    [
        ({}, 3),
        ({"wgmma": 4}, 3),
        ({"wgmma": 6}, 0),
        ({"frags_n": 12}, 0),
        ({"warps_m": 4}, 0),
        ({"chunk": 128, "stages": 3}, 2),
        ({"chunk": 128, "frags_n": 16, "split": 4}, 0),
    ],
    ids=["two-groups", "walks", "two-teams", "narrow", "one-group", "long-chunks", "short-range"],
)
def test_groups_of_wide_tiles_multiply_the_last_chunks_in_order(change, chunks):
    choice = {**CHOICE, "warps_m": 8, "frags_n": 32, "stages": 4, **change}
    shape = Gemm(1024, 1024, 1024, "float16")
    assert gemm_bulk.BulkTiling(shape, choice).ordered == chunks


def test_a_box_outside_of_its_matrix_is_not_asked_for():
    shape = Gemm(128, 128, 192, "float16", 1, False, True)
    choice = {**CHOICE, "chunk": 128}
    assert gemm_bulk.violation(shape, choice, HOPPER) == "a box beyond the reduction"
    with pytest.raises(TemplateError, match="a box beyond the reduction"):
        gemm_bulk.kernel(shape, choice)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wgmma": gemm_bulk.Form(0, 2).knob, "frags_n": 9}, "a share of a panel"),
        ({"wgmma": gemm_bulk.Form(1, 1).knob, "split": 2}, "a split that walks"),
        ({"split": 8, "chunk": 128}, "an empty range"),
        ({"warps_m": 12, "frags_m": 2}, "a box of too many rows"),
        ({"split": 2, "frags_n": 9}, "sums of no whole blocks"),
        ({"wgmma": JOINED.knob, "split": 2, "frags_n": 9}, "a share of no whole fragments"),
        ({"wgmma": JOINED.knob}, "no ranges to join"),
    ],
    ids=["share", "walks", "empty", "rows", "sums", "joined", "one-range"],
)
def test_a_choice_whose_results_would_be_wrong_is_an_error_that_says_so(change, message):
    shape, choice = Gemm(1024, 1024, 640, "float16"), {**CHOICE, "stages": 4, **change}
    assert gemm_bulk.violation(shape, choice, HOPPER) == message
    with pytest.raises(TemplateError, match=message):
        gemm_bulk.kernel(shape, choice)


def test_blocks_that_join_their_ranges_need_neither_a_second_kernel_nor_a_workspace():
    shape = Gemm(1024, 1024, 1024, "float16")
    source = gemm_bulk.kernel(shape, {**CHOICE, "wgmma": JOINED.knob, "split": 4, "stages": 4})
    assert [one.entry for one in source.calls] == ["gemm_bulk"]
    assert source.calls[0].launch.grid == (256, 1, 4)
    assert not source.workspace


@pytest.mark.parametrize(
    ("rest", "split", "message"),
    [
        (REST, 1, "more than a bias or a factor, and an activation, after swapped operands"),
        (BIAS, 2, "a split of swapped operands"),
    ],
    ids=["residual", "split"],
)
def test_what_swapped_operands_cannot_be_is_an_error_that_says_so(rest, split, message):
    shape = Gemm(128, 128, 256, "float16", rest=rest)
    choice = {**CHOICE, "wgmma": SWAPPED.knob, "split": split}
    assert gemm_bulk.violation(shape, choice, HOPPER) == message
    with pytest.raises(TemplateError, match=message):
        gemm_bulk.kernel(shape, choice)


@pytest.mark.parametrize(
    ("shape", "width", "message"),
    [
        (Gemm(704, 1000, 1000, "float16", 1, False, True), 16, None),
        (Gemm(704, 64, 1000, "float16", 1, False, True), 8, "a block without columns"),
        (Gemm(704, 1000, 1000, "float16", 1, True), 16, "a share of a panel"),
        (Gemm(2048, 2048, 1024, "float16"), 16, "more clusters than are at work at a time"),
    ],
    ids=["fits", "few-columns", "left-across", "many-tiles"],
)
def test_clusters_that_share_both_operands_have_rules_of_their_own(shape, width, message):
    form = gemm_bulk.Form(0, 2, 0, 2)
    choice = {**CHOICE, "wgmma": form.knob, "frags_n": width, "band": 8}
    assert gemm_bulk.violation(shape, choice, HOPPER) == message


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Gemm(128, 132, 128, "float16"), "must be multiples of 8 elements"),
        (Gemm(128, 128, 128, "tf32", 1, True), "must stand along K in one operand"),
        (Gemm(128, 128, 128, "tf32"), "floats of the right operand across K"),
        (Gemm(128, 128, 128, "int8"), "integers must stand along K"),
        (Gemm(128, 128, 136, "int8", 1, False, True), "a k that 16 divides"),
    ],
    ids=["odd", "tf32 across K", "tf32 on the right across K", "int8 across K", "int8 of any k"],
)
def test_what_boxes_cannot_bring_is_an_error_that_says_so(shape, message):
    with pytest.raises(TemplateError, match=message):
        gemm_bulk.kernel(shape, CHOICE)


def test_forms_are_values_of_the_knob():
    assert [gemm_bulk.Form.of(form.knob) for form in gemm_bulk.FORMS] == list(gemm_bulk.FORMS)
    assert min(form.knob for form in gemm_bulk.FORMS) > 1  # those are of other families


@pytest.mark.parametrize(
    ("shape", "teams", "tile", "split"),
    [
        (Gemm(4096, 4096, 4096, "float16"), 1, (128, 256), 1),
        (Gemm(2048, 2048, 2048, "float16", 1, False, True, "", GELU), 0, (128, 256), 1),
        (Gemm(1792, 1792, 1792, "float16"), 0, (200, 128), 1),
        (Gemm(512, 512, 8192, "float16"), 0, (64, 128), 4),
        (Gemm(256, 256, 2560, "float16", 1, False, True), 0, (64, 64), 4),
    ],
    ids=["many-tiles", "followed", "one-for-each-multiprocessor", "long-sums", "joined"],
)
def test_products_that_are_known_to_gain_run_by_boxes_untuned(shape, teams, tile, split):
    choice = gemm_half.default_choice(shape, HOPPER)
    form, tiling = gemm_bulk.Form.of(choice["wgmma"]), gemm_bulk.BulkTiling(shape, choice)
    taken = (tiling.tile_m, tiling.tile_n)
    assert (form.teams, choice["split"]) == (teams, split)
    assert (taken[::-1] if form.swapped else taken) == tile
    assert gemm_half.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize(
    ("sizes", "boxes"),
    [((512, 4096, 4096), True), ((32, 4096, 4096), True), ((999, 1001, 1008), True),
     ((16, 4096, 4096), False), ((64, 512, 512), False), ((1024, 1024, 64), False)],
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
    tiling = gemm_bulk.BulkTiling(shape, gemm_bulk.default_choice(shape, HOPPER))
    steps = -(-tiling.tiles // gemm_bulk_tiling.MULTIPROCESSORS)
    assert n * n > 0.8 * steps * gemm_bulk_tiling.MULTIPROCESSORS * tiling.tile_m * tiling.tile_n


def test_of_tiles_side_by_side_the_narrowest_are_offered():
    assert [8 * width for width in gemm_bulk.widths(768)][-4:] == [128, 160, 192, 256]
    assert 200 // 8 in gemm_bulk.widths(1792)
    assert 208 // 8 not in gemm_bulk.widths(1792)


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(77, 3072, 768, "float16", 1, False, True),
        Gemm(16, 768, 768, "float16"),
        Gemm(4096, 4096, 1024, "float16", 1, False, True, "", Epilogue(residual=True)),
        Gemm(197, 3072, 768, "float16", 1, False, True, "", GELU),
    ],
    ids=["small", "few-rows", "residual", "followed"],
)
def test_others_keep_copies_of_16_bytes_untuned_and_have_boxes_in_their_space(shape):
    assert gemm_half.default_choice(shape, HOPPER)["wgmma"] == 1
    assert max(gemm_half.candidates(shape)["wgmma"]) > 1


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
    tiling = gemm_bulk.BulkTiling(gemm_padded.padded(shape), choice)
    assert padded.violation(shape, choice, HOPPER) is None
    assert tiling.strips
    assert choice["split"] == tiling.form.share == 1


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(197, 1031, 767, "float16"),
        Gemm(12, 50257, 767, "float16"),
        Gemm(1023, 1023, 1023, "float16", rest=BIAS),
    ],
    ids=["small", "few-rows", "followed"],
)
def test_other_odd_sizes_keep_copies_of_16_bytes_untuned(shape):
    assert gemm_padded.Padded(gemm_half).default_choice(shape, HOPPER)["wgmma"] == 1


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
    assert gemm_bulk.BulkTiling(shape, choice).strips
    assert choice["wgmma"] > 1


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(64, 50257, 768, "float16", 1, False, True),
        Gemm(1023, 1023, 1024, "float16", 1, False, True, rest=BIAS),
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
    choice = gemm_bulk.default_choice(shape, target)
    assert gemm_bulk.violation(shape, choice, target) is None
