"""Encoding of frozen dataclasses as text, numbers, lists and dicts, for messages between hosts.

A message may hold only the classes that are listed here. Nothing is unpickled, and no name in a
message is imported or called.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any, TypeVar

from autotune.errors import FleetError
from autotune.kernel import Argument, Constant, Kernel, KernelCall, Launch, Scalar, Workspace
from autotune.kernel.layout import TiledArgument, TiledLayout
from autotune.measure.build.job import BuildJob
from autotune.measure.run.jobs import CeilingJob, Check, RaceJob, RunJob
from autotune.measure.run.timing import TimingPolicy

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Argument, BuildJob, CeilingJob, Check, Constant, Kernel, KernelCall, Launch, RaceJob,
        RunJob, Scalar, TiledArgument, TiledLayout, TimingPolicy, Workspace,
    )
}  # fmt: skip
_KIND = "is"
_FIELDS = {
    name: tuple(one.name for one in dataclasses.fields(kind) if one.init)
    for name, kind in _KINDS.items()
}
# Most values in a message have one of these types, so that one look-up decides.
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
# The greatest allowed depth of a job and of a message: no valid one is nested as deeply.
_DEEPEST, _DEEPEST_MESSAGE = 12, 24

Made = TypeVar("Made")


def with_lists(data: object, depth: int = _DEEPEST_MESSAGE) -> Any:
    """Return plain data with lists in place of tuples, which msgpack returns.

    Raises:
        ValueError: the data is nested too deeply.
    """
    if type(data) in _ATOMS:
        return data
    if not depth:
        raise ValueError("it is nested too deeply")
    if isinstance(data, (dict, Mapping)):  # the check for dict alone is fast
        return {name: with_lists(one, depth - 1) for name, one in data.items()}
    if isinstance(data, (list, tuple)):
        return [with_lists(one, depth - 1) for one in data]
    return data


def to_plain(value: object) -> object:
    """Return frozen data as plain data.

    Raises:
        FleetError: it contains a value that cannot be sent.
    """
    if type(value) in _ATOMS:
        return value
    if isinstance(value, (tuple, list)):
        return [to_plain(one) for one in value]
    name = type(value).__name__
    if _KINDS.get(name) is type(value):
        made = {one: to_plain(getattr(value, one)) for one in _FIELDS[name]}
        made[_KIND] = name
        return made
    if isinstance(value, (bool, str, bytes)):
        return value
    if isinstance(value, numbers.Integral):  # numpy's too
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise FleetError(f"{value!r} cannot be sent to a worker: {name} is no plain data")


def from_plain(kind: type[Made], data: object) -> Made:
    """Return the value that `to_plain` encoded.

    Raises:
        FleetError: the data is malformed; the sender may be of another version.
    """
    try:
        made = _read(data, _DEEPEST)
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise FleetError(f"no {kind.__name__}: {type(error).__name__}: {error}") from error
    if not isinstance(made, kind):
        raise FleetError(f"expected a {kind.__name__}, got {str(data)[:200]!r}")
    return made


def _read(data: object, depth: int) -> object:
    if type(data) in _ATOMS:
        return data
    if not depth:
        raise ValueError("it is nested too deeply")
    if isinstance(data, (list, tuple)):
        return tuple(_read(one, depth - 1) for one in data)
    if isinstance(data, (dict, Mapping)):
        kind = _KINDS[data[_KIND]]
        given = {name: _read(one, depth - 1) for name, one in data.items() if name != _KIND}
        return kind(**given)
    return data
