"""AutoTVM's `measure.measure_methods`: builders and runners."""

import warnings
from typing import Any

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
from autotune.tvm.rpc import LocalSession

__all__ = [
    "BuildResult",
    "Builder",
    "InstantiationError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "Runner",
    "request_remote",
    "set_cuda_target_arch",
]

_HERE = (
    "there is no tracker: {} of {!r} uses this host; LocalRunner(devices=[0, 1]) uses several of "
    "its devices, autotune.fleet.Fleet those of other hosts"
)


class RPCRunner(LocalRunner):
    """Runs on this host, with a warning, what scripts ask a tracker's devices for.

    Args:
        key: of the device in the tracker; not used.
        host: of the tracker; not used.
        port: of the tracker; not used.
        priority: of the request; not used.
        timeout: seconds that one trial may take.
        n_parallel: not used: each device has one process.
        more: as `LocalRunner` takes them.
        named: likewise.
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        *more: Any,
        **named: Any,
    ) -> None:
        del host, port, priority, n_parallel
        warnings.warn(_HERE.format("RPCRunner", key), stacklevel=2)
        super().__init__(timeout, *more, **named)


def request_remote(
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 1,
    timeout: float = 60,
) -> LocalSession:
    """Return a session on this host, with a warning, in place of one on a tracker's device.

    Args:
        device_key: of the device in the tracker; not used.
        host: of the tracker; not used.
        port: of the tracker; not used.
        priority: of the request; not used.
        timeout: of the request; not used.
    """
    del host, port, priority, timeout
    warnings.warn(_HERE.format("request_remote", device_key), stacklevel=2)
    return LocalSession()


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
