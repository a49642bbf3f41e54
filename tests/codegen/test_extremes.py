"""The larger and the smaller of two floats are NaN where one is, as numpy has it."""

import subprocess

import ml_dtypes
import numpy as np
import pytest

from autotune import te
from autotune.codegen.source import kernel_of_schedule
from autotune.driver import build
from autotune.target import Target
from tests.templates.assembled import needs_nvcc

VALUES = [np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0]
PAIRS = np.array([(a, b) for a in VALUES for b in VALUES]).T


@pytest.fixture
def target():
    return "cuda -emulate"


def choice(name, dtype):
    """Return a schedule of one block, and its tensors."""
    x, y = (te.placeholder((PAIRS.shape[1],), dtype, name=each) for each in "xy")
    z = te.compute(x.shape, lambda i: getattr(te, name)(x[i], y[i]), name="z")
    s = te.create_schedule([z.op])
    s[z].bind(z.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [x, y, z]


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("name", "expected"), [("max", np.maximum), ("min", np.minimum)])
def test_a_nan_on_either_side_is_kept(target, name, expected, dtype):
    x, y = PAIRS.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    z = np.empty_like(x)
    build(*choice(name, dtype), target=target)(x, y, z)
    np.testing.assert_array_equal(z.astype("float64"), expected(*PAIRS))


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("name", "expected"), [("max", np.maximum), ("min", np.minimum)])
def test_a_nan_on_either_side_is_kept_on_a_cpu(name, expected, dtype, vectors):
    x, y = np.resize(PAIRS, (2, 64)).astype(dtype)
    given = [te.placeholder(x.shape, dtype, name=each) for each in "xy"]
    z = te.compute(x.shape, lambda i: getattr(te, name)(given[0][i], given[1][i]), name="z")
    s = te.create_schedule([z.op])
    if vectors:
        s[z].vectorize(z.op.axis[0])
    out = np.empty_like(x)
    build(s, [*given, z], target="llvm")(x, y, out)
    np.testing.assert_array_equal(out, expected(x, y))


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_constant_that_is_a_nan_is_kept_on_a_cpu(name, is_first, vectors):
    x = te.placeholder((32,), name="x")
    nan = te.const(np.nan, "float32")
    largest = getattr(te, name)
    z = te.compute((32,), lambda i: largest(nan, x[i]) if is_first else largest(x[i], nan))
    s = te.create_schedule([z.op])
    if vectors:
        s[z].vectorize(z.op.axis[0])
    out = np.zeros(32, "float32")
    build(s, [x, z], target="llvm")(np.arange(32, dtype="float32"), out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("place", [0, 5, 11])
def test_the_largest_element_is_a_nan_wherever_it_is_on_a_cpu(place):
    x = te.placeholder((3, 12), name="x")
    r = te.reduce_axis((0, 12), name="r")
    z = te.compute((3,), lambda i: te.max(x[i, r], axis=r), name="z")
    data = np.arange(36, dtype="float32").reshape(3, 12)
    data[1, place] = np.nan
    out = np.empty(3, "float32")
    build(te.create_schedule(z.op), [x, z], target="llvm")(data, out)
    np.testing.assert_array_equal(out, data.max(1))


@needs_nvcc
@pytest.mark.parametrize(("arch", "has"), [("sm_75", False), ("sm_80", True)])
def test_devices_that_have_an_instruction_use_it(tmp_path, arch, has):
    path = tmp_path / "choice.cu"
    path.write_text(kernel_of_schedule(*choice("max", "float32"), Target("cuda")).source)
    command = ["nvcc", "-ptx", f"-arch={arch}", str(path), "-o", str(tmp_path / "choice.ptx")]
    subprocess.run(command, check=True)
    assert ("max.NaN.f32" in (tmp_path / "choice.ptx").read_text()) == has
