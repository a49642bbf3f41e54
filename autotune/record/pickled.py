"""Rows of the pickle protocol, read without giving them any power.

A pickle can name any class and call it. This reader lets it name AutoTVM's configuration and its
four entities, and a few containers; everything else is refused, whatever it is.
"""

from __future__ import annotations

import base64
import binascii
import collections
import copyreg
import io
import pickle
from typing import Any

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput
from autotune.record.fields import Pair, result_from_json, target_of
from autotune.task import ConfigEntity, Task
from autotune.task.entities import entity_from_json
from autotune.task.workload import tuples

# Names of AutoTVM's classes, by their tag in JSON rows and the attribute that holds the value.
_ENTITIES = {
    "SplitEntity": ("sp", "size"),
    "ReorderEntity": ("re", "perm"),
    "AnnotateEntity": ("an", "anns"),
    "OtherOptionEntity": ("ot", "val"),
}
_MODULES = ("tvm.autotvm.task.space", "autotvm.task.space")


class _Shell:
    """An object of AutoTVM whose attributes were read and whose code was not."""


_SHELLS = {name: type(name, (_Shell,), {}) for name in (*_ENTITIES, "ConfigEntity")}
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("builtins", "range"): range,
    ("__builtin__", "xrange"): range,
    ("builtins", "object"): object,
    ("__builtin__", "object"): object,
    ("copyreg", "_reconstructor"): copyreg._reconstructor,  # type: ignore[attr-defined]
    ("copy_reg", "_reconstructor"): copyreg._reconstructor,  # type: ignore[attr-defined]
    **{(module, name): shell for module in _MODULES for name, shell in _SHELLS.items()},
}


class _Restricted(pickle.Unpickler):
    """An unpickler that knows only the names of `_ALLOWED`."""

    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed name.

        Raises:
            RecordError: any other.
        """
        if (module, name) not in _ALLOWED:
            raise RecordError(f"a pickle names {module}.{name}, which a record has no need of")
        return _ALLOWED[module, name]


def decode_pickle(row: str) -> Pair:
    """Read one tab-separated row: six fields in version 0.2, four in 0.1.

    Raises:
        RecordError: the row is malformed, or names anything but AutoTVM's own data.
    """
    fields = row.split("\t")
    if len(fields) not in (4, 6):
        raise RecordError(f"expected 4 or 6 tab-separated fields, got {len(fields)}")
    target = target_of(fields[0])
    name, args, *_ = _load(fields[1])
    config = _config(_load(fields[2]))
    result = result_from_json(tuple(_load(fields[3]))[:4])
    return MeasureInput(target, Task(name, tuples(args), target), config), result


def _load(field: str) -> Any:
    try:
        return _Restricted(io.BytesIO(base64.b64decode(field, validate=True))).load()
    except RecordError:
        raise
    except (binascii.Error, pickle.UnpicklingError, EOFError) as error:
        raise RecordError(f"a damaged pickle: {error}") from error


def _config(shell: Any) -> ConfigEntity:
    if type(shell) is not _SHELLS["ConfigEntity"]:
        raise RecordError(f"expected a pickled ConfigEntity, got {type(shell).__name__}")
    state = vars(shell)
    entities = {
        name: entity_from_json(name, *_tag_and_value(entity))
        for name, entity in state["_entity_map"].items()
    }
    return ConfigEntity(int(state["index"]), state.get("code_hash"), entities)


def _tag_and_value(shell: Any) -> tuple[str, Any]:
    kind = type(shell).__name__
    if kind not in _ENTITIES:
        raise RecordError(f"expected a pickled entity, got {kind}")
    tag, attribute = _ENTITIES[kind]
    return tag, vars(shell)[attribute]
