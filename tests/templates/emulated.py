"""Drawn configurations of CUDA templates, run in the emulator and compared with references."""

import itertools

import ml_dtypes
import numpy as np

from autotune.emulator import EmulatedKernel, compile_emulated, run_emulated
from autotune.task import create


def drawn(task, count, fits=lambda kernel: True, sample=400):
    """Draw configurations until `count` of them fit."""
    space, rng = task.config_space, np.random.default_rng(0)
    kernels = (task.instantiate(space.get(i)) for i in space.sample(sample, rng))
    fitting = (k for k in kernels if fits(k.kernel(task.target.language)))
    return list(itertools.islice(fitting, count))


def few_threads(kernel):
    """Return whether the emulator runs a kernel quickly."""
    return all(call.launch.threads <= 256 for call in kernel.calls)


def arrays_of(source, make=None):
    """Return random inputs, and outputs full of what no kernel computes."""
    rng = np.random.default_rng(1)
    given = make or {}

    def array_of(a):
        if a.name in given:
            return given[a.name](rng, a)
        dtype = np.dtype(getattr(ml_dtypes, a.dtype, a.dtype))
        if a.role == "in":
            return (rng.standard_normal(a.shape) * (100 if dtype.kind in "iu" else 1)).astype(
                dtype
            )
        return np.full(a.shape, -1 if dtype.kind in "iu" else np.nan, dtype)

    return [array_of(a) for a in source.args]


def in_the_emulator(source, folder, arrays, checked=False, optimized=False):
    """Run a kernel of Hopper, and return its result and the right one.

    Checks take as long as all else.
    """
    kernel = source.kernel("cuda")
    library = compile_emulated(
        kernel, folder / "kernel.so", arch="sm_90", checked=checked, optimized=optimized
    )
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=checked)
    with np.errstate(invalid="ignore"):
        wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    return arrays[-1].astype(np.float64), wanted


def check_emulated(name, args, count=1, make=None, rtol=1e-4, fits=few_threads, atol=None):
    """Run `count` configurations of a task and compare each with float64."""
    sources = drawn(create(name, args, "cuda -emulate"), count, fits, sample=60 + 10 * count)
    assert sources
    for source in sources:
        arrays = arrays_of(source, make)
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
        inputs = [
            a.astype(np.float64) if a.dtype.kind in "fV" else a
            for a, x in zip(arrays, source.args, strict=True)
            if x.role == "in"
        ]
        wanted = source.reference(*inputs)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for array, want in zip(arrays[-len(wanted) :], wanted, strict=True):
            np.testing.assert_allclose(
                array.astype(np.float64),
                want,
                rtol=rtol,
                atol=rtol / 10 if atol is None else atol,
                err_msg=str(source.defines),
            )
