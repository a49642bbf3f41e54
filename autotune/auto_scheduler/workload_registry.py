"""Workloads by name: functions that define what to compute, and the keys that logs have for them.

A key is a JSON list: the name of a registered function and its arguments, or the hash of a graph
of computes and the shapes of its inputs and outputs.
"""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, overload

from autotune.errors import TemplateError
from autotune.task.template import may_replace
from autotune.task.workload import serialize_args
from autotune.te.declare import placeholder
from autotune.te.tensor import Tensor
from autotune.utils.check import shown
from autotune.utils.names import did_you_mean

Function = Callable[..., object]
F = TypeVar("F", bound=Function)

# Name -> the function that gives its tensors; hash of a graph -> its tensors.
WORKLOAD_FUNC_REGISTRY: dict[str, Function | Sequence[Tensor]] = {}


@overload
def register_workload(func_name: F, f: None = None, override: bool = False) -> F: ...
@overload
def register_workload(func_name: str, f: F, override: bool = False) -> F: ...
@overload
def register_workload(
    func_name: str, f: None = None, override: bool = False
) -> Callable[[F], F]: ...
def register_workload(
    func_name: object, f: Function | None = None, override: bool = False
) -> object:
    """Register a function that defines a computation; it may be used as a decorator.

    The function returns the list of input and output tensors, in the order of the kernel's
    arguments. It is called with the arguments of the task after these went through JSON: nested
    tuples are lists. In a notebook, running its cell again replaces it.

    Args:
        func_name: the name in keys and logs; or the function itself, whose qualified name is used.
        f: the function.
        override: whether another function of that name is replaced.

    Raises:
        TemplateError: the name is in use, or is not a text.

    Example::

        @auto_scheduler.register_workload
        def matmul(n, m, k):
            a = te.placeholder((n, k), name="A")
            b = te.placeholder((k, m), name="B")
            return [a, b, topi.matmul(a, b)]
    """
    if callable(func_name):
        f, func_name = func_name, func_name_of(func_name)
    if not isinstance(func_name, str):
        raise TemplateError(
            f"register_workload: expected a function, or a name and a function, got {func_name!r}"
        )

    def register(function: Function) -> Function:
        before = WORKLOAD_FUNC_REGISTRY.get(func_name)
        if before is not None and not (override or may_replace(before, function)):
            raise TemplateError(
                f"workload {func_name!r} has been registered already; give this one another "
                "name, or pass override=True"
            )
        WORKLOAD_FUNC_REGISTRY[func_name] = function
        return function

    return register if f is None else register(f)


def register_workload_tensors(
    workload_key: str, tensors: Sequence[Tensor], override: bool = True
) -> str:
    """Register a graph of computes under the key that it has; return the key."""
    if override or not is_registered(workload_key):
        WORKLOAD_FUNC_REGISTRY[workload_key] = tuple(tensors)
    return workload_key


def make_workload_key(func: str | Function, args: Sequence[object]) -> str:
    """Return the key of a registered function called with these arguments.

    Raises:
        TemplateError: the function is not registered, or an argument cannot be part of a key.
    """
    if not callable(func) and not isinstance(func, str):
        raise TemplateError(
            f"make_workload_key: expected a registered function or its name, got {func!r}"
        )
    name = func if isinstance(func, str) else func_name_of(func)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(name)
    return json.dumps([name, *serialize_args(args)])


def decode_workload_key_to_func_args(workload_key: str) -> tuple[str, list[object]]:
    """Return the name and the arguments of a registered function from a key."""
    name, args = _parse(workload_key)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(name)
    return name, [_argument(each) for each in args]


def workload_args(workload_key: str) -> list[object]:
    """Return the arguments in a key; the workload need not be registered.

    Raises:
        TemplateError: the text is not a key.
    """
    return [] if workload_key in WORKLOAD_FUNC_REGISTRY else _parse(workload_key)[1]


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """Return the input and output tensors of a workload.

    Raises:
        TemplateError: the key is of no registered workload, or its function gives no tensors.
    """
    if workload_key in WORKLOAD_FUNC_REGISTRY:
        return list(_tensors(workload_key))
    name, args = decode_workload_key_to_func_args(workload_key)
    function = WORKLOAD_FUNC_REGISTRY[name]
    if not callable(function):
        return list(function)
    _check_arguments(name, function, args)
    found = function(*args)
    if not isinstance(found, (list, tuple)) or not all(isinstance(t, Tensor) for t in found):
        raise TemplateError(
            f"workload {name!r} must return a list of te tensors, inputs and outputs; "
            f"got {found!r}"
        )
    return list(found)


def _check_arguments(name: str, function: Function, args: Sequence[object]) -> None:
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        raise TemplateError(
            f"workload {name!r}: args must be those of its function ({error}), got {shown(args)}"
        ) from None
    except ValueError:  # a function of C need not tell
        return


def is_registered(workload_key: str) -> bool:
    """Whether the tensors of a key can be created; a text that is not a JSON list is a name."""
    if workload_key in WORKLOAD_FUNC_REGISTRY:
        return True
    try:
        return _parse(workload_key)[0] in WORKLOAD_FUNC_REGISTRY
    except TemplateError:
        return False


def workload_func_name(workload_key: str) -> str:
    """Return the first part of a key: the name of a function, or the hash of a graph."""
    return _parse(workload_key)[0]


def serialize_workload_registry_entry(
    workload_key: str,
) -> tuple[str, Function | Sequence[Tensor]]:
    """Return what another process needs to know a workload: its name, and a function or tensors.

    A function is sent by reference and has to be importable there.
    """
    exact = workload_key in WORKLOAD_FUNC_REGISTRY
    name = workload_key if exact else workload_func_name(workload_key)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(name)
    return name, WORKLOAD_FUNC_REGISTRY[name]


def deserialize_workload_registry_entry(data: tuple[str, Function | Sequence[Tensor]]) -> None:
    """Register what `serialize_workload_registry_entry` returned, unless it is there already."""
    name, value = data
    WORKLOAD_FUNC_REGISTRY.setdefault(name, value)


def save_workload_func_registry(filename: str | Path) -> None:
    """Write all registered workloads to a file, by pickle."""
    Path(filename).write_bytes(pickle.dumps(dict(WORKLOAD_FUNC_REGISTRY)))


def load_workload_func_registry(filename: str | Path) -> None:
    """Register the workloads of a file; it must come from you, as pickles can run code."""
    for entry in pickle.loads(Path(filename).read_bytes()).items():
        deserialize_workload_registry_entry(entry)


def _tensors(key: str) -> Sequence[Tensor]:
    found = WORKLOAD_FUNC_REGISTRY[key]
    if callable(found):
        raise TemplateError(f"workload {key!r} is a function; a key holds its arguments too")
    return found


def func_name_of(function: Function) -> str:
    """Return the name by which a function is registered if none is given."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _parse(workload_key: object) -> tuple[str, list[object]]:
    """Return the first part of a key, and its arguments."""
    try:
        parsed = json.loads(workload_key) if isinstance(workload_key, str | bytes) else None
    except (TypeError, ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list) or not parsed or not isinstance(parsed[0], str):
        raise TemplateError(
            "a workload key is a JSON list such as '[\"matmul\", 64, 64, 64]', "
            f"got {shown(workload_key)}"
        )
    return parsed[0], parsed[1:]


def _argument(value: object) -> object:
    if isinstance(value, list) and value[:1] == ["TENSOR"] and len(value) == 3:
        if not isinstance(value[1], list):
            raise TemplateError(
                f"a tensor of a workload key is ['TENSOR', shape, dtype], got {shown(value)}"
            )
        return placeholder(tuple(value[1]), dtype=value[2])
    return value


def _unknown(name: str) -> TemplateError:
    near = did_you_mean(name, WORKLOAD_FUNC_REGISTRY)
    return TemplateError(
        f"workload {shown(name)} is not registered{near}; register the function that defines "
        "it with @auto_scheduler.register_workload before"
    )
