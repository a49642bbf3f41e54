"""Products by boxes on a Hopper device: drawn configurations of every form are right.

So are those of few rows, whose blocks add up in clusters.
"""

import ml_dtypes
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_skinny, gemm_tma
from autotune.templates.products.gemm_shape import Gemm, stored

import autotune
from autotune.runtime import cuda
from autotune.target import Target
from autotune.tvm import nd

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper")]

FULL = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
SHAPES = {
    "whole": Gemm(1024, 1024, 256, "float16"),
    "edges": Gemm(1000, 1048, 264, "bfloat16", 2, True, False, "b"),
    "rest": Gemm(777, 1032, 136, "float16", 3, False, True, "", FULL),
    "odd-columns": Gemm(328, 1003, 200, "float16", 3, True, True, "a", FULL),
    "long": Gemm(200, 328, 8136, "bfloat16", epilogue=FULL),
    "tf32": Gemm(777, 1032, 136, "tf32", 3, False, True, "", FULL),
    "tf32-swapped": Gemm(777, 1032, 136, "tf32", 3, False, False, "", FULL),
    "tf32-left-across": Gemm(780, 1033, 136, "tf32", 2, True, True, "b", FULL),
    "factor": Gemm(384, 392, 64, "float16", 9, False, True, "", Epilogue(alpha=0.125)),
    "short": Gemm(512, 512, 64, "float16", 48, False, True),
}
FEW_SHAPES = {
    "few-rows": Gemm(16, 4096, 2048, "float16"),
    "few-rows-turned": Gemm(5, 1000, 2040, "bfloat16", 1, False, True, "", FULL),
    "few-rows-of-batches": Gemm(64, 520, 1000, "float16", 3, True, False, "b", FULL),
    "one-row": Gemm(1, 4096, 4096, "float16", 1, False, True),
}
DRAWN = 6


def choices(shape, family):
    """Draw some choices, the default one first."""
    rng, options, target = np.random.default_rng(0), family.candidates(shape), Target("cuda")
    found = [family.default_choice(shape, target)]
    while len(found) < DRAWN:
        choice = {name: int(rng.choice(values)) for name, values in options.items()}
        if family.violation(shape, choice, target) is None and choice not in found:
            found.append(choice)
    return found


@pytest.mark.parametrize("name", [*SHAPES, *FEW_SHAPES])
def test_drawn_configurations_are_right(name):
    family = gemm_skinny if name in FEW_SHAPES else gemm_tma
    shape, rng = {**SHAPES, **FEW_SHAPES}[name], np.random.default_rng(1)
    dtype = np.dtype(getattr(ml_dtypes, stored(shape.dtype), stored(shape.dtype)))
    inputs = [
        rng.standard_normal(a.shape, np.float32).astype(dtype) for a in shape.arguments()[:-1]
    ]
    wanted = shape.reference()(*(x.astype(np.float64) for x in inputs))
    bound = 2e-2 if shape.dtype == "bfloat16" else 4e-3
    for choice in choices(shape, family):
        function = autotune.build(family.kernel(shape, choice), target="cuda")
        out = nd.array(np.full(function.kernel.args[-1].shape, np.nan, dtype), cuda(0))
        for _ in range(3):
            function(*(nd.array(x, cuda(0)) for x in inputs), out)
        error = np.abs(out.numpy().astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error < bound, f"{choice}"
