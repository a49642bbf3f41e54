"""AutoTVM's `measure.measure_methods`: builders and runners."""

import warnings
from typing import TYPE_CHECKING

from autotune.errors import InstantiationError
from autotune.measure import (
    Builder,
    BuildResult,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Runner,
)
from autotune.target import Target
from autotune.tvm.names import resolver

__all__ = [
    "BuildResult",
    "Builder",
    "InstantiationError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Runner",
    "set_cuda_target_arch",
]


def set_cuda_target_arch(arch: object) -> None:
    """Compile for the device, as always, and warn if that is not what is asked for.

    Args:
        arch: such as ``"sm_80"``.
    """
    device = Target("cuda").arch
    if arch not in (None, device):
        warnings.warn(
            f"set_cuda_target_arch({arch!r}) changes nothing: kernels are compiled for {device}, "
            'unless their target names another architecture: Target("cuda -arch=sm_80")',
            stacklevel=2,
        )


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
