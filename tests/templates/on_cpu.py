"""Running a kernel for a CPU whose output holds NaNs before."""

import numpy as np

from autotune import Target
from autotune.driver import build


def run_over_nan(shape, family, choice, target="llvm"):
    """Run a kernel on outputs of NaN, and compare with the reference."""
    kernel = family.kernel(shape, choice)
    with Target(target):
        module = build(kernel, name="f")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(a.shape).astype("float32") for a in kernel.args]
    wanted = kernel.reference(*arrays[:-1])
    arrays[-1][:] = np.nan
    module(*arrays)
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
