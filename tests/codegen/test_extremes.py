"""The larger and the smaller of two floats are NaN where one is, on a GPU, as numpy has it."""

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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("name", "expected"), [("max", np.maximum), ("min", np.minimum)])
def test_a_nan_on_either_side_is_kept(target, name, expected, dtype):
    x, y = PAIRS.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    z = np.empty_like(x)
    build(*choice(name, dtype), target=target)(x, y, z)
    np.testing.assert_array_equal(z.astype("float64"), expected(*PAIRS))


@needs_nvcc
@pytest.mark.parametrize(("arch", "has"), [("sm_75", False), ("sm_80", True)])
def test_devices_that_have_an_instruction_use_it(tmp_path, arch, has):
    path = tmp_path / "choice.cu"
    path.write_text(kernel_of_schedule(*choice("max", "float32"), Target("cuda")).source)
    command = ["nvcc", "-ptx", f"-arch={arch}", str(path), "-o", str(tmp_path / "choice.ptx")]
    subprocess.run(command, check=True)
    assert ("max.NaN.f32" in (tmp_path / "choice.ptx").read_text()) == has
