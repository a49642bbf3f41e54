"""Products of few rows of 16-bit floats by weights whose rows begin at any element of a vector."""

import autotune.templates  # noqa: F401 - registers the tasks
import ml_dtypes
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_skinny_across, gemm_skinny_unaligned, l2_resident
from autotune.templates.products.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
OLDER = Target("cuda -arch=sm_80")
REST = Epilogue(True, True, True, "relu")
KNOBS = {
    gemm_skinny_across: ("strips", "along", "ahead", "split"),
    gemm_skinny_unaligned: ("groups", "along", "together", "split"),
}
BOTH = pytest.mark.parametrize("family", KNOBS, ids=["[k, n]", "[n, k]"])


def choice(family, *values, stays=0):
    return {**dict(zip(KNOBS[family], values, strict=True)), l2_resident.KNOB: stays}


def across(m, n, k, dtype="float16", **more):
    return gemm_skinny_across, Gemm(m, n, k, dtype, **more)


def along(m, n, k, dtype="float16", **more):
    return gemm_skinny_unaligned, Gemm(m, n, k, dtype, transpose_b=True, **more)


CASES = {
    "[k, n], odd rows": (*across(1, 131, 301), (2, 1, 1, 1)),
    "[k, n], pairs, two steps": (*across(3, 58, 290, "bfloat16"), (1, 1, 2, 1)),
    "[k, n], many rows, a as [k, m]": (*across(11, 61, 277, transpose_a=True), (1, 2, 1, 1)),
    "[k, n], epilogue": (*across(8, 260, 140, "bfloat16", epilogue=REST), (4, 1, 2, 1)),
    "[k, n], fewer rows than a step": (*across(5, 65, 9), (1, 1, 1, 1)),
    "[k, n], rows of a vector": (*across(2, 8, 64, "bfloat16"), (1, 1, 1, 1)),
    "[n, k], odd rows": (*along(5, 131, 301), (2, 1, 2, 1)),
    "[n, k], pairs, two slices": (*along(3, 58, 290, "bfloat16"), (1, 2, 1, 1)),
    "[n, k], many rows, a as [k, m]": (*along(11, 61, 77, transpose_a=True), (1, 2, 1, 1)),
    "[n, k], epilogue": (*along(8, 263, 140, "bfloat16", epilogue=REST), (2, 2, 1, 1)),
    "[n, k], rows little longer than a vector": (*along(1, 9, 9), (2, 1, 1, 1)),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stays", [0, 1])
def test_products_match_their_reference_in_the_emulator(name, stays, tmp_path, monkeypatch):
    monkeypatch.setattr(l2_resident, "MEGABYTE", 5000)
    family, shape, sizes = CASES[name]
    source = family.kernel(shape, choice(family, *sizes, stays=stays))
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source), checked=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2 * np.abs(wanted).max())


# The last element of B is in a vector of its own, in one with others of its row, in a whole one.
@pytest.mark.many_cases
@BOTH
@pytest.mark.parametrize(("n", "k"), [(67, 35), (75, 45), (72, 45)])
def test_what_is_not_a_number_stays_in_its_column(family, n, k, tmp_path):
    shape = Gemm(2, n, k, "bfloat16", transpose_b=family is gemm_skinny_unaligned)
    source = family.kernel(shape, choice(family, 1, 2, 1, 1))
    a, b, out = arrays_of(source)
    columns = b if shape.transpose_b else b.T
    columns[::2] = np.nan
    columns[1, -1] = columns[-2, 0] = np.inf
    a[:] = np.abs(a.astype(np.float32)).astype(ml_dtypes.bfloat16)
    result, wanted = in_the_emulator(source, tmp_path, [a, b, out])
    np.testing.assert_allclose(result, wanted, rtol=2e-2, atol=1e-2)
    assert np.isfinite(result[:, 3:-2:2]).all()


@BOTH
def test_infinite_terms_are_infinite_where_a_row_ends_in_no_whole_vector(family, tmp_path):
    shape = Gemm(2, 67, 45, "float16", transpose_b=family is gemm_skinny_unaligned)
    source = family.kernel(shape, choice(family, 1, 2, 1, 1))
    a, b, out = arrays_of(source)
    b[:] = np.abs(b)
    a[0, -1], a[1, -7] = np.inf, -np.inf
    result, _ = in_the_emulator(source, tmp_path, [a, b, out])
    np.testing.assert_array_equal(result, [[np.inf] * 67, [-np.inf] * 67])


@BOTH
@pytest.mark.parametrize("target", [HOPPER, OLDER], ids=["sm_90", "sm_80"])
@pytest.mark.parametrize("sizes", [(1, 66621, 559), (16, 391, 3265), (8, 9, 9), (3, 50257, 767)])
def test_the_untuned_choice_fits_the_device(family, sizes, target):
    shape = Gemm(*sizes, "float16", transpose_b=family is gemm_skinny_unaligned)
    picked = family.default_choice(shape, target)
    assert family.violation(shape, picked, target) is None
    assert all(value in family.candidates(shape)[name] for name, value in picked.items())
    kernel = family.kernel(shape, picked).kernel("cuda")
    assert launch_violation(kernel, target.limits) is None
    assert target is HOPPER or picked["split"] == 1


@BOTH
def test_what_these_kernels_cannot_serve_is_refused_with_a_reason(family):
    turned = family is gemm_skinny_unaligned
    picked = choice(family, 1, 1, 1, 1)
    for shape, reason in {
        Gemm(17, 99, 99, "float16", transpose_b=turned): "more than 16 rows",
        Gemm(1, 99, 99, transpose_b=turned): "operands must be 16-bit floats",
        Gemm(1, 99, 99, "float16", transpose_b=not turned): "b must be stored as",
        Gemm(1, 7, 7, "float16", transpose_b=turned): "shorter than a vector",
        Gemm(1, 99, 99, "float16", 2, transpose_b=turned): "one matrix",
    }.items():
        with pytest.raises(TemplateError, match=reason):
            family.kernel(shape, picked)
