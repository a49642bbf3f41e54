"""Errors of kernels are bounded by following their references; none may fall back to a guess."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.kernel import SourceKernel
from autotune.measure.check.tracked_reference import follow_errors
from autotune.runtime.arrays.array import numpy_dtype
from autotune.target import Target
from autotune.task import create
from autotune.task.template import TASK_TABLE

CONV = (1, 6, 7, 8, 12, 3, 3, 1, 1)
EPILOGUE = (True, "relu", True, False, 1)
EXPRESSION = ("relu(a * s) + b", [(n, (4, 5, 6)) for n in "asb"])
CASES = {
    "attention": [(1, 2, 5, 9, 64, 2, True), (1, 4, 1, 9, 64, 2)],
    "conv2d_nchw": [CONV, (*CONV, True, True)],
    "conv2d_int8": [(1, 8, 8, 4, 4, 3, 3, 1, 1), (1, 8, 8, 4, 4, 3, 3, 1, 1, 1, 2, "uint8", 3)],
    "conv2d_nhwc": [
        (*CONV, *EPILOGUE), (*CONV, *EPILOGUE, "float16"), (*CONV, *EPILOGUE, "tf32"),
        (*CONV, *EPILOGUE, "bfloat16", 4), (1, 5, 6, 32, 11, 1, 1, 2, 0, *EPILOGUE, "tf32"),
    ],
    "conv2d_transpose": [((1, 4, 5, 5), (4, 6, 2, 2), (2,))],
    "conv3d": [((1, 3, 4, 5, 6), (4, 3, 3, 3, 3), (1,), (1,))],
    "cumsum": [(5, 30)],
    "depthwise_conv2d": [(1, 8, 8, 6, 1, 3, 3, 2, 1)],
    "elementwise": [EXPRESSION],
    "gemm": [
        (7, 9, 11, "float32", 1, False, True, True, "gelu"), (16, 16, 16, "tf32"),
        (7, 9, 11, "float16", 2, True, True, True, "gelu"), (16, 24, 32, "bfloat16"),
    ],
    "gemm.cpu": [(7, 9, 11, 2, True, True, "b"), (7, 9, 11)],
    "gemm_int8": [(7, 9, 11), (7, 9, 11, "uint8", 3)],
    "gemm_nn": [(16, 16, 16)],
    "gemm_packed": [(7, 20, 11, True, True, True), (7, 9, 11, False, False, False, 8)],
    "group_norm": [(1, 8, 9, 2)],
    "layer_norm": [(5, 30)],
    "log_softmax": [(5, 30)],
    "matvec": [(16, 16, 4, "float16")],
    "pool2d": [("max", 1, 8, 8, 4, 3, 2, 1), ("avg", 1, 8, 8, 4, 3, 2, 1)],
    "reduce": [(name, 5, 30) for name in ("sum", "mean", "min")],
    "rms_norm": [(5, 30)],
    "softmax": [(5, 30)],
    "take_rows": [(9, 8, 5)],
    "transpose": [((4, 5, 6), (0, 2, 1))],
}  # fmt: skip
TARGETS = {"cpu": Target("llvm"), "cuda": Target("cuda -arch=sm_90")}
SOURCES = sorted(
    name
    for name, entry in TASK_TABLE.items()
    if entry.fcustomized
    and entry.fcustomized.__module__.startswith("autotune.templates.")
    and not name.startswith("te/")
    # Its transforms are products of three factors, and err by what is allowed for long sums.
    and not name.startswith("winograd")
)
WORKLOADS = [
    (name, args) for name in SOURCES for args in CASES.get(name) or CASES[name.rpartition(".")[0]]
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args"), WORKLOADS)
def test_errors_of_a_template_are_bounded_by_following_its_reference(name, args):
    task = create(name, args, TARGETS[name.rpartition(".")[2]])
    source = task.instantiate(task.default())
    assert isinstance(source, SourceKernel)
    kernel = source.kernel(task.target.language)
    rng = np.random.default_rng(0)
    values = [
        np.asarray(rng.integers(0, 4, one.shape)).astype(numpy_dtype(one.dtype))
        for one in kernel.inputs
    ]
    found = follow_errors(source.reference, values, kernel, None)
    assert all(np.isfinite(one.bounds).all() for one in found if one.bounds is not None)
