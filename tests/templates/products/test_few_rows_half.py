"""Which kernels multiply few rows of 16-bit floats by unaligned weights."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.products import (
    few_rows_half,
    gemm_half,
    gemm_mma,
    gemm_padded,
    gemm_skinny_across,
    gemm_skinny_unaligned,
    matvec_cuda,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity

HOPPER = Target("cuda -arch=sm_90")


def entries(m, n, k, turned=True, arch="sm_90", dtype="float16"):
    task = create("gemm.cuda", (m, n, k, dtype, 1, False, turned), f"cuda -arch={arch}")
    return [call.entry for call in task.instantiate(task.default()).calls]


def test_unaligned_weights_of_few_rows_are_multiplied_without_copies_untuned():
    assert entries(1, 50257, 767) == ["matvec_unaligned"]
    assert entries(2, 3240, 3062) == ["matvec"]
    assert entries(1, 21020, 2767) == entries(2, 100, 999) == ["gemm_skinny_unaligned"]
    assert entries(2, 466, 8643, turned=False) == ["gemm_skinny_across"]
    assert entries(1, 1827, 609, turned=False) == ["gemm_skinny_across"]


def test_tma_reads_unaligned_weights_of_more_rows_untuned():
    for turned in (True, False):
        assert entries(16, 3001, 2999, turned) == ["pad", "gemm_unaligned"]
        assert entries(33, 3001, 2999, turned, dtype="bfloat16") == ["pad", "gemm_unaligned"]
    assert entries(13, 15971, 4264, turned=False) == ["gemm_unaligned"]
    assert entries(12, 50257, 767, turned=False) == ["pad", "gemm_unaligned"]
    assert entries(10, 6467, 3367, False)[-1] == entries(6, 5070, 885, False)[-1]
    assert entries(6, 5070, 885, False)[-1] == "gemm_unaligned"


def test_tma_reads_weights_of_one_or_two_rows_only_where_that_is_clearly_faster():
    assert entries(2, 50257, 767) == ["gemm_skinny_unaligned"]
    assert entries(1, 52167, 1111, turned=False) == ["gemm_skinny_across"]
    assert entries(2, 8211, 5395, turned=False)[-1] == "gemm_unaligned"
    assert entries(1, 66621, 559, turned=False)[-1] == "gemm_unaligned"


def test_small_weights_of_up_to_five_rows_are_read_in_place_untuned():
    assert entries(4, 581, 2354, turned=False) == ["gemm_skinny_across"]
    assert entries(1, 901, 3001, turned=False) == ["gemm_skinny_across"]
    assert entries(6, 9001, 2001, turned=False)[-1] == "gemm_unaligned"


def test_short_sums_and_other_devices_multiply_copies_untuned():
    for turned in (True, False):
        assert entries(4, 3001, 2999, turned, arch="sm_80")[0] == "pad"
    assert few_rows_half.family_of(Gemm(4, 3001, 33, "float16"), HOPPER, ()) is None


def test_small_even_rows_are_read_by_tiles_untuned():
    assert entries(4, 3104, 4202)[0] == entries(4, 4098, 4098, turned=False)[0] == "gemm_mma"
    assert entries(8, 580, 2028, turned=False)[0] == entries(21, 4813, 374)[0] == "gemm_mma"
    assert entries(2, 7584, 6296) == ["gemm_skinny"]


def test_tma_reads_large_even_rows_untuned():
    assert entries(9, 29406, 1706) == ["pad", "gemm_unaligned"]
    assert entries(15, 58338, 480, turned=False) == ["gemm_unaligned"]
    assert entries(5, 12566, 304, turned=False) == ["gemm_unaligned"]
    assert entries(7, 20286, 4356, turned=False)[-1] == "gemm_unaligned"


def test_two_rows_by_even_rows_are_multiplied_by_tensor_cores_untuned():
    assert entries(2, 3852, 498) == entries(3, 14108, 1814) == ["gemm_skinny_unaligned"]
    assert entries(1, 36212, 2018) == ["matvec_unaligned"]


# The families of few rows, and those that copy odd rows and read even ones by tiles.
LOGGED = {
    "one row, [n, k]": (matvec_cuda, Gemm(2, 50257, 767, "float16", transpose_b=True)),
    "rows, [n, k]": (gemm_skinny_unaligned, Gemm(2, 50257, 767, "float16", transpose_b=True)),
    "rows, [k, n]": (gemm_skinny_across, Gemm(2, 767, 50257, "float16")),
    "copies, [n, k]": (
        gemm_padded.Padded(gemm_half), Gemm(2, 50257, 767, "float16", transpose_b=True),
    ),
    "copies, [k, n]": (gemm_padded.Padded(gemm_half), Gemm(2, 50257, 767, "float16")),
    "tiles, [n, k]": (gemm_mma, Gemm(2, 50257, 766, "float16", transpose_b=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGGED)
def test_a_configuration_of_a_log_runs_by_the_family_that_it_was_tuned_for(name):
    family, shape = LOGGED[name]
    choice = family.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, False, shape.transpose_b)
    source = create("gemm.cuda", args, HOPPER).instantiate(ConfigEntity(0, None, entities))
    assert source.text() == family.kernel(shape, choice).text()


SEARCHED = [Gemm(3, 14108, 1814, "float16", transpose_b=True), Gemm(2, 466, 8643, "float16")]


@pytest.mark.parametrize("shape", SEARCHED, ids=str)
def test_what_runs_untuned_is_in_the_space_that_is_searched(shape):
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, False, shape.transpose_b)
    task = create("gemm.cuda", args, HOPPER)
    default = {name: entity.val for name, entity in task.default().recorded.items()}
    family = few_rows_half.family_of(shape, HOPPER, ())
    options = family.candidates(shape)
    assert {name: value in options[name] for name, value in default.items()} == dict.fromkeys(
        options, True
    )
