"""Kernel Tuner's functions: on import lines ``kernel_tuner`` becomes ``autotune.kernel_tuner``.

`tune_kernel` makes a template of its arguments and tunes it; `run_kernel` runs one configuration.
A script that is to be more than run once more is better written as a template (see
docs/from_kernel_tuner.md): it then serves all sizes, and its outputs are compared on the device.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from autotune.kernel_tuner.integration import create_device_targets, store_results
from autotune.kernel_tuner.interface import run_kernel, tune_cache, tune_kernel
from autotune.utils.names import explain_imports, missing

__all__ = ["create_device_targets", "run_kernel", "store_results", "tune_cache", "tune_kernel"]

# What to use -> names that are not here.
_GONE = {
    "energy and power are measured by observers.nvml.NVMLObserver; registers and shared memory "
    "are in each result": "energy observers.pmt observers.powersensor observers.tegra",
    "counters of the profiler are not read: run ncu on a program that calls the kernel; registers "
    "and shared memory are in each result": "observers.ncu",
    "kernels run on devices of NVIDIA: see observers.nvml": "observers.amd observers.hip",
    "build the kernel with autotune.build": "core backends runners cuda c opencl",
    "loops with directives of OpenACC and OpenMP need a compiler that is not here: write the loop "
    "as a kernel in CUDA, or as a function in C": "utils generation",
    "autotune.interchange.read_t1 reads the file: its knobs and conditions define a template's": (
        "tune_kernel_T1"
    ),
    "write a subclass of autotune.tuner.Tuner": "strategies.common strategies.wrapper hyper",
    "restrictions of tune_kernel are counted and sampled without a list of all configurations; "
    "task.config_space of a template has len and get": "searchspace",
}
# Modules that scripts use without importing them.
_MODULES = (
    "accuracy", "file_utils", "integration", "kernelbuilder", "nvml", "observers", "strategies",
    "util",
)  # fmt: skip
GONE = {f"autotune.kernel_tuner.{n}": why for why, names in _GONE.items() for n in names.split()}
# A script that imports what it only uses by an option runs without it.
explain_imports(GONE, late=True)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a module of this package, or explain a name of Kernel Tuner that is not here."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise missing(__name__, name, GONE)
