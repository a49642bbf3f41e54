"""Tasks made of two halves: a compute that declares tensors, and a schedule for its output.

The halves are registered under one task name. The compute marks its output with the workload, and
the schedule, called later with outputs that may have other operators behind them, finds the mark.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from autotune.errors import TemplateError
from autotune.target import Target
from autotune.task.config_entity import ConfigEntity
from autotune.task.dispatcher import Config, DispatchContext, get_config
from autotune.task.errors import WorkloadError
from autotune.task.point_run import PointRun
from autotune.task.template import TASK_TABLE, Call, Function, TaskTemplate, may_replace
from autotune.task.workload import Workload, args_to_workload
from autotune.te import PlaceholderOp, Tensor, placeholder
from autotune.utils.check import Check, shown

_TENSOR = "TENSOR"


def register_topi_compute(task_name: str, func: Function | None = None, *older: object) -> Any:
    """Make ``func(cfg, *args)`` the compute half of a task; a decorator without ``func``.

    The result is called without ``cfg``, which it gets from the contexts around the call.

    Raises:
        TemplateError: the task has a compute half already, or arguments are those of TVM 0.6.
    """
    _check_name("register_topi_compute", task_name, func, older)

    def decorate(function: Function) -> Function:
        _enter(task_name, "fcompute", function)

        @functools.wraps(function)
        def wrapper(*args: object) -> object:
            workload = args_to_workload(args, task_name)
            output = function(_config(workload), *args)
            _outputs(output)[0].op.attrs["workload"] = workload
            return output

        return wrapper

    return decorate if func is None else decorate(func)


def register_topi_schedule(task_name: str, func: Function | None = None, *older: object) -> Any:
    """Make ``func(cfg, outs)`` the schedule half of a task; a decorator without ``func``.

    The result is called with the outputs alone.

    Raises:
        TemplateError: the task has a schedule half already, or arguments are those of TVM 0.6.
    """
    _check_name("register_topi_schedule", task_name, func, older)

    def decorate(function: Function) -> Function:
        _enter(task_name, "fschedule", function)

        @functools.wraps(function)
        def wrapper(outs: Tensor | Iterable[Tensor], *args: object) -> object:
            workload = get_workload(outs, task_name)
            if workload is None:
                raise WorkloadError(
                    f"Cannot find TOPI workload {task_name}. Is it registered with "
                    f"`register_topi_compute`, and were these outputs made by it?"
                )
            return function(_config(workload), outs, *args)

        return wrapper

    return decorate if func is None else decorate(func)


def _check_name(what: str, name: object, func: object, older: Sequence[object]) -> None:
    """Refuse the operator, targets and kinds that TVM took up to 0.6 in place of a name."""
    if isinstance(name, str) and not older and (func is None or callable(func)):
        return
    operator = getattr(name, "__name__", name)
    raise TemplateError(
        f"{what}: expected task_name, the name of a task, and func, one function, got "
        f"{shown([operator, func, *older])}: up to TVM "
        "0.6 halves were registered for an operator, targets and kinds of templates; register "
        f"both under one name (register_topi_compute('my_{operator}'), register_topi_schedule("
        f"'my_{operator}')), and call them by themselves"
    )


def get_workload(outs: Tensor | Iterable[Tensor], task_name: str) -> Workload | None:
    """Return the workload that a compute half left on one of the operators behind ``outs``."""
    for tensor in _behind([outs] if isinstance(outs, Tensor) else outs):
        workload: Workload | None = tensor.op.attrs.get("workload")
        if workload is not None and workload[0] == task_name:
            return workload
    return None


def deserialize_args(args: Iterable[object]) -> list[object]:
    """Return arguments with every top-level ``("TENSOR", shape, dtype)`` made a placeholder."""
    return [_tensor(arg) if _is_tensor(arg) else arg for arg in args]


def function_of(entry: TaskTemplate, name: str, args: Sequence[object]) -> Function:
    """Return the one function that runs a template with such arguments: see `TaskTemplate`.

    Raises:
        TemplateError: a half is missing.
    """
    halves = entry.fcompute is not None and entry.fschedule is not None
    if args and _is_tensor(args[0]) and not halves and entry.foperator is not None:
        return _with_placeholders(entry.foperator)
    if entry.fcustomized is not None and not (halves and args and _is_tensor(args[0])):
        return entry.fcustomized
    if entry.fcompute is None or entry.fschedule is None:
        if entry.foperator is not None:
            raise TemplateError(
                f"task {name!r} takes arguments that begin with a tensor, as TVM's operators do; "
                f"got {shown(args)}"
            )
        missing = "schedule" if entry.fschedule is None else "compute"
        raise TemplateError(
            f"task {name!r} has no {missing} half; register it with register_topi_{missing}"
        )
    return functools.partial(_run_halves, entry.fcompute, entry.fschedule, name)


def _with_placeholders(function: Function) -> Function:
    @functools.wraps(function)
    def run(*args: object) -> object:
        return function(*deserialize_args(args))

    return run


def _run_halves(
    compute: Function, schedule: Function, name: str, *args: object
) -> tuple[object, list[Tensor]]:
    """Return the schedule, and the output followed by the inputs."""
    config = get_config()
    output = compute(config, *deserialize_args(args))
    outs = _outputs(output)
    outs[0].op.attrs["workload"] = args_to_workload(args, name)
    inputs = [tensor for tensor in _behind(outs) if isinstance(tensor.op, PlaceholderOp)]
    return schedule(config, outs), [*outs, *inputs]


def _config(workload: Workload) -> Config:
    """Return the configuration of one half of a task, by what both halves offer together."""
    name, *args = workload
    entry = TASK_TABLE[name]
    whole = entry.fcustomized or (entry.fcompute and entry.fschedule)
    call = Call(function_of(entry, name, args), args) if whole else None
    context = DispatchContext.current
    config = context.query(Target.current(), workload, call.attempt if call else None)
    if call is not None and isinstance(config, ConfigEntity | PointRun):
        return call.outcome(config).knobs  # knows what both halves offer
    return config


def _enter(name: str, half: str, function: Function) -> None:
    check = Check(TemplateError, f"register_topi_{half[1:]}")
    check.text("task_name", name, "conv2d_nchw.cuda")
    check.function("func", function)
    entry = TASK_TABLE.setdefault(name, TaskTemplate())
    before = getattr(entry, half)
    if before is not None and not may_replace(before, function):
        raise TemplateError(f"the {half[1:]} half of task {name!r} is registered already")
    setattr(entry, half, function)


def _behind(outs: Iterable[Tensor]) -> list[Tensor]:
    """Return the tensors that ``outs`` are computed from and themselves, breadth first."""
    order = dict.fromkeys(outs)
    queue = list(order)
    for tensor in queue:  # grows while it is walked
        new = [source for source in tensor.op.input_tensors if source not in order]
        order.update(dict.fromkeys(new))
        queue += new
    return queue


def _outputs(output: object) -> list[Tensor]:
    """Return the outputs of a compute half as a list."""
    given = output if isinstance(output, list | tuple) else [output]
    outs = [each for each in given if isinstance(each, Tensor)]
    if not outs or len(outs) < len(given):
        raise TemplateError(
            f"the compute half of a task must return a tensor or a list of tensors, got "
            f"{shown(output)}"
        )
    return outs


def _is_tensor(value: object) -> TypeGuard[tuple[str, tuple[int, ...], str]]:
    return isinstance(value, tuple) and len(value) == 3 and value[0] == _TENSOR


def _tensor(serialized: tuple[str, tuple[int, ...], str]) -> Tensor:
    _, shape, dtype = serialized
    return placeholder(shape, dtype)
