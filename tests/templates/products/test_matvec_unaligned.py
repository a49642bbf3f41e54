"""Products of few rows by weights whose rows begin at any element of a vector."""

import autotune.templates  # noqa: F401 - registers the tasks
import ml_dtypes
import numpy as np
import pytest
from autotune.templates.products import l2_resident, matvec_cuda, matvec_unaligned
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = {"float32": 4, "bfloat16": 8, "float16": 8}


def choice(shape, lanes, rows, groups, ahead):
    return {
        "vec": REST[shape.dtype], "lanes": lanes, "rows": rows, "groups": groups, "ahead": ahead,
    }  # fmt: skip


def rows_of(m, n, k, dtype="float32", **more):
    return Gemm(m, n, k, dtype, transpose_b=True, **more)


# Rows that end in a part of a vector, one and several warps a row, and groups without any.
CASES = [
    (rows_of(1, 37, 129), (32, 2, 2, 2)),
    (rows_of(2, 18, 134), (16, 1, 4, 1)),
    (rows_of(3, 41, 131, "bfloat16"), (8, 1, 4, 1)),
    (rows_of(2, 19, 255, "float16"), (64, 2, 1, 2)),
    (rows_of(1, 9, 301), (128, 1, 1, 3)),
    (rows_of(2, 4, 6), (4, 1, 8, 1)),
    (rows_of(1, 1, 9, "float16"), (8, 1, 4, 1)),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("shape", "sizes"), CASES)
@pytest.mark.parametrize("stays", [0, 1])
def test_rows_of_any_length_are_multiplied_as_the_reference_does(
    shape, sizes, stays, tmp_path, monkeypatch
):
    monkeypatch.setattr(l2_resident, "MEGABYTE", 50)
    picked = {**choice(shape, *sizes), "resident_mb": stays}
    source = matvec_cuda.kernel(shape, picked)
    assert [call.entry for call in source.calls] == [matvec_unaligned.ENTRY]
    assert ("#define RESIDENT_256THS 256\n" in source.text()) == (not stays or shape.n == 1)
    result, wanted = in_the_emulator(source, tmp_path, arrays_of(source), checked=True)
    rtol = 1e-4 if shape.dtype == "float32" else 2e-2
    np.testing.assert_allclose(result, wanted, rtol=rtol, atol=rtol)


# Rows that end in the last vector that a group of lanes loads together, and in another.
@pytest.mark.parametrize(("k", "dtype"), [(45, "float32"), (61, "float32"), (125, "bfloat16")])
def test_what_neighbours_of_a_row_are_changes_nothing(k, dtype, tmp_path):
    shape = rows_of(1, 11, k, dtype)
    source = matvec_cuda.kernel(shape, choice(shape, 8, 1, 4, 1))
    a, b, out = arrays_of(source)
    b[::2] = np.nan
    b[1, -1] = np.inf
    a[:] = np.abs(a.astype(np.float32)).astype(getattr(ml_dtypes, dtype, dtype))
    result, wanted = in_the_emulator(source, tmp_path, [a, b, out])
    np.testing.assert_allclose(result, wanted, rtol=2e-2)
    assert np.isfinite(result[0, 3::2]).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_infinite_terms_are_infinite_in_the_last_row_too(dtype, tmp_path):
    # The last row's end is no whole vector: zeros times infinity in its place would be NaN.
    shape = rows_of(2, 11, 45, dtype)
    source = matvec_cuda.kernel(shape, choice(shape, 8, 1, 4, 1))
    a, b, out = arrays_of(source)
    b[:] = np.abs(b.astype(np.float32)).astype(b.dtype)
    a[0, -1], a[1, -7] = np.inf, -np.inf
    result, _ = in_the_emulator(source, tmp_path, [a, b, out])
    np.testing.assert_array_equal(result, [[np.inf] * 11, [-np.inf] * 11])


def test_only_rows_that_whole_vectors_do_not_divide_run_so():
    def widest(*args):
        space = create("matvec.cuda", args, HOPPER).config_space
        return max(entity.val for entity in space.space_map["vec"].entities)

    assert [widest(64, k) for k in (512, 513, 514, 3)] == [4, 4, 4, 1]
    assert [widest(64, k, 1, "float16") for k in (512, 513, 516, 7)] == [8, 8, 8, 1]


@pytest.mark.parametrize(
    ("shape", "so"),
    [
        (rows_of(1, 51865, 513), True),
        (rows_of(4, 51865, 513), True),
        (rows_of(1, 50257, 767, "bfloat16"), True),
        (rows_of(1, 51864, 512), False),
        (rows_of(1, 1000, 513), False),
        (rows_of(1, 8192, 4095), False),
        (rows_of(1, 4096, 1661), True),
        (rows_of(1, 4096, 2047), False),
        (rows_of(4, 32000, 1023, "float16"), False),
        (rows_of(5, 51865, 257), False),
    ],
)
def test_where_it_gained_rows_of_any_length_run_so_untuned(shape, so):
    picked = matvec_cuda.default_choice(shape, HOPPER)
    assert (shape.k % picked["vec"] > 0) == so
    assert matvec_cuda.violation(shape, picked, HOPPER) is None
    assert picked["vec"] in matvec_cuda.candidates(shape)["vec"]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [((4, 1, 8, 1), "fewer lanes"), ((8, 8, 8, 1), "too many registers"),
     ((16, 1, 16, 16), "columns beyond the output")],
)  # fmt: skip
def test_choices_that_cannot_run_so_are_refused(sizes, reason):
    shape = rows_of(1, 999, 301, "float16")
    assert reason in matvec_cuda.violation(shape, choice(shape, *sizes), HOPPER)
