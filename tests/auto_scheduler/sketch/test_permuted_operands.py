"""Operands of products that lie badly in memory are also copied in another order first."""

import re

import numpy as np
import pytest

from autotune import te
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.states.loops import ComputeAtKind
from autotune.kernel import launch_violation
from tests.auto_scheduler.convolutions import TYPES, Conv
from tests.auto_scheduler.search.test_cut_tiles import KINDS, programs
from tests.auto_scheduler.sketch.test_tensor_cores import kernels, product, wanted_of
from tests.fuzz.running import Job, run_batch


def copies_of(model):
    """Names of the stages that a program copies in another order."""
    return {
        each.name
        for each in model.program.state.stages
        if each.name.endswith(".permuted") and each.compute_at is ComputeAtKind.ROOT
    }


def permuted(found):
    return [each for each in found if copies_of(each)]


IMAGE, FILTERS = "x.permuted", "weight.permuted"
POINTWISE = {"kernel": (1, 1), "pad": (0, 0, 0, 0), "layout": "NCHW"}


@pytest.mark.parametrize(
    ("conv", "copies"),
    [
        (Conv(), None),
        (Conv(filters="OHWI"), None),
        (Conv(filters="OIHW"), (FILTERS,)),
        (Conv(layout="NCHW"), (IMAGE,)),
        (Conv(layout="NCHW", filters="OIHW"), (IMAGE, FILTERS)),
        (Conv(layout="HWCN", n=16, h=4), None),
        (Conv(filters="OIHW", **POINTWISE), None),
        (Conv(filters="OIHW", h=7, w=7, **POINTWISE), (IMAGE,)),
        (Conv(filters="OIHW", h=15, stride=(2, 1), **POINTWISE), None),
        (Conv(filters="OIHW", stride=(1, 2), **POINTWISE), (IMAGE,)),
        (Conv(c=4, kernel=(4, 4), pad=(1, 1, 2, 2), layout="NCHW"), None),
    ],
    ids=str,
)
def test_what_is_copied_is_what_no_neighbours_of_are_read_together(conv, copies):
    _, found = programs(conv.tensors(), TensorCoreCostModel)
    assert [copies_of(each) for each in permuted(found)[:1]] == ([set(copies)] if copies else [])
    assert not copies_of(found[0])


def test_floats_are_copied_for_warpgroups_alone_if_they_lie_across_the_sum():
    for dtype, kind, expected in (
        ("float16", WarpgroupCostModel, set()),
        ("tf32", TensorCoreCostModel, set()),
        ("tf32", WarpgroupCostModel, {"A.permuted", "B.permuted"}),
    ):
        found = programs(product(64, 64, 64, dtype=dtype, across=True), kind)[1]
        assert set().union(*map(copies_of, found)) == expected
    found = programs(product(64, 64, 64, dtype="tf32"), WarpgroupCostModel)[1]
    assert set().union(*map(copies_of, found)) == {"B.permuted"}


def test_a_sum_over_two_axes_is_copied_only_where_operands_have_others_last():
    """One that both have last is left where it is, though the other is longer."""
    for swapped in (False, True):
        a = te.placeholder((32, 64, 16), "float16", name="A")
        b = te.placeholder((32, 16, 64) if swapped else (32, 64, 16), "float16", name="B")
        r, s = te.reduce_axis((0, 64), "r"), te.reduce_axis((0, 16), "s")

        def value(i, j, a=a, b=b, r=r, s=s, swapped=swapped):
            right = b[j, s, r] if swapped else b[j, r, s]
            return te.sum(a[i, r, s].astype("float32") * right.astype("float32"), axis=[r, s])

        found = programs([a, b, te.compute((32, 32), value, name="C")], TensorCoreCostModel)[1]
        assert len(permuted(found)) == (len(found) // 2 if swapped else 0)


def of_padded(also):
    """A product of an image [channel, place], made and padded first; it is added too if also."""
    x = te.placeholder((64, 61), "float16", name="x")
    w = te.placeholder((64, 64), "float16", name="w")
    made = te.compute((64, 61), lambda c, i: te.abs(x[c, i]), name="made")

    def padded(c, i):
        zero = te.const(0, "float16")
        return te.if_then_else(te.all(i >= 1, i < 62), made[c, i - 1], zero)

    pad = te.compute((64, 63), padded, name="pad")
    k = te.reduce_axis((0, 64), "k")

    def value(i, j):
        return te.sum(pad[k, i].astype("float32") * w[j, k].astype("float32"), axis=k)

    total = te.compute((63, 64), value, name="total")
    if not also:
        return [x, w, total]
    return [x, w, te.compute((63, 64), lambda i, j: total[i, j] + pad[j, i].astype("float32"))]


@pytest.mark.parametrize(
    ("also", "copied"), [(False, "made.permuted"), (True, "pad.permuted")], ids=["alone", "twice"]
)
def test_padding_is_copied_only_if_others_read_it_too(also, copied, tmp_path):
    task, found = programs(of_padded(also), TensorCoreCostModel)
    assert set().union(*map(copies_of, found)) == {copied}

    def wanted(inputs):
        pad = np.pad(np.abs(inputs[0]).astype(np.float64), [(0, 0), (1, 1)]).T
        return pad @ inputs[1].astype(np.float64).T + (pad if also else 0.0)

    check(task, permuted(found)[0], wanted, np.float16, tmp_path)


CONVOLUTIONS = {
    "NCHW": Conv(n=1, c=64, f=64, layout="NCHW", filters="OIHW"),
    "NHWC of OIHW": Conv(n=1, c=64, f=64, filters="OIHW", follows=False),
    "odd": Conv(
        n=3, c=64, h=7, w=11, f=72, kernel=(2, 3), stride=(1, 2), pad=(1, 0, 0, 2),
        dilation=(2, 1), layout="NCHW", filters="OIHW", dtype="bfloat16",
    ),
    "1x1": Conv(n=2, c=64, h=7, w=7, f=64, filters="OIHW", **POINTWISE),
    "HWNC of TF32": Conv(
        n=16, c=32, h=3, w=3, f=64, pad=(0, 1, 1, 0), layout="HWNC", filters="OIHW", dtype="tf32"
    ),
    "rows of 12": Conv(n=1, c=64, h=8, w=12, f=64, layout="NCHW", filters="OIHW"),
    "NCHW in parts": Conv(n=1, c=128, h=8, w=8, f=64, layout="NCHW", filters="OIHW"),
}  # fmt: skip
PRODUCTS = {
    "across": (70, 72, 64, {"dtype": "tf32", "across": True}),
    "batch": (64, 64, 32, {"dtype": "tf32", "batch": 2}),
    "both transposed": (64, 100, 32, {"dtype": "tf32", "transposed": True, "across": True}),
}


def check(task, model, wanted, dtype, folder):
    """Compare with integers, of which all sums are exact."""
    rows, found = kernels(task, model, 2)
    assert len(found) == 2
    shape, copies = model.shape(rows), min(len(copies_of(model)), 1)  # one kernel copies all
    for i, kernel in enumerate(found):
        main = kernel.calls[copies]
        assert len(kernel.calls) >= copies + 1
        assert launch_violation(kernel, task.target.limits) is None
        assert np.prod(main.launch.grid) == shape.blocks[i]
        assert main.launch.shared_bytes in (0, shape.shared_bytes[i])
        state = model.program.candidate(rows[i])
        assert model.program.row_of(state.transform_steps) == rows[i].tolist()
    rng = np.random.default_rng(0)
    shapes = [each.shape for each in found[0].args if each.role == "in"]
    inputs = [rng.integers(-2, 3, each).astype(dtype) for each in shapes]
    results = run_batch([Job(each, inputs, i) for i, each in enumerate(found)], folder)
    exact = wanted(inputs)
    for got in results:
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], exact.astype(got[0].dtype))


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_permuted_copies_compute_what_numpy_does(name, kind, tmp_path):
    conv = CONVOLUTIONS[name]
    task, found = programs(conv.tensors(), kind)
    model = permuted(found)["parts" in name]
    assert model.singly == (False, False)
    check(task, model, conv.wanted, TYPES[conv.dtype], tmp_path)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_permuted_copies_compute_what_numpy_does(name, tmp_path):
    m, n, k, options = PRODUCTS[name]
    task, found = programs(product(m, n, k, **options), WarpgroupCostModel)
    check(task, permuted(found)[0], lambda pair: wanted_of(options, *pair), np.float32, tmp_path)


@pytest.mark.parametrize(
    ("conv", "sizes"),
    [
        (Conv(n=2, h=4, w=6, layout="NCHW"), (48, 32)),  # a thread has 8 columns
        (Conv(n=2, h=4, w=8, layout="NCHW"), (32, 64)),
        (Conv(n=1, h=2, w=8, layout="NCHW"), (16, 32)),  # fewer than a warp has columns
        (Conv(n=2, h=7, w=7, layout="NCHW"), (98, 32)),
        (Conv(n=2, h=4, w=6), (48, 32)),
    ],
    ids=str,
)
def test_places_are_columns_where_those_of_a_thread_are_neighbours(conv, sizes):
    found = programs(conv.tensors(), TensorCoreCostModel)[1]
    assert {each.extents[:2] for each in found} == {sizes}


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        ((8, 12), (64, 96)),  # a thread of a warpgroup has pairs, four store 8 columns
        ((9, 8), (64, 72)),
        ((9, 10), (90, 64)),  # 8 may be of two images
        ((16, 7), (112, 64)),
    ],
    ids=str,
)
def test_places_are_columns_for_warpgroups_where_pairs_are_neighbours(size, sizes):
    h, w = size
    conv = Conv(n=1, c=64, h=h, w=w, f=64, layout="NCHW")
    found = programs(conv.tensors(), WarpgroupCostModel)[1]
    assert {each.extents[:2] for each in found} == {sizes}


def test_estimates_tell_copies_of_single_elements_from_others():
    for layout, filters, singly in (
        ("NHWC", "HWIO", (False, False)),
        ("NHWC", "OIHW", (False, True)),
        ("NCHW", "OIHW", (False, True)),  # places are columns
    ):
        conv = Conv(n=1, c=128, h=28, w=28, f=64, layout=layout, filters=filters)
        found = programs(conv.tensors(), WarpgroupCostModel)[1]
        assert {each.singly for each in found if not copies_of(each)} == {singly}
        assert {each.singly for each in permuted(found)} <= {(False, False)}


def test_kernels_that_copy_are_part_of_the_estimate():
    _, found = programs(product(256, 256, 256, dtype="tf32"), WarpgroupCostModel)
    model = found[0].device
    for each in found:
        if each.batch == 1:
            moved = 2 * 4 * 256 * 256 / model.memory_bytes_per_s
            expected = (model.launch_s + moved) * len(copies_of(each))
            assert each.around_seconds == pytest.approx(expected)


def test_threads_read_neighbours_of_the_source_and_store_neighbours_of_the_copy():
    conv = Conv(n=2, c=64, h=16, w=16, f=64, pad=(0, 0, 0, 0), layout="NCHW", filters="OIHW")
    task, found = programs(conv.tensors(), TensorCoreCostModel)
    _, (kernel,) = kernels(task, permuted(found)[0], 1)
    text = kernel.source.split("__global__")[1]
    # 64 of 256 places of each of 64 channels; rows of a tile are one longer, an odd number.
    assert re.search(r"shared\[\(tx >> 6\) \* 65 \+ \(tx & 63\)\] = x\[.*\+ \(tx & 63\)\];", text)
    assert re.search(r"\(unsigned int\*\)\(x_permuted \+ bx \* 4096 \+ tx \* 2\) = ", text)


def test_columns_of_an_odd_number_of_rows_are_one_run_of_a_copy():
    conv = Conv(n=2, c=64, h=7, w=7, f=64, layout="NCHW", filters="OIHW")
    task, found = programs(conv.tensors(), TensorCoreCostModel)
    _, (kernel,) = kernels(task, permuted(found)[0], 1)
    first = kernel.source.split("__global__")[1]
    for name in ("x", "weight"):
        vectors = (
            rf"\*\(uint4\*\)\({name}_matrix_shared \+ tx \* 8\) = \*\(const uint4\*\)\({name} "
        )
        assert re.search(vectors, first)


def test_words_are_copied_one_by_one():
    found = programs(product(64, 64, 64, dtype="tf32", across=True), WarpgroupCostModel)
    task, models = found
    _, (kernel,) = kernels(task, permuted(models)[0], 1)
    first = kernel.source.split("__global__")[1]
    assert "float4" not in first
    assert re.search(r"_shared\[\(tx >> 6\) \* 65 \+ \(tx & 63\)\] = ", first)


def test_both_operands_are_copied_by_one_kernel():
    conv = Conv(n=2, c=64, h=16, w=16, f=64, layout="NCHW", filters="OIHW")
    task, found = programs(conv.tensors(), TensorCoreCostModel)
    _, (kernel,) = kernels(task, permuted(found)[0], 1)
    first, second = kernel.calls[:2]
    assert first.args == ("x", "x_permuted", "weight", "weight_permuted")
    assert first.launch.grid == (2 * 4 + 16, 1, 1)  # 64 of 256 places; those of 4 filters
    assert {"x_permuted", "weight_permuted"} <= set(second.args)
