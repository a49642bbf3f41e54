"""TVM's `topi.testing`: operators in numpy, and schedules for a target."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from autotune.errors import GraphError
from autotune.target import Target
from autotune.te.schedule import Schedule
from autotune.topi.testing import *
from autotune.topi.testing import __all__ as _ours
from autotune.tvm.topi.schedules import scheduler
from autotune.tvm.topi.testing.references import *
from autotune.tvm.topi.testing.references import __all__ as _references

# Operators of which a test asks for the schedule that suits a target.
_SCHEDULED = (
    "batch_matmul", "broadcast", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc", "dense", "elemwise",
    "injective", "lrn", "pool", "reduce", "softmax",
)  # fmt: skip

Implementation = TypeVar("Implementation")

__all__ = [*_ours, *_references, "dispatch", *(f"get_{name}_schedule" for name in _SCHEDULED)]


def dispatch(
    target: str | Target, dispatch_map: Mapping[str | tuple[str, ...], Implementation]
) -> Implementation:
    """Return what a test has for a target: by one of its keys, or by "generic".

    Raises:
        GraphError: it has nothing for it.
    """
    chosen = Target(target)
    wanted = [str(chosen.kind), *chosen.keys, "generic"]
    for key in wanted:
        for names, value in dispatch_map.items():
            if key in ((names,) if isinstance(names, str) else names):
                return value
    raise GraphError(
        f"dispatch: expected an entry for one of {', '.join(dict.fromkeys(wanted))}, got "
        f"{', '.join(map(str, dispatch_map))}"
    )


def _schedule_for(name: str, target: str | Target) -> Callable[..., Schedule]:
    """Return the function that schedules an operator for a target."""
    kind = "cuda" if Target(target).backend.on_gpu else "llvm"
    return scheduler(f"schedule_{name}", kind)


if not TYPE_CHECKING:
    globals().update({f"get_{name}_schedule": partial(_schedule_for, name) for name in _SCHEDULED})
