"""Schedules by rule: any graph of computes compiles and runs at once."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.auto_scheduler.fallback import fallback_schedule
from autotune.auto_scheduler.search import untuned
from autotune.driver import kernel_of
from autotune.errors import LoweringError
from autotune.graph import TensorType
from autotune.target import Target
from tests.graph.test_operators import CASES, case_name, drawn


def run(target, tensors, arrays, outputs):
    schedule, args = fallback_schedule(tensors, target)
    autotune.build(schedule, args, target=target)(*arrays, *outputs)


def check(case, target):
    op, arrays = case[0], drawn(case)
    types = op.infer(*[TensorType(a.shape) for a in arrays])
    types = types if isinstance(types, tuple) else (types,)
    expected = op.reference(*[a.astype("float64") for a in arrays])
    expected = expected if isinstance(expected, tuple) else (expected,)
    inputs = [te.placeholder(a.shape, "float32", f"p{i}") for i, a in enumerate(arrays)]
    made = op.compute(*inputs)
    outputs = [np.zeros(t.shape, t.dtype) for t in types]
    run(target, [*inputs, *(made if isinstance(made, list) else [made])], arrays, outputs)
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_operator_of_networks_runs_on_the_cpu(case):
    check(case, "c")


# One of each kind of stage; the emulator's compiler takes seconds a kernel.
@pytest.mark.many_cases
@pytest.mark.parametrize(
    "name", ["nn.relu-", "nn.conv2d-1x4x7x6-5x4x3x3", "nn.softmax-3x5", "argmax", "concatenate"]
)
def test_each_kind_of_stage_runs_on_the_emulated_gpu(name):
    case = next(each for each in CASES if case_name(each).startswith(name))
    check(case, "cuda -emulate")


@pytest.mark.parametrize("length", [7, 200])
@pytest.mark.parametrize("kind", ["sum", "argmax", "element"])
def test_a_single_number_is_computed_on_the_emulated_gpu(kind, length):
    a, k = te.placeholder((length,), name="a"), te.reduce_axis((0, length), name="k")
    values = np.random.default_rng(0).normal(size=length).astype("float32")
    out, want = {
        "sum": (te.compute((), lambda: te.sum(a[k], axis=k)), values.sum()),
        "argmax": (topi.argmax(a), values.argmax()),
        "element": (te.compute((), lambda: a[3] * 2.0), 2 * values[3]),
    }[kind]
    got = np.zeros((), out.dtype)
    run("cuda -emulate", [a, out], [values], [got])
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_long_sums_of_few_results_are_shared_by_the_threads_of_a_block():
    a, b = te.placeholder((3, 200)), te.placeholder((5, 200))
    out = topi.nn.relu(topi.nn.dense(a, b))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 200)).astype("float32") for n in (3, 5)]
    got = np.zeros((3, 5), "float32")
    run("cuda -emulate", [a, b, out], arrays, [got])
    np.testing.assert_allclose(got, np.maximum(arrays[0] @ arrays[1].T, 0), rtol=1e-4, atol=1e-4)
    schedule, _ = fallback_schedule([a, b, out], "cuda")
    text = str(autotune.lower(schedule, [a, b, out]))
    assert "threadIdx.x" in text


def test_a_sum_is_kept_in_registers_where_an_elementwise_stage_reads_it():
    data, weight = te.placeholder((1, 8, 8, 16)), te.placeholder((3, 3, 16, 32))
    bias = te.placeholder((32,))
    out = topi.nn.relu(topi.nn.conv2d_nhwc(data, weight, 1, 1) + bias)
    schedule, args = fallback_schedule([data, weight, bias, out], "c")
    text = str(autotune.lower(schedule, args))
    assert "parallel" in text
    assert text.count("allocate") == 1  # the tile of sums; padding is computed in place


def test_small_windows_on_a_cpu_have_their_padding_put_around_the_image_once():
    x = te.placeholder((2, 3, 11, 13), name="x")
    pool = topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")
    data = np.random.default_rng(0).normal(size=(2, 3, 11, 13)).astype("float32")
    out = np.full([int(n) for n in pool.shape], np.nan, "float32")
    run("c", [x, pool], [data], [out])
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(out, windows.max(axis=(4, 5)))
    schedule, args = fallback_schedule([x, pool], "c")
    text = str(autotune.lower(schedule, args))
    assert "allocate pad_temp" in text
    assert not [line for line in text.splitlines() if "max(" in line and "if_then_else" in line]


def chain(shape, length):
    """Return a tensor, and the last of products each of which reads the one before twice."""
    value = x = te.placeholder(shape, name="x")
    for _ in range(length):
        value = value * topi.cos(value)
    return x, value


def test_text_that_doubles_with_each_stage_is_cut_into_stages_that_are_stored():
    x, value = chain((4, 64), 24)
    data = np.random.default_rng(0).uniform(0.5, 1, (4, 64)).astype("float32")
    want = data.astype("float64")
    for _ in range(24):
        want = want * np.cos(want)
    got = np.zeros_like(data)
    run("c", [x, value], [data], [got])
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_a_gpu_stores_stages_of_text_that_doubles_too():
    schedule, args = fallback_schedule(chain((1024, 256), 24), "cuda")
    assert len(str(autotune.lower(schedule, args))) < 200_000  # else some gigabytes


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_extents_that_nothing_divides_and_no_axes_at_all_are_scheduled(target):
    x = te.placeholder((7, 11, 13))
    total = topi.sum(x)
    for out in (total, topi.sum(x, axis=1), topi.exp(x), topi.nn.softmax(x), total * total):
        schedule, args = fallback_schedule([x, out], target)
        autotune.lower(schedule, args)


def test_long_sums_of_too_few_results_to_fill_a_gpu_are_parted_among_the_threads_of_a_block(
    monkeypatch,
):
    monkeypatch.setattr(untuned, "_FEWEST", 1e9)
    data = te.placeholder((1, 64, 7, 7), name="data")
    weight = te.placeholder((343, 64, 3, 3), name="weight")
    conv = topi.nn.conv2d_nchw(data, weight, 1, 1)
    relu = topi.nn.relu(conv)
    kernel = kernel_of(fallback_schedule((data, weight, relu), "cuda"), "cuda")
    assert [call.launch.block for call in kernel.calls] == [(32, 8, 1), (128, 1, 1)]
    assert "/ 9" not in kernel.source  # filter elements are counted by loops of their own
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype("float32") for shape in (data.shape, weight.shape)]
    got, want = np.full((1, 343, 7, 7), np.nan, "float32"), np.zeros((1, 343, 7, 7), "float32")
    run("cuda -emulate", (data, weight, relu), arrays, [got])
    run("c", (data, weight, relu), arrays, [want])
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(("results", "block"), [(1 << 14, (64, 1, 1)), (1 << 17, (128, 1, 1))])
def test_many_results_have_a_thread_each_and_few_a_block(results, block):
    a, b = te.placeholder((results, 512), name="a"), te.placeholder((1, 512), name="b")
    kernel = kernel_of(fallback_schedule((a, b, topi.nn.dense(a, b)), "cuda"), "cuda")
    assert kernel.calls[0].launch.block == block


def layer():
    data, weight = te.placeholder((1, 8, 7, 7)), te.placeholder((16, 8, 3, 3))
    return [data, weight, topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 1, 1))]


def answer(tensors, arrays):
    out = np.full([int(n) for n in tensors[-1].shape], np.nan, "float32")
    schedule, given = fallback_schedule(tensors, "llvm")
    module = autotune.build(schedule, given, target="llvm")
    module(*arrays, out)
    return out, module.kernel.source


def test_what_reads_much_again_and_again_has_the_tiles_of_the_best_estimate_on_a_cpu(monkeypatch):
    monkeypatch.setattr(untuned, "_FEWEST", 1e5)
    shapes = [[int(n) for n in each.shape] for each in layer()[:2]]
    arrays = [np.random.default_rng(0).random(shape, "float32") for shape in shapes]
    out, text = answer(layer(), arrays)
    assert "_global[" in text  # weights are packed for vectors along output channels
    assert kernel_of(fallback_schedule(layer(), "llvm"), Target("llvm")).source == text
    monkeypatch.setattr(untuned, "_FEWEST", 1e9)
    plain, other = answer(layer(), arrays)
    assert "_global[" not in other
    np.testing.assert_allclose(out, plain, rtol=1e-5)


def test_what_reads_all_again_and_again_has_the_tiles_of_the_best_estimate_on_a_gpu(monkeypatch):
    data, weight = te.placeholder((1, 8, 7, 7)), te.placeholder((16, 8, 3, 3))
    relu = topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 1, 1))
    plain = kernel_of(fallback_schedule((data, weight, relu), "cuda"), "cuda")
    assert "_shared[" not in plain.source
    monkeypatch.setattr(untuned, "_FEWEST", 1e4)
    kernel = kernel_of(fallback_schedule((data, weight, relu), "cuda"), "cuda")
    assert "_shared[" in kernel.source
    arrays = [np.random.default_rng(0).random(shape, "float32")
              for shape in ((1, 8, 7, 7), (16, 8, 3, 3))]  # fmt: skip
    got, want = (np.full((1, 16, 7, 7), np.nan, "float32") for _ in range(2))
    run("cuda -emulate", (data, weight, relu), arrays, [got])
    run("c", (data, weight, relu), arrays, [want])
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 64])
def test_a_gpu_estimates_products_of_matrices_and_none_of_a_vector(rows):
    a, b = te.placeholder((rows, 512), name="a"), te.placeholder((4096, 512), name="b")
    found = untuned.untuned_schedule([a, b, topi.nn.dense(a, b)], Target("cuda"))
    assert (found is not None) == (rows > 1)


def test_an_estimate_that_cannot_be_lowered_leaves_the_schedule_to_the_rules(monkeypatch):
    def refuse(*given, **named):
        raise LoweringError("none of it")

    monkeypatch.setattr(untuned, "_FEWEST", 1e5)
    monkeypatch.setattr(untuned, "lower_schedule", refuse)
    arrays = [np.ones([int(n) for n in t.shape], "float32") for t in layer()[:2]]
    out, text = answer(layer(), arrays)
    assert "_global[" not in text
    assert out[0, 0, 3, 3] == 8 * 9


def moved(kind, rows=1024, columns=256, dtype="float16"):
    """Return a stage that moves or maps many elements, with its inputs."""
    a = te.placeholder((rows, columns), dtype, name="a")
    b = te.placeholder((rows, columns), dtype, name="b")
    return {
        "joined": lambda: [a, b, topi.concatenate([a, b], 1)],
        "padded": lambda: [a, topi.nn.pad(a, (2, 0), (2, 8), 1.5)],
        "cut": lambda: [a, topi.strided_slice(a, (0, 8), (rows, columns - 8))],
        "cut between": lambda: [a, topi.strided_slice(a, (0, 1), (rows, columns - 1))],
        "each second": lambda: [a, topi.strided_slice(a, (0, 0), (rows, columns), (1, 2))],
        "cast": lambda: [a, topi.cast(a, "float32")],
        "broadcast": lambda: [a, topi.broadcast_to(topi.expand_dims(a, 0), (2, rows, columns))],
    }[kind]()


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("kind", "vector"),
    [
        ("joined", "uint4"),
        ("padded", "uint4"),
        ("cut", "uint4"),
        ("cast", "float4"),
        ("broadcast", "uint4"),
        ("cut between", None),
        ("each second", None),
    ],
)
def test_many_elements_are_moved_as_vectors_where_their_lanes_are_neighbours(kind, vector):
    tensors = moved(kind)
    source = kernel_of(fallback_schedule(tensors, "cuda"), "cuda").source
    assert (f"*({vector}*)" if vector else "*(") in source or vector is None
    assert ("*(" in source) == (vector is not None)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (1024, 256)).astype("float16") for _ in tensors[:-1]]
    got, want = (np.zeros([int(n) for n in tensors[-1].shape], tensors[-1].dtype) for _ in "ab")
    run("cuda -emulate", tensors, arrays, [got])
    run("c", tensors, arrays, [want])
    np.testing.assert_array_equal(got, want)


def test_few_elements_have_a_thread_each():
    kernel = kernel_of(fallback_schedule(moved("joined", 128), "cuda"), "cuda")
    assert kernel.calls[0].launch.grid[0] * 128 == 128 * 512


def test_sizes_that_no_block_divides_are_computed_to_the_last_element():
    tensors = moved("joined", 1021, 259)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (1021, 259)).astype("float16") for _ in "ab"]
    got = np.zeros((1021, 518), "float16")
    run("cuda -emulate", tensors, arrays, [got])
    np.testing.assert_array_equal(got, np.concatenate(arrays, 1))


def squared_differences(shape, axes):
    a, b = (te.placeholder(shape, name=name) for name in "ab")
    apart = te.compute(shape, lambda *i: (a(*i) - b(*i)) * (a(*i) - b(*i)), name="squared")
    return [a, b, topi.sum(apart, axis=axes)]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "axes", "grids"),
    [
        ((512, 1024), 0, [64, 8]),  # columns: neighbours read neighbours, in two ranges
        ((100_000,), 0, [24, 1]),
        ((300, 700), (0, 1), [51, 1]),
        ((64, 16, 640), (0, 2), [160, 1]),
        ((600, 512), 1, [600]),  # rows enough to fill a device
    ],
)
def test_long_sums_of_few_results_fill_a_device(shape, axes, grids):
    tensors = squared_differences(shape, axes)
    kernel = kernel_of(fallback_schedule(tensors, "cuda"), "cuda")
    assert [call.launch.grid[0] for call in kernel.calls] == grids
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype("float32") for _ in "ab"]
    want = ((arrays[0] - arrays[1]) ** 2).sum(axes)
    got = np.zeros(want.shape, "float32")
    run("cuda -emulate", tensors, arrays, [got])
    np.testing.assert_array_equal(got, want)
