"""Products of few rows by a matrix that is stored as [k, n]."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_float, matvec_across
from autotune.templates.products.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
OLDER = Target("cuda -arch=sm_80")
KNOBS = ("vec", "across", "along", "ahead", "split")


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "values"),
    [
        pytest.param(Gemm(1, 70, 203), (2, 16, 4, 4, 1), id="pairs, an odd sum"),
        pytest.param(Gemm(3, 33, 101, transpose_a=True), (1, 8, 8, 8, 1), id="odd columns"),
        pytest.param(
            Gemm(4, 48, 97, epilogue=Epilogue(True, True, False, "relu", 0.5)),
            (4, 4, 32, 4, 1),
            id="epilogue",
        ),
        pytest.param(Gemm(2, 144, 300), (4, 32, 4, 8, 1), id="whole warps along the columns"),
        pytest.param(Gemm(1, 300, 45), (1, 128, 2, 4, 1), id="several warps along the columns"),
        pytest.param(Gemm(4, 12, 3), (4, 16, 4, 4, 1), id="a sum shorter than a turn"),
        pytest.param(Gemm(8, 100, 130), (4, 16, 8, 4, 1), id="eight rows"),
        pytest.param(
            Gemm(7, 50, 301, transpose_a=True), (2, 32, 4, 8, 1), id="seven rows, a as [k, m]"
        ),
    ],
)
def test_products_of_few_rows_match_their_reference_in_the_emulator(shape, values, tmp_path):
    source = matvec_across.kernel(shape, dict(zip(KNOBS, values, strict=True)))
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source), checked=True)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_numbers_beyond_a_range_of_the_sum_are_not_read_as_products(tmp_path):
    shape = Gemm(1, 32, 37)
    source = matvec_across.kernel(shape, dict(zip(KNOBS, (4, 8, 8, 8, 1), strict=True)))
    arrays = arrays_of(source)
    arrays[1][0, :] = np.inf
    got, wanted = in_the_emulator(source, tmp_path, arrays, checked=True)
    assert np.isinf(wanted).all()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", [HOPPER, OLDER], ids=["sm_90", "sm_80"])
@pytest.mark.parametrize("sizes", [(1, 6042, 2003), (4, 1, 1), (8, 8996, 824), (4, 7, 8192)])
def test_the_untuned_choice_fits_the_device(sizes, target):
    shape = Gemm(*sizes)
    choice = matvec_across.default_choice(shape, target)
    assert matvec_across.violation(shape, choice, target) is None
    kernel = matvec_across.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, target.limits) is None
    assert target is HOPPER or choice["split"] == 1


def test_a_configuration_of_a_log_runs_by_this_kernel():
    shape, choice = Gemm(3, 64, 96), dict(zip(KNOBS, (2, 16, 4, 4, 1), strict=True))
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("gemm.cuda", (shape.m, shape.n, shape.k), HOPPER)
    source = task.instantiate(ConfigEntity(0, None, entities))
    assert source.text() == matvec_across.kernel(shape, choice).text()


def test_a_matrix_along_the_sum_is_another_family_s():
    turned = Gemm(1, 4096, 4096, transpose_b=True)
    assert gemm_float.family_of(turned, HOPPER, ()) is not matvec_across
    with pytest.raises(TemplateError, match=r"b must be stored as \[k, n\]"):
        matvec_across.kernel(turned, dict.fromkeys(KNOBS, 1))


@pytest.mark.parametrize(("n", "k"), [(4262, 18887), (1754, 13152)])
def test_unaligned_rows_beyond_the_cache_are_read_in_runs_of_128_columns_untuned(n, k):
    shape = Gemm(1, n, k)
    choice = matvec_across.default_choice(shape, HOPPER)
    assert matvec_across.AcrossTiling(shape, choice).columns >= 128


def test_a_choice_whose_turns_wait_too_long_to_be_counted_in_integers_is_no_good_one():
    shape = Gemm(1, 500, 20000)
    choice = matvec_across.default_choice(shape, HOPPER)
    slowest = {"vec": 4, "across": 64, "along": 1, "ahead": 4, "split": 1}
    columns = {name: np.array([choice[name], value]) for name, value in slowest.items()}
    good, bad = matvec_across.estimate(shape, columns, HOPPER)
    assert good < bad
    assert choice["split"] == 8


def test_weights_that_the_cache_nearly_holds_stay_whole_untuned():
    kept = [
        matvec_across.default_choice(Gemm(1, n, k), HOPPER)["resident_mb"]
        for n, k in ((17000, 700), (9000, 1501), (3001, 5003))
    ]
    assert kept == [0, 8, 8]


def test_many_blocks_of_clusters_are_no_good_choice():
    # On an H200 19.9 us hot and 28.7 cold, 12.4 and 19.9.
    shape = Gemm(8, 36387, 259)
    clusters, alone = (
        dict(zip(KNOBS, values, strict=True)) for values in ((1, 64, 2, 4, 2), (1, 64, 2, 8, 1))
    )
    worse, better = (matvec_across.estimate(shape, one, HOPPER) for one in (clusters, alone))
    assert worse > better
    choice = matvec_across.default_choice(shape, HOPPER)
    assert matvec_across.AcrossTiling(shape, choice).blocks < 600
