"""Products of few rows by TMA: operands, split-K, choices."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half, gemm_padded, gemm_skinny
from autotune.templates.products.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90a")
CHOICE = {
    "warps_m": 4, "warps_n": 1, "frags_m": 1, "chunk": 64, "stages": 3, "split": 1, "band": 1,
}  # fmt: skip
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
ADDED = Epilogue(bias=True, residual=True)
PRODUCTS = {
    "plain": (Gemm(16, 192, 256, "float16"), {}),
    "transposed": (
        Gemm(16, 200, 248, "float16", 1, False, True), {"warps_m": 8, "chunk": 128},
    ),
    "batch": (Gemm(5, 72, 200, "bfloat16", 2, False, True, "", REST), {}),
    "shared": (Gemm(24, 72, 200, "float16", 2, True, False, "b"), {}),
    "many-rows": (Gemm(64, 136, 136, "bfloat16", 1, False, True), {"stages": 2}),
    "one-row": (Gemm(1, 64, 320, "float16", 1, False, True), {}),
    "more-ranges": (Gemm(24, 72, 1016, "float16", 2, True, False, "", REST), {"split": 16}),
    "more-ranges-of-odd": (Gemm(9, 77, 2040, "float16", 1, False, True, "", REST), {"split": 16}),
    "odd-on-copies": (Gemm(9, 77, 71, "float16", 1, False, False, "", REST), {}),
}  # fmt: skip


def choice_of(shape, **change):
    (columns,) = gemm_skinny.candidates(shape)["frags_n"]
    return {"wgmma": gemm_skinny.VALUE, **CHOICE, "frags_n": columns, **change}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_match_their_reference_in_the_emulator(name, tmp_path):
    shape, change = PRODUCTS[name]
    family = gemm_padded.Padded(gemm_skinny) if gemm_padded.is_needed(shape) else gemm_skinny
    source = family.kernel(shape, choice_of(shape, **change))
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=4e-2)


@pytest.mark.parametrize("args", [(16, 4096, 4096), (64, 768, 3072), (1, 8, 64)])
def test_drawn_choices_of_few_rows_can_be_launched(args):
    space = create("gemm_nn.cuda", (*args, "float16"), HOPPER).config_space
    task = create("gemm_nn.cuda", (*args, "float16"), HOPPER)
    every = (space.get(i) for i in space.sample(1000, np.random.default_rng(0)))
    few = [config for config in every if config["wgmma"].val == gemm_skinny.VALUE]
    assert few or args[2] == 64
    for config in few:
        kernel = task.instantiate(config).kernel("cuda")
        assert kernel.name == "gemm_skinny"
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.parametrize("m", [1, 8, 9, 33, 64])
def test_defaults_are_choices_of_the_space(m):
    shape = Gemm(m, 4096, 11008, "float16", 1, False, True)
    choice = gemm_skinny.default_choice(shape, HOPPER)
    assert gemm_skinny.violation(shape, choice, HOPPER) is None
    assert gemm_half.violation(shape, choice, HOPPER) is None


@pytest.mark.parametrize(
    ("shape", "streamed"),
    [
        (Gemm(4, 4096, 4096, "float16"), True),
        (Gemm(20, 1024, 8192, "float16"), False),
        (Gemm(16, 2048, 8192, "float16"), False),
        (Gemm(24, 512, 11952, "float16", transpose_b=True), True),
        (Gemm(16, 3072, 768, "float16"), False),
        (Gemm(16, 4096, 11008, "float16"), True),
        (Gemm(5, 4096, 4096, "float16"), False),
        (Gemm(24, 1024, 4096, "float16"), False),
        (Gemm(64, 4096, 4096, "float16"), False),
        (Gemm(64, 11008, 4096, "float16"), False),
        (Gemm(8, 768, 768, "float16"), False),
        (Gemm(8, 4096, 4096, "float16", 4), False),
        (Gemm(8, 4096, 4096, "float16", 1, True), False),
        (Gemm(32, 4096, 4096, "float16", epilogue=Epilogue(affine=True)), False),
        (Gemm(14, 22040, 2608, "float16", transpose_b=True), False),
        (Gemm(12, 6000, 2048, "bfloat16", transpose_b=True), False),
        (Gemm(8, 22680, 416, "float16", transpose_b=True), False),
        (Gemm(8, 22680, 416, "float16", transpose_b=True, epilogue=ADDED), True),
        (Gemm(12, 25848, 2176, "float16", transpose_b=True, epilogue=ADDED), True),
        (Gemm(5, 736, 9424, "float16", transpose_b=True, epilogue=ADDED), False),
    ],
    ids=[
        "near", "long-sums", "near-long-sums", "longest-sums", "small-b", "far", "more-rows",
        "few-columns", "64-rows", "64-rows-far", "small", "batch", "left-across", "scaled",
        "far-in-tiles", "as-they-are", "many-columns", "residual", "residual-far",
        "residual-of-ranges",
    ],
)  # fmt: skip
def test_large_weights_of_few_rows_are_streamed_untuned(shape, streamed):
    assert (gemm_half.default_choice(shape, HOPPER)["wgmma"] == gemm_skinny.VALUE) == streamed


def test_many_rows_are_refused_in_words():
    shape = Gemm(65, 4096, 4096, "float16")
    with pytest.raises(TemplateError, match="more than 64 rows"):
        gemm_skinny.kernel(shape, {"wgmma": gemm_skinny.VALUE, **CHOICE, "frags_n": 8})


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(("m", "split"), [(16, 1), (16, 8), (64, 4), (64, 64)])
def test_products_are_not_serialized_and_nothing_is_spilled(m, split, tmp_path):
    shape = Gemm(m, 4096, 4096, "float16", 1, False, True, "", REST)
    kernel = gemm_skinny.kernel(shape, choice_of(shape, split=split)).kernel("cuda")
    assert not any(spilled(kernel, tmp_path))
