"""The CUDA texts that are kept also compute the right thing: block by block on the CPU."""

from dataclasses import replace

import numpy as np
import pytest

import tests.golden.cases  # noqa: F401  (registers the cases)
from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.runtime import random_inputs
from autotune.runtime.arrays.array import numpy_dtype
from autotune.te import PlaceholderOp
from tests.golden.case import CASES
from tests.golden.kept import TEXTS, whole_text
from tests.golden.test_golden import built
from tests.topi.evaluate import evaluate

NAMES = [name for name, (language, _) in CASES.items() if language == "cuda"]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}
# Warpgroups cut floats to TF32, which definitions round.
CUT = {"matmul_wgmma_tf32_cuda": 2e-3, "matmul_wgmma_passed_cuda": 2e-3}


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """Compile all texts at once; return a function that gives the kernel of a case."""
    kernels = {
        name: replace(built(name)[1], source=whole_text(TEXTS / f"{name}.cu")) for name in NAMES
    }
    path = tmp_path_factory.mktemp("golden") / "texts.so"
    library = compile_emulated(list(kernels.values()), path, timeout_s=300)
    return lambda name: EmulatedKernel(library, kernels[name])


def expected(args, arrays):
    """Evaluate the definitions with numpy, each step in its own dtype."""
    known = {
        tensor: array
        for tensor, array in zip(args, arrays, strict=True)
        if isinstance(tensor.op, PlaceholderOp)
    }
    return [evaluate(tensor, known) for tensor in args if tensor not in known]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_text_computes_what_numpy_computes(name, emulated):
    loaded = emulated(name)
    arguments = loaded.kernel.args
    inputs = iter(random_inputs(arguments, seed=1))
    made = [
        np.zeros(a.shape, numpy_dtype(a.dtype)) if a.role == "out" else next(inputs)
        for a in arguments
    ]
    wanted = expected(CASES[name][1]()[1], made)
    outputs = [i for i, a in enumerate(arguments) if a.role != "in"]
    for order in (0, 1, 5):
        arrays = [array.copy() for array in made]
        loaded.run(arrays, order)
        for i, value in zip(outputs, wanted, strict=True):
            near = CUT.get(name) or TOLERANCE.get(arguments[i].dtype, 1e-5)
            got, right = arrays[i].astype("float64"), value.astype("float64")
            scale = max(1.0, float(np.abs(right).max()))
            np.testing.assert_allclose(got, right, rtol=near, atol=near * scale, err_msg=name)
