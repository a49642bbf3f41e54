"""Values that inputs of a task have in its trials, where random ones will not do, such as indices.

Records hold their names alone. The values stay in a table of this process, so that a task that is
recovered from a record has them too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, overload

import numpy as np

from autotune.auto_scheduler.errors import SearchTaskError
from autotune.auto_scheduler.workload_registry import func_name_of
from autotune.te.tensor import Tensor
from autotune.utils.check import Check

CheckFunc = Callable[[Sequence[Tensor]], Mapping[Tensor, str]]
F = TypeVar("F", bound=CheckFunc)

# Workload key -> name of an input -> its value: an array of a device, or what numpy reads.
TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, object]] = {}
# Name -> a function that finds such inputs among the arguments of a kernel.
TASK_INPUT_CHECK_FUNC_REGISTRY: dict[str, CheckFunc] = {}
# The workload key of values that any workload may use.
_ANY = "default"


def register_task_input_buffer(
    workload_key: str,
    input_name: str,
    input_data: object,
    overwrite: bool = False,
    save_to_file: bool = False,
) -> object:
    """Keep the value of an input of a workload, and return it.

    Args:
        workload_key: of the tasks that use it.
        input_name: the name of the tensor.
        input_data: its value.
        overwrite: whether it takes the place of another value of that name.
        save_to_file: kept for TVM's scripts; no file is written.

    Raises:
        SearchTaskError: there is another value of that name.
    """
    del save_to_file
    table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    known = table.get(input_name)
    if known is not None and known is not input_data and not overwrite:
        raise SearchTaskError(
            f"task_inputs: {input_name!r} of workload {workload_key} has a value already; pass "
            "overwrite=True, or task_inputs_overwrite=True to SearchTask"
        )
    table[input_name] = input_data
    return input_data


def get_task_input_buffer(workload_key: str, input_name: str) -> object:
    """Return the value that was passed to `register_task_input_buffer`.

    Raises:
        SearchTaskError: there is no value of that name.
    """
    known = TASK_INPUT_BUFFER_TABLE.get(workload_key, {}).get(input_name)
    if known is None:
        raise SearchTaskError(
            f"task_inputs: {input_name!r} of workload {workload_key} has no value in this "
            "process; give it to SearchTask(task_inputs={...})"
        )
    return known


def given_values(
    workload_key: str, task_inputs: Mapping[str, object] | Sequence[str] | None, overwrite: bool
) -> dict[str, object]:
    """Return the values of a task's inputs that are known here; those that are given are kept."""
    if isinstance(task_inputs, Mapping):
        for name, value in task_inputs.items():
            register_task_input_buffer(workload_key, name, value, overwrite)
    table = TASK_INPUT_BUFFER_TABLE.get(workload_key, {})
    return {name: table[name] for name in task_inputs or () if name in table}


def check_shapes(tensors: Sequence[Tensor], task_inputs: Mapping[str, object]) -> None:
    """Refuse values that do not fit the tensors of their names.

    Raises:
        SearchTaskError: one has another shape.
    """
    for each in tensors:
        if each.name in task_inputs:
            shape = np.asarray(_array(task_inputs[each.name])).shape
            if shape != tuple(each.shape):
                raise SearchTaskError(
                    f"task_inputs: {each.name!r} has shape {tuple(each.shape)}, got {shape}"
                )


def _array(value: object) -> object:
    return value.numpy() if hasattr(value, "numpy") else value


@overload
def register_task_input_check_func(func_name: F, f: None = None, override: bool = False) -> F: ...
@overload
def register_task_input_check_func(func_name: str, f: F, override: bool = False) -> F: ...
@overload
def register_task_input_check_func(
    func_name: str, f: None = None, override: bool = False
) -> Callable[[F], F]: ...
def register_task_input_check_func(
    func_name: object, f: CheckFunc | None = None, override: bool = False
) -> object:
    """Register a function that finds inputs which must not be random; it may be a decorator.

    It is called with the arguments of a kernel, and returns names of values by tensor, for inputs
    whose own names are others.

    Args:
        func_name: the name, or the function itself.
        f: the function.
        override: whether another function of that name is replaced.

    Raises:
        SearchTaskError: the name is taken.
    """
    if callable(func_name):
        f, func_name = func_name, func_name_of(func_name)
    name = Check(SearchTaskError, "register_task_input_check_func").text("func_name", func_name)

    def register(function: CheckFunc) -> CheckFunc:
        if name in TASK_INPUT_CHECK_FUNC_REGISTRY and not override:
            raise SearchTaskError(
                f"register_task_input_check_func: {name!r} is registered already; give this "
                "one another name, or pass override=True"
            )
        TASK_INPUT_CHECK_FUNC_REGISTRY[name] = function
        return function

    return register if f is None else register(f)


def values_by_place(
    tensors: Sequence[Tensor], task_inputs: Mapping[str, object]
) -> dict[int, object]:
    """Return the given values of a kernel's arguments, by position.

    Args:
        tensors: the arguments.
        task_inputs: values by the name of the tensor, or by the name that a registered function
            returns for it.
    """
    names = dict(enumerate(tensor.name for tensor in tensors))
    for check in TASK_INPUT_CHECK_FUNC_REGISTRY.values():
        found = check(tensors)
        names.update({at: found[each] for at, each in enumerate(tensors) if each in found})
    known = {**TASK_INPUT_BUFFER_TABLE.get(_ANY, {}), **task_inputs}
    return {at: _array(known[name]) for at, name in names.items() if name in known}
