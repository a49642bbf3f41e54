"""Maps of rows, reductions, cumulative sums and transposes compute what their references do."""

import itertools
import math

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.data_movement.transpose_shape import merged
from autotune.templates.rows import reduce_cuda, rows_cuda
from autotune.templates.rows.reduction_shape import Reduction
from autotune.templates.rows.rows_shape import Rows
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated, drawn

MAPS = [
    ("log_softmax", (5, 77), 1e-4),
    ("layer_norm", (5, 260), 1e-4),
    ("layer_norm", (3, 256, 1e-5, True, True, "float16"), 2e-2),
    ("rms_norm", (3, 128, 1e-6, True, "bfloat16"), 3e-2),
    ("group_norm", (2, 6, 10, 3), 1e-4),
    ("cumsum", (5, 2600), 1e-3),
]
REDUCTIONS = [
    ("mean", 5, 300),
    ("sum", 2, 300, 24),
    ("argmax", 1, 700, 13),
    ("max", 3, 80, 16, "bfloat16"),
    ("prod", 13, 5, 2),
]
TRANSPOSES = [
    ((3, 40, 36), (0, 2, 1), "float16"),
    ((3, 7, 4, 5), (2, 0, 3, 1)),
    ((3, 7, 4, 8), (2, 0, 1, 3)),
]
LARGE = [
    ("layer_norm", (4096, 4096)),
    ("log_softmax", (1, 50257, "float16")),
    ("reduce", ("argmax", 1, 4096, 4096)),
    ("reduce", ("sum", 1, 16777216)),
    ("cumsum", (4096, 4096)),
    ("transpose", ((4096, 4096), (1, 0))),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args", "rtol"), MAPS)
def test_maps_of_rows_match_their_reference_in_the_emulator(name, args, rtol):
    check_emulated(f"{name}.cuda", args, rtol=rtol)


RAGGED = [
    (Rows("layer_norm", 3, 131, "float32", 1e-5, True, True), {"threads": 8, "vec": 4, "keep": 1}),
    (Rows("layer_norm", 5, 77, "bfloat16", shift=True), {"threads": 4, "vec": 8, "keep": 0}),
    (Rows("rms_norm", 7, 299, "float16", 1e-6, True), {"threads": 32, "vec": 8, "keep": 1}),
    (Rows("layer_norm", 6, 45, "float32", 1e-5, True, True, 5, 2), {"threads": 4, "vec": 4,
                                                                    "keep": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "choice"), RAGGED, ids=str)
def test_vectors_need_not_divide_rows_of_norms(shape, choice):
    source = rows_cuda.kernel(shape, {"rows": 8, **choice})
    arrays = arrays_of(source)
    arrays[0][:] += np.asarray(30).astype(arrays[0].dtype)  # a mean far from 0, as padding is
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*[each.astype("float64") for each in arrays[:-1]])
    rtol = {"float32": 2e-4, "float16": 1e-2, "bfloat16": 4e-2}[shape.dtype]
    np.testing.assert_allclose(arrays[-1].astype("float64"), wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("args", REDUCTIONS)
def test_reductions_match_their_reference_in_the_emulator(args):
    check_emulated("reduce.cuda", args, rtol=1e-2 if args[-1] == "bfloat16" else 1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("depth", [1, 2, 5, 9])
@pytest.mark.parametrize("outer", [1, 7, 100_000])
def test_a_reduction_of_short_sums_has_a_kernel(outer, depth, inner):
    task = create("reduce.cuda", ("sum", outer, depth, inner), "cuda -arch=sm_90")
    assert len(task.config_space) > 0
    task.instantiate(task.default()).kernel("cuda")


@pytest.mark.parametrize("args", TRANSPOSES)
def test_transposes_match_their_reference_in_the_emulator(args):
    check_emulated("transpose.cuda", args)


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "cuda -arch=sm_75"])
@pytest.mark.parametrize(("name", "args"), LARGE)
def test_configurations_of_large_arrays_fit_the_device(name, args, target):
    task = create(f"{name}.cuda", args, target)
    sources = [*drawn(task, 20, sample=20), task.instantiate(task.default())]
    assert all(launch_violation(s.kernel("cuda"), Target(target).limits) is None for s in sources)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=6).flatmap(
    lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))
))  # fmt: skip
def test_a_permutation_of_merged_axes_moves_elements_as_the_whole_does(case):
    shape, axes = case
    extents, order = merged(shape, axes)
    data = np.arange(math.prod(shape))
    wanted = data.reshape(shape).transpose(axes).ravel()
    np.testing.assert_array_equal(data.reshape(extents).transpose(order).ravel(), wanted)
    assert all(b != a + 1 for a, b in itertools.pairwise(order))


def test_of_equal_largest_elements_the_first_counts_and_none_before_one_that_is_no_number():
    data = np.array([[1, 7, 7, 0], [1, np.nan, 9, np.nan], [-np.inf] * 4], np.float32)
    shape = Reduction("argmax", 3, 4)
    choice = {"threads": 32, "rows": 2, "vec": 1, "unroll": 2, "split": 1}
    out = np.full((3, 1), -1, np.int32)
    kernel = reduce_cuda.kernel(shape, choice).kernel("cuda")
    run_emulated(kernel, [data.reshape(3, 4, 1), out], orders=(0,))
    assert out.ravel().tolist() == shape.reference()(data.reshape(3, 4, 1)).ravel().tolist()


@pytest.mark.parametrize(
    ("shape", "split"),
    [
        (Reduction("argmax", 3, 5000), 64),
        (Reduction("sum", 2, 700, 5), 16),
        (Reduction("max", 150, 64), 8),
        (Reduction("argmax", 1, 300, 2100), 8),
    ],
    ids=["warps of rows", "warps down columns", "many blocks", "threads"],
)
def test_states_of_a_split_are_joined_by_warps_or_threads(shape, split):
    rows = {"threads": 32, "rows": 2} if shape.inner == 1 else {"threads": 4, "rows": 16}
    source = reduce_cuda.kernel(shape, {**rows, "vec": 1, "unroll": 2, "split": split})
    # Of several largest elements the first is meant, wherever the others are.
    data = np.random.default_rng(0).integers(0, 9, source.args[0].shape).astype(np.float32)
    out = np.full(source.args[-1].shape, -1, source.args[-1].dtype)
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    np.testing.assert_allclose(out, source.reference(data))
    assert (source.defines["JOINERS"] == 32) == (shape.outputs <= reduce_cuda.FEW_OUTPUTS)


def test_states_of_a_split_that_32_bits_do_not_index_are_refused():
    shape, target = Reduction("argmax", 2**14, 1000, 2**14), Target("cuda -arch=sm_90")
    choice = {"threads": 128, "rows": 1, "vec": 4, "unroll": 1}
    refused = [reduce_cuda.violation(shape, choice | {"split": s}, target) for s in (1, 2, 4)]
    assert refused == [None, None, "states beyond 32-bit indices"]


@pytest.mark.many_cases
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(
    ("rows", "threads", "side_by_side", "vec"),
    [
        (Rows("softmax", 5, 1003), 64, 1, 4), (Rows("softmax", 9, 577, "float16"), 32, 2, 8),
        (Rows("log_softmax", 6, 131, "bfloat16"), 8, 8, 8), (Rows("softmax", 3, 7), 8, 4, 4),
        (Rows("softmax", 5, 3, "float16"), 4, 8, 8),
        (Rows("softmax", 5, 1025), 32, 1, 4), (Rows("log_softmax", 6, 1151), 32, 1, 4),
        (Rows("softmax", 9, 2049, "float16"), 64, 1, 8),
    ],
)  # fmt: skip
def test_softmax_reads_rows_in_vectors_that_do_not_divide_them(
    rows, threads, side_by_side, vec, keep
):
    choice = {"threads": threads, "rows": side_by_side, "vec": vec, "keep": keep}
    source = rows_cuda.kernel(rows, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(arrays[0].astype(np.float64))
    error = np.abs(arrays[-1].astype(np.float64) - wanted).max() / np.abs(wanted).max()
    assert error < (1e-5 if rows.dtype == "float32" else 1e-2)


@pytest.mark.parametrize(
    ("rows", "threads"),
    [
        (Rows("softmax", 2048, 50257), 512), (Rows("softmax", 2048, 50257, "float16"), 512),
        (Rows("log_softmax", 4096, 32001, "bfloat16"), 1024), (Rows("softmax", 3000, 9001), 256),
    ],
    ids=str,
)  # fmt: skip
def test_many_long_odd_rows_stay_in_the_registers_of_few_threads_untuned(rows, threads):
    target = Target("cuda -arch=sm_90")
    choice = rows_cuda.default_choice(rows, target)
    assert choice == {
        "threads": threads, "rows": 1, "vec": 16 // rows.element_bytes, "keep": 1
    }  # fmt: skip
    assert rows_cuda.violation(rows, choice, target) is None


@pytest.mark.parametrize(
    ("rows", "columns", "threads"), [(8192, 8192, 256), (16384, 5120, 256), (300, 8192, 1024)]
)
def test_threads_have_more_of_many_long_rows_of_16_bit_elements_untuned(rows, columns, threads):
    args = (rows, columns, 1e-5, True, True, "float16")
    assert create("layer_norm.cuda", args, "cuda -arch=sm_90").default()["threads"].val == threads


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_short_rows_share_a_warp_untuned(name):
    default = create(f"{name}.cuda", (10_000, 33), "cuda -arch=sm_90").default()
    knobs = {row[0]: row[2] for row in default.to_json_dict()["entity"]}
    assert knobs["threads"] < 32
    assert knobs["threads"] * knobs["rows"] >= 128
    check_emulated(f"{name}.cuda", (40, 33), rtol=1e-3, count=3)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_norm_of_a_row_far_from_zero_loses_no_digits(keep):
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((2, 300)) + 1e4).astype(np.float32)
    shape = Rows("layer_norm", 2, 300, epsilon=1e-5)
    choice = {"threads": 64, "rows": 1, "vec": 1, "keep": keep}
    out = np.empty_like(data)
    run_emulated(rows_cuda.kernel(shape, choice).kernel("cuda"), [data, out], orders=(0,))
    np.testing.assert_allclose(out, shape.reference()(data.astype(np.float64)), atol=5e-3)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("layer_norm", (4, 0), "must be at least 1"),
        ("rms_norm", (4, 4, -1.0), "epsilon must be at least 0"),
        ("group_norm", (1, 6, 4, 4), "groups divide channels"),
        ("reduce", ("median", 4, 4), "operation must be one of"),
        ("reduce", ("sum", 4, 4, 1, "complex64"), "dtype must be one of"),
        ("reduce", ("sum", (4, 2), 4), "outer and depth must be two numbers, or as many"),
        ("cumsum", (0, 4), "must be at least 1"),
        ("transpose", ((4, 4), (0, 0)), "must name each of 2 axes once"),
        ("transpose", ((4, 4), (1, 0), "complex64"), "dtype must be one of"),
    ],
)
def test_a_shape_that_cannot_be_is_an_error_that_says_so(name, args, message):
    with pytest.raises(TemplateError, match=message):
        create(f"{name}.cuda", args, "cuda")
