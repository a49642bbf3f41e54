"""Schedules of operators under TVM's names, such as ``topi.cuda.schedule_injective(outs)``.

TVM has one for each operator and kind of target. Here any graph of operators is scheduled by the
rules of the auto-scheduler (`auto_scheduler.fallback_schedule`), whatever name is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from autotune import te
from autotune.auto_scheduler import fallback_schedule
from autotune.errors import ScheduleError
from autotune.target import Target
from autotune.te.dag import post_order
from autotune.te.extern import ExternOp
from autotune.te.schedule import Schedule
from autotune.te.tensor import PlaceholderOp, Tensor
from autotune.topi import nn
from autotune.tvm.topi import tensor_cores
from autotune.tvm.topi.nn import blocked_conv2d
from autotune.utils.check import Check, shown

# What `schedule_...` is called for, on any kind of target.
_SCHEDULED = """
    adaptive_pool argsort batch_matmul batch_norm bitserial_conv2d_nchw bitserial_conv2d_nhwc
    bitserial_dense broadcast concatenate conv1d_ncw conv1d_nwc conv1d_transpose_ncw conv2d
    conv2d_NCHWc conv2d_NCHWc_int8 conv2d_hwcn conv2d_nchw conv2d_nchw_winograd conv2d_nhwc
    conv2d_nhwc_winograd_direct conv2d_transpose_nchw conv2d_winograd_weight_transform
    conv3d_ncdhw conv3d_ncdhw_winograd conv3d_ndhwc conv3d_transpose_ncdhw
    deformable_conv2d_nchw dense dense_large_batch dense_nopack dense_pack dense_small_batch
    depthwise_conv2d_NCHWc depthwise_conv2d_nchw depthwise_conv2d_nhwc elemwise extern
    fast_softmax global_pool group_conv2d_nchw injective l2_normalize lrn matmul pool reduce
    softmax topk transpose upsampling
"""
# Modules of such a module that scripts import; all names are in it.
PARTS = (
    "batch_matmul", "conv2d", "conv2d_direct", "conv2d_int8", "conv2d_nchw", "conv2d_nhwc",
    "conv2d_winograd", "conv3d", "default", "dense", "depthwise_conv2d", "group_conv2d_nchw",
    "injective", "nn", "pooling", "reduction", "softmax",
)  # fmt: skip
# Operators that TVM has for one kind of target, and where they are here.
_NAMED = {"dense_nopack": "dense", "dense_pack": "dense", "dense_small_batch": "dense",
          "dense_large_batch": "dense", "group_conv2d_nchw": "group_conv2d_nchw",
          "conv2d_nchw_winograd": "conv2d_nchw"}  # fmt: skip


def members(kind: str | None) -> dict[str, object]:
    """Return what a module such as ``topi.cuda`` has: schedules, and operators of `topi.nn`.

    Args:
        kind: of the targets that schedules are for; None for any.
    """
    found: dict[str, object] = {name: getattr(nn, name) for name in nn.__all__}
    found |= {theirs: getattr(nn, ours) for theirs, ours in _NAMED.items()}
    found |= {name: getattr(blocked_conv2d, name) for name in blocked_conv2d.__all__}
    scheduled = _SCHEDULED.split()
    if kind is not None and Target(kind).backend.on_gpu:
        found |= {name: getattr(tensor_cores, name) for name in tensor_cores.__all__}
        scheduled += tensor_cores.__all__
    for name in scheduled:
        found[f"schedule_{name}"] = scheduler(f"schedule_{name}", kind)
    found["default_schedule"] = scheduler("default_schedule", kind)
    found["schedule_injective_from_existing"] = partial(_onto_existing, kind)
    return found


def scheduler(name: str, kind: str | None) -> Callable[..., Schedule]:
    """Return what schedules a graph for a kind of targets, under a name of TVM."""

    def schedule(*args: object, outs: object = None, **options: object) -> Schedule:
        """Return a schedule for output tensors.

        Args:
            args: a tensor or a list of them; a configuration before it, and options such as a
                layout after it, are accepted for scripts of TVM.
            outs: the same by name.
            options: accepted.

        Raises:
            ScheduleError: no tensor was given.
        """
        del options
        return _scheduled(_tensors(name, args if outs is None else (outs,)), kind)

    schedule.__name__ = schedule.__qualname__ = name
    return schedule


def _tensors(name: str, given: Sequence[object]) -> list[Tensor]:
    """Return the first argument that is a tensor or a list of tensors, as a list."""
    for each in given:
        listed = [each] if isinstance(each, Tensor) else each
        if isinstance(listed, Sequence) and listed and all(isinstance(t, Tensor) for t in listed):
            return list(listed)
    raise ScheduleError(
        f"{name}: outs must be a tensor or a list of tensors, got {shown(tuple(given))}"
    )


def _scheduled(outs: list[Tensor], kind: str | None) -> Schedule:
    operations = post_order([tensor.op for tensor in outs])
    if any(isinstance(op, ExternOp) for op in operations):
        return te.create_schedule([tensor.op for tensor in outs])  # it has no loops to schedule
    inputs = [op.output(0) for op in operations if isinstance(op, PlaceholderOp)]
    return fallback_schedule([*inputs, *outs], _target(kind))[0]


def _target(kind: str | None) -> Target:
    """Return the target that is current if it is of the wanted kind, or else one of that kind."""
    current = Target.current()
    if kind is None:
        return current or Target("llvm")
    default = Target(kind)
    if current is not None and current.backend.on_gpu == default.backend.on_gpu:
        return current
    return default


def _onto_existing(kind: str | None, sch: Schedule, out: Tensor) -> Schedule:
    """Schedule one elementwise stage of a schedule: as threads on a GPU, else in parallel."""
    Check(ScheduleError, "schedule_injective_from_existing").kind(
        "sch", sch, Schedule, "a schedule, as te.create_schedule makes it"
    )
    stage = sch[out]
    fused = stage.fuse(*stage.op.axis)
    if _target(kind).backend.on_gpu:
        block, thread = stage.split(fused, factor=_target(kind).limits.warp_size * 4)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))
    else:
        stage.parallel(fused)
    return sch
