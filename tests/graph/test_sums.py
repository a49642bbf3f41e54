"""16-bit floats are added up in float32 whatever computes them, and a result is rounded once."""

import ml_dtypes
import numpy as np
import pytest

from autotune import te
from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.network import compile_network
from tests.graph.test_operators import CASES, case_name
from tests.topi.evaluate import evaluate

# What rounding to a type may change, relative to the largest result: a half of its last digit.
HALVES = {"float16": 2**-11, "bfloat16": 2**-8}
ADD = (
    "sum", "mean", "prod", "softmax", "avg_pool", "conv", "dense", "matmul", "norm", "attention",
)  # fmt: skip
ADDING = [case for case in CASES if any(word in case[0].name for word in ADD)]
LONG = 4096
# An operator and the shapes of its inputs, in which each result is of `LONG` elements.
SUMS = [
    (ops.Sum((1,)), (3, LONG)),
    (ops.Sum((0,)), (LONG, 3)),
    (ops.Dense(), (2, LONG), (3, LONG)),
    (ops.BatchMatmul(), (1, 2, LONG), (1, 3, LONG)),
    (ops.Conv2d(), (1, LONG // 16, 4, 4), (2, LONG // 16, 4, 4)),
    (ops.Conv2d(data_layout="NHWC", kernel_layout="HWIO"), (1, 4, 4, 256), (4, 4, 256, 2)),
    (ops.Conv2d(groups=2), (1, 512, 4, 4), (2, 256, 4, 4)),
    (ops.Conv2d(groups=2), (1, 2, 64, 64), (2, 1, 64, 64)),
    (ops.Conv3d(), (1, 64, 4, 4, 4), (2, 64, 4, 4, 4)),
    (ops.Conv2dTranspose((1,), (3,)), (1, 256, 4, 4), (256, 2, 4, 4)),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", ADDING, ids=case_name)
def test_what_adds_rounds_its_result_only(case, dtype):
    op, *shapes = case
    rng, kind = np.random.default_rng(0), np.dtype(getattr(ml_dtypes, dtype, dtype))
    arrays = [rng.uniform(0.1, 1, shape).astype(kind) for shape in shapes]
    placeholders = [te.placeholder(a.shape, dtype) for a in arrays]
    tensor = op.compute(*placeholders)
    assert tensor.dtype == op.infer(*[TensorType(a.shape, dtype) for a in arrays]).dtype == dtype
    computed = evaluate(tensor, list(zip(placeholders, arrays, strict=True)))
    wanted = op.reference(*[a.astype("float64") for a in arrays])
    error = np.abs(np.asarray(computed, "float64") - wanted).max() / np.abs(wanted).max()
    assert error <= HALVES[dtype] * 1.01


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", SUMS, ids=case_name)
def test_ones_are_counted_beyond_where_their_own_type_stops(case, dtype):
    op, *shapes = case
    inputs = [Variable(TensorType(shape, dtype), f"x{i}") for i, shape in enumerate(shapes)]
    network = compile_network(Graph.of(apply(op, *inputs)), "c").instance()
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    (got,) = network(*[np.ones(shape, kind) for shape in shapes])
    largest = got.numpy().view(kind).astype("float32").max()
    assert largest == LONG
