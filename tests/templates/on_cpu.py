"""Running a kernel for a CPU whose output holds NaNs before."""

from dataclasses import replace

import numpy as np

from autotune import Target
from autotune.driver import build

# Small kernels take most of their time to be optimized: with this a third of that at -O3, those of
# wide tiles a twentieth, which is no longer than without any optimization.
LEVEL = "-Og"


def run_over_nan(shape, family, choice, target="llvm", *, optimized=False):
    """Run a kernel on outputs of NaN, and compare with the reference.

    ``optimized`` kernels are compiled as users have them: what is chosen untuned, and one case of
    each way of a template, in `test_optimized_on_cpu`.
    """
    kernel = family.kernel(shape, choice)
    if not optimized:
        kernel = replace(kernel, flags=(*kernel.flags, LEVEL))
    with Target(target):
        module = build(kernel, name="f")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(a.shape).astype("float32") for a in kernel.args]
    wanted = kernel.reference(*arrays[:-1])
    arrays[-1][:] = np.nan
    module(*arrays)
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
