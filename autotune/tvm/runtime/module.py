"""TVM's `runtime.module`."""

import os
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from autotune.errors import DeviceError, KernelError, TargetError
from autotune.network.export import is_network, load_network
from autotune.runtime import module
from autotune.runtime.device import device
from autotune.runtime.device_module import DEVICE_FILES, DeviceFile
from autotune.runtime.evaluator import BenchmarkResult
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.utils.check import Check

__all__ = ["BenchmarkResult", "Module", "enabled", "load", "load_module"]


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Any:
    """Return a function, or a library of a network, that ``export_library`` wrote.

    A file with device code alone, such as PTX, is given to ``import_module`` of the function. Any
    other file holds machine code, which runs in this process: load only files that you trust.
    """
    place = Path(Check(KernelError, "load_module").path("path", path))
    if place.suffix in DEVICE_FILES and not is_zipfile(place):
        return DeviceFile(place)
    if not is_network(path):
        return module.load_module(path)
    # Most who load a module have no network.
    from autotune.tvm.relay.library import GraphExecutorFactoryModule

    return GraphExecutorFactoryModule(load_network(path))


def enabled(target: object) -> bool:
    """Return whether functions for a target, or a kind of targets, can be run here."""
    try:
        chosen = Target(str(target))
        return chosen.emulate or device(chosen).exist
    except (DeviceError, TargetError):
        return False


load = load_module  # its name in TVM 0.6
