"""A restricted reader of the pickle protocol, for AutoTVM's old logs.

A pickle can name any class and call it. This reader allows AutoTVM's configuration, its four
entities, and a few containers; it refuses everything else. A pickle cannot change what it names,
nor expand its few bytes to more than a row holds.
"""

from __future__ import annotations

import base64
import binascii
import io
import pickle
import pickletools
from collections.abc import Iterator
from typing import Any

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput, Pair
from autotune.record.fields import result_from_json, task_from_json
from autotune.task import ConfigEntity
from autotune.task.kinds import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    entity_from_json,
)

# Names of AutoTVM's classes, by their tag in JSON rows and the attribute that holds the value.
_ENTITIES = {
    kind.__name__: (kind.tag, kind.attribute)
    for kind in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}
_MODULES = ("tvm.autotvm.task.space", "autotvm.task.space")
# Most values in one field; a list may hold one list many times, and this one the next.
_VALUES = 10_000
# Most objects that a field may keep for use elsewhere in it: their table is as long as the largest
# number that is named.
_KEPT = 10_000
# Bits of a number; one with more could not even be printed in an error.
_BITS = 1024


class _ImmutableClass(type):
    """A class that a pickle cannot change, though it can name it."""

    def __setattr__(cls, name: str, value: object) -> None:
        raise RecordError(f"a pickle changes the class {cls.__name__}")


class _Unpickled(metaclass=_ImmutableClass):
    """An object of AutoTVM whose attributes were read and whose code was not."""

    state: dict[str, object]

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict):
            raise RecordError(f"the state of a pickled {type(self).__name__} is no dictionary")
        self.state = state


class _Function:
    """A function that a pickle may call but not change."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any) -> object:
        match self._name, args:
            case "OrderedDict", ():
                return {}
            case "OrderedDict", (pairs,):
                return dict(pairs)
            case "range" | "xrange", _:
                return _whole(*args)
            case "_reconstructor", (_ImmutableClass() as kind, *_):
                return kind()
        raise RecordError(f"a pickle calls {self._name} with arguments that no record has")


_SHELLS: dict[str, Any] = {
    name: _ImmutableClass(name, (_Unpickled,), {}) for name in (*_ENTITIES, "ConfigEntity")
}
_FUNCTIONS = (
    ("collections", "OrderedDict"),
    ("builtins", "range"),
    ("__builtin__", "xrange"),
    ("builtins", "object"),
    ("__builtin__", "object"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
)
_ALLOWED: dict[tuple[str, str], object] = {
    **{(module, name): _Function(name) for module, name in _FUNCTIONS},
    **{(module, name): unpickled for module in _MODULES for name, unpickled in _SHELLS.items()},
}


class _Restricted(pickle.Unpickler):
    """An unpickler that knows only the names of `_ALLOWED`."""

    def find_class(self, module: str, name: str) -> object:
        """Return an allowed name.

        Raises:
            RecordError: any other.
        """
        if (module, name) not in _ALLOWED:
            raise RecordError(
                f"a pickle names {module[:80]}.{name[:80]}, which a record has no need of"
            )
        return _ALLOWED[module, name]


def decode_pickle(row: str) -> Pair:
    """Read one tab-separated row: six fields in version 0.2, four in 0.1.

    Raises:
        RecordError: the row is malformed, or names anything but AutoTVM's own data.
    """
    fields = row.split("\t")
    if len(fields) not in (4, 6):
        raise RecordError(f"expected 4 or 6 tab-separated fields, got {len(fields)}")
    name, args, *_ = _plain(_load(fields[1]))
    target, task = task_from_json(fields[0], name, args)
    config = _config(_load(fields[2]))
    result = result_from_json(_plain(_load(fields[3]))[:4])
    return MeasureInput(target, task, config), result


def _load(field: str) -> object:
    try:
        data = base64.b64decode(field, validate=True)
        for code, number, _ in pickletools.genops(data):
            if "PUT" in code.name and isinstance(number, int) and number >= _KEPT:
                raise RecordError("a pickle that keeps more objects than a record has")
        return _Restricted(io.BytesIO(data)).load()
    except RecordError:
        raise
    except (binascii.Error, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise RecordError(f"a damaged pickle: {str(error)[:200]}") from error


def _config(unpickled: object) -> ConfigEntity:
    if not isinstance(unpickled, _SHELLS["ConfigEntity"]):
        raise RecordError(f"expected a pickled ConfigEntity, got {type(unpickled).__name__}")
    index, code_hash = unpickled.state["index"], unpickled.state.get("code_hash")
    if type(index) is not int or index < 0 or index.bit_length() > _BITS:
        raise RecordError("the index of a configuration is a whole number")
    if not isinstance(code_hash, (str, type(None))):
        raise RecordError("the hash of a template is a text or nothing")
    entities = {
        name: entity_from_json(name, *_tag_and_value(entity))
        for name, entity in unpickled.state["_entity_map"].items()
    }
    return ConfigEntity(index, code_hash, entities)


def _tag_and_value(unpickled: object) -> tuple[str, object]:
    kind = type(unpickled).__name__
    if not isinstance(unpickled, _Unpickled) or kind not in _ENTITIES:
        raise RecordError(f"expected a pickled entity, got {kind}")
    tag, attribute = _ENTITIES[kind]
    return tag, _plain(unpickled.state[attribute])


def _whole(*bounds: Any) -> list[int]:
    """Return the numbers of a range; an order of loops is one."""
    numbers = range(*bounds)
    if len(numbers) > _VALUES:
        raise RecordError(f"a range of {len(numbers)} numbers, more than a record has")
    return list(numbers)


def _plain(value: object, left: Iterator[int] | None = None) -> Any:
    """Return plain data with tuples for lists.

    Raises:
        RecordError: it holds anything else, or more than a record has.
    """
    left = left or iter(range(_VALUES))
    if next(left, None) is None:
        raise RecordError(f"a pickle of more than {_VALUES} values")
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item, left) for item in value)
    if isinstance(value, dict):
        return {_plain(key, left): _plain(item, left) for key, item in value.items()}
    if type(value) is int and value.bit_length() > _BITS:
        raise RecordError("a number of more digits than a record has")
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise RecordError(f"a pickle holds a {type(value).__name__}, which a record has no need of")
