"""Operands of products that depend on sums of their rows are stored by the kernel of the sums."""

import pytest

from autotune import te, topi
from autotune.auto_scheduler.search.analytical.gpu import kernels_seconds
from autotune.auto_scheduler.search.analytical.several import SeveralCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.states.loops import ComputeAtKind
from tests.auto_scheduler.search.test_several_products import (
    LARGE,
    dense,
    matrices,
    task_of,
    wide,
)
from tests.auto_scheduler.tensor_core_programs import PARAMS

WIDTH = 256


def of_softmax(x, w):
    """A product of a softmax that is rounded to float16 by an operation of its own."""
    return dense(topi.cast(topi.nn.softmax(topi.cast(x, "float32")), "float16"), w, "sums")


def of_layer_norm(x, w):
    """A product of rows that are divided by their own lengths."""
    k = te.reduce_axis((0, WIDTH), "k")
    squares = te.compute((WIDTH,), lambda i: te.sum(wide(x[i, k]) * wide(x[i, k]), axis=k))
    unit = te.compute(
        (WIDTH, WIDTH),
        lambda i, j: (wide(x[i, j]) * te.rsqrt(squares[i])).astype("float16"),
        "unit",
    )
    return dense(unit, w, "sums")


def of_relu(x, w):
    """A product of an operand that depends on no sum."""
    return dense(topi.nn.relu(x), w, "sums")


def of_scaled_columns(x, w):
    """A product of an operand that depends on sums of columns: no block has one of these."""
    k = te.reduce_axis((0, WIDTH), "k")
    total = te.compute((WIDTH,), lambda j: te.sum(wide(x[k, j]), axis=k), "total")
    scaled = te.compute(
        (WIDTH, WIDTH), lambda i, j: (wide(x[i, j]) / total[j]).astype("float16"), "scaled"
    )
    return dense(scaled, w, "sums")


def on_tensor_cores(tensors):
    """Return the sketches whose products are all on tensor cores."""
    sketches = sketches_of(task_of(tensors), PARAMS)
    products = max(sum(bool(s.attrs.tensor_core) for s in each.stages) for each in sketches)
    return [
        each
        for each in sketches
        if sum(bool(s.attrs.tensor_core) for s in each.stages) == products > 0
    ]


def stored(state):
    """Return the names and types of what kernels store, in order."""
    return [
        (stage.op.name, stage.op.outputs[0].dtype)
        for stage in state.stages
        if stage.is_compute and stage.compute_at is ComputeAtKind.ROOT
    ]


@pytest.mark.parametrize(
    ("product", "operand"),
    [
        (of_softmax, [("T_cast", "float16")]),  # not before it is rounded, in an operation apart
        (of_layer_norm, [("unit", "float16")]),
        (of_relu, []),
        (of_scaled_columns, [("total", "float32")]),
    ],
    ids=["softmax", "rows", "relu", "columns"],
)
def test_an_operand_is_stored_by_the_kernel_of_the_sums_of_its_rows(product, operand):
    x, w = matrices(x=(WIDTH, WIDTH), w=(WIDTH, WIDTH))
    fewest = min(map(stored, on_tensor_cores([x, w, product(x, w)])), key=len)
    assert fewest == [*operand, ("sums", "float32")]


def test_attention_may_be_three_kernels():
    """Two products, and between them one that computes and applies both sums of a row."""
    found = [stored(each) for each in on_tensor_cores(LARGE["attention"])]
    fewest = min([each for each in found if len(each) > 1], key=len)
    assert [name for name, _ in fewest] == ["scores", "share", "seen"]


def test_estimates_count_how_many_kernels_read_a_tensor():
    """Of scores: one, or both sums of rows have kernels of their own, or one has."""
    task = task_of(LARGE["attention"])
    scores_bytes = 16 * 512 * 512 * 4
    found = set()
    for model in programs_of(task, sketches_of(task, PARAMS), PARAMS):
        names = [stage.op.name for stage in model.program.state.stages]
        if "scores" not in names:  # a part of them at a time
            continue
        device = model.others.device if isinstance(model, SeveralCostModel) else model.device
        seconds = kernels_seconds(model.program, device).get(names.index("scores"))
        if seconds is not None:
            bytes_moved = (seconds - device.launch_s) * device.memory_bytes_per_s
            found.add(round(bytes_moved / scores_bytes, 3))
    assert found == {2.0, 3.0, 4.0}  # once they are written
