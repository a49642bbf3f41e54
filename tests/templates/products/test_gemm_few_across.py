"""Products of few rows of 16-bit floats by an a stored as [k, m]: on a K-major copy of a."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_few_across, gemm_half, gemm_skinny
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import Form

from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90a")
CHOICE = {
    "warps_m": 4, "warps_n": 1, "frags_m": 1, "chunk": 64, "stages": 3, "split": 1, "band": 1,
}  # fmt: skip
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
SWAPPED = Form(0, 1, 1).knob


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "change"),
    [
        pytest.param(Gemm(24, 136, 200, "float16", 1, True, True), {}, id="both turned"),
        pytest.param(Gemm(56, 72, 133, "bfloat16", 1, True), {"wgmma": SWAPPED}, id="an odd sum"),
        pytest.param(
            Gemm(8, 72, 1016, "float16", 1, True, epilogue=REST), {"split": 16}, id="epilogue"
        ),
        pytest.param(
            Gemm(24, 136, 203, "bfloat16", 1, True), {"stages": 2}, id="an odd sum streamed"
        ),
    ],
)
def test_products_on_a_copy_match_their_reference_in_the_emulator(shape, change, tmp_path):
    columns = -(-shape.m // 8)
    choice = {"wgmma": gemm_skinny.VALUE, **CHOICE, "frags_n": columns, **change}
    source = gemm_few_across.kernel(shape, choice)
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=4e-2)


@pytest.mark.parametrize(
    ("shape", "copied"),
    [
        (Gemm(24, 4560, 2016, "float16", 1, True), True),
        (Gemm(8, 7576, 840, "bfloat16", 1, True, True), True),
        (Gemm(56, 5304, 2504, "bfloat16", 1, True), False),
        (Gemm(16, 5472, 4496, "float16", 1, True), False),
        (Gemm(32, 8664, 1760, "float16", 1, True, True), False),
        (Gemm(24, 1024, 2016, "float16", 1, True), False),
        (Gemm(24, 4560, 2016, "float16"), False),
        (Gemm(24, 4560, 2016, "float16", 2, True), False),
        (Gemm(24, 4561, 2016, "float16", 1, True), False),
    ],
    ids=[
        "skinny", "both turned", "more rows", "sixteen rows", "32 rows", "few columns", "K-major",
        "batch", "odd",
    ],
)  # fmt: skip
def test_few_rows_across_run_on_a_copy_untuned(shape, copied):
    assert gemm_few_across.suits(shape, HOPPER) == copied
    args = (shape.m, shape.n, shape.k, shape.dtype, shape.batch)
    task = create("gemm.cuda", (*args, shape.transpose_a, shape.transpose_b), HOPPER)
    entries = [one.entry for one in task.instantiate(task.default()).kernel("cuda").calls]
    assert (entries[0] == gemm_few_across.ENTRY) == copied


def test_the_space_holds_both_ways_and_older_records_read_a_as_it_is():
    args = (24, 4560, 2016, "float16", 1, True)
    task = create("gemm.cuda", args, HOPPER)
    space = task.config_space
    drawn = [space.get(i) for i in space.sample(400, np.random.default_rng(0))]
    ways = {config["family"].val for config in drawn}
    assert ways == {0, 1}
    values = gemm_half.default_choice(Gemm(*args), HOPPER)
    older = ConfigEntity(0, None, {name: OtherOptionEntity(v) for name, v in values.items()})
    calls = task.instantiate(older).kernel("cuda").calls
    assert [one.entry for one in calls] == ["gemm_tma"]


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(24, 5148, 3120, "bfloat16", 1, True, True),
        Gemm(40, 5148, 3120, "float16", 1, True, True),
        Gemm(8, 16, 8, "float16", 1, True),
    ],
    ids=["odd results", "more rows", "tiny"],
)
def test_untuned_choices_of_both_ways_are_in_their_space(shape):
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, True, shape.transpose_b)
    default = create("gemm.cuda", args, HOPPER).default()
    assert default is not None
    assert default["family"].val == 0
    options = gemm_few_across.candidates(shape)
    choice = gemm_few_across.default_choice(shape, HOPPER)
    assert all(value in options[name] for name, value in choice.items())


def test_what_cannot_be_copied_is_refused_in_words():
    assert "[k, m]" in gemm_few_across.refusal(Gemm(24, 4560, 2016, "float16"))
    assert "aligned" in gemm_few_across.refusal(Gemm(24, 4561, 2016, "float16", 1, True))
