"""One record, one line: AutoTVM's JSON, version 0.2, and what older versions wrote.

A line is ``{"input": [target, task, args, kwargs], "config": {...}, "result": [...], "version":
0.2, "tvm_version": ...}``. What we know beyond that is in further keys, which TVM's reader
ignores: ``error_msg`` and those of `autotune.measure.evidence_json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from autotune.errors import RecordError
from autotune.measure.evidence_json import to_json
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.fields import (
    Entities,
    Tasks,
    config_from_json,
    config_of,
    mean_cost,
    result_from_json,
)
from autotune.record.legacy import decode_version_0_1
from autotune.record.messages import shorten_message
from autotune.record.pickled import decode_pickle
from autotune.record.row_parts import PartReader, RowParts, no_json, read_json
from autotune.record.workload_json import form_of, written
from autotune.task import Task
from autotune.task.json_form import plain
from autotune.utils.check import Check
from autotune.utils.plain_data import row as row_of_json

AUTOTVM_LOG_VERSION = 0.2
# The version of TVM whose rows ours equal.
TVM_VERSION = "0.12.0"
# What AutoTVM writes where there is no cost.
FAILED_COST = 1e9

Protocol = Literal["json", "pickle"]

_KEYS = frozenset(("input", "config", "result", "version", "tvm_version", "error_msg"))
_ENCODE = json.JSONEncoder(default=plain).encode
_CHECK = Check(RecordError, "encode")
# Most characters of a reason for which a line is no record.
WORDS = 300


def encode(inp: MeasureInput, result: MeasureResult, protocol: Protocol = "json") -> str:
    """Return the line of one trial, without the newline.

    Args:
        inp: the trial.
        result: what was measured.
        protocol: ``"json"``; no other is written.

    Raises:
        RecordError: something in it has no JSON form, or another protocol is requested.
    """
    if protocol != "json":
        raise RecordError(f"records are written as 'json', not as {protocol!r}")
    _CHECK.kind("inp", inp, MeasureInput, "a MeasureInput")
    _CHECK.kind("result", result, MeasureResult, "a MeasureResult")
    if taken := _KEYS.intersection(result.evidence.others):
        names = ", ".join(sorted(taken))
        raise RecordError(f"extra keys {names} would hide those of the record itself")
    costs = list(result.costs) if result.error_no == 0 else [FAILED_COST]
    row: dict[str, object] = {
        **written(inp),
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": TVM_VERSION,
    }
    if result.error_msg:
        row["error_msg"] = shorten_message(result.error_msg)
    try:
        return _ENCODE({**row, **to_json(result.evidence)})
    except (TypeError, ValueError) as error:
        raise RecordError(f"task {inp.task.name!r}: no JSON form: {error}") from error


def decode(row: str, protocol: Protocol = "json") -> Pair | None:
    """Read one line; None for a comment or an empty line.

    Reads JSON of versions 0.2 and 0.1 and, with ``protocol="pickle"``, the older tab-separated
    rows, from which only plain data and AutoTVM's four entities are unpickled.

    Args:
        row: the line, with or without its newline.
        protocol: protocol of the line.

    Raises:
        RecordError: the line is malformed.
    """
    Check(RecordError, "decode").kind("row", row, str, "a line of text")
    return Decoder().decode(row, protocol)


class Decoder:
    """Reads the lines of one log; what many of them share is read once."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._entities = Entities()
        self._parts = PartReader(self._tasks, self._entities)

    def decode(self, row: str, protocol: Protocol = "json") -> Pair | None:
        """Read one line; see `decode`."""
        # Some editors begin a file with a mark of its byte order.
        text = row.removeprefix("\ufeff").strip()
        if not text or text.startswith("#"):
            return None
        try:
            if protocol == "pickle":
                return decode_pickle(text)
            parts = self._parts.read(text)
            if parts is not None and parts.version == AUTOTVM_LOG_VERSION:
                return _pair(parts)
            row, end = read_json(text)
            if end != len(text):
                raise json.JSONDecodeError("Extra data", text, end)
            return self._json(row)
        except RecordError:
            raise
        except json.JSONDecodeError as error:
            raise no_json(error) from error
        except Exception as error:  # a line may hold anything: it is a border like a process
            raise RecordError(f"not a record: {_words(error)}") from error

    def _json(self, row: object) -> Pair:
        if not isinstance(row, dict):
            raise RecordError(f"expected a JSON object, got {type(row).__name__}")
        version = _version(row)
        if version == 0.1:
            return decode_version_0_1(row)
        if isinstance(version, str):
            raise RecordError(f"an auto_scheduler record ({version}), not one of a template"[:200])
        if version != AUTOTVM_LOG_VERSION:
            raise RecordError(f"unknown version {version!r}; expected 0.1 or 0.2"[:200])
        form = form_of(row)
        if form is not None:
            inp = form.read(row)
            return inp, _result(row.pop("result"), row)
        target, task = self._tasks.read(row.pop("input"))
        choices, numbers = row.pop("config"), row.pop("result")
        result = _result(numbers, row)
        config = config_from_json(choices, self._entities, _cost(numbers, result))
        return MeasureInput(target, task, config), result


def is_of_a_later_version(line: str) -> bool:
    """Return whether a line is a whole record of a version that is not known yet."""
    try:
        row, _ = read_json(line.removeprefix("# race ").strip())
    except (ValueError, RecursionError):
        return False
    version = _version(row) if isinstance(row, dict) and "input" in row else None
    return isinstance(version, int | float) and version > AUTOTVM_LOG_VERSION


def _version(row: Mapping[str, object]) -> object:
    return row.get("v", row.get("version"))


def _pair(parts: RowParts) -> Pair:
    target, task, index, code_hash, entities, numbers, _, rest = parts
    result = _result(numbers, {**rest})
    config = config_of(index, code_hash, entities, _cost(numbers, result))
    return MeasureInput(target, task, config), result


def _result(numbers: object, rest: dict[str, object]) -> MeasureResult:
    """Return the result of a record; ``rest`` are the keys of its row that are left."""
    message: object = ""
    if rest:
        message = rest.pop("error_msg", "")
        rest.pop("version", None)
        rest.pop("tvm_version", None)
    return result_from_json(numbers, message, rest)


def _cost(numbers: object, result: MeasureResult) -> float:
    """Return the cost of a configuration in AutoTVM's sense."""
    costs = result.costs
    return sum(costs) / len(costs) if costs else mean_cost(row_of_json(numbers)[0])


def _words(error: Exception) -> str:
    """Return an error in few words of one line, whatever it quotes."""
    text = f"{type(error).__name__}: {error}"
    return repr(text if len(text) <= WORDS else f"{text[: WORDS - 3]}...")[1:-1]


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that is equal for equal trials, as AutoTVM's databases use it.

    Args:
        inp: the trial.
        include_config: whether trials of one task with other configurations differ.
    """
    task = inp.task
    if not isinstance(task, Task):
        return f"{inp.target}{task.key}{inp.key if include_config else ''}"
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{task.name}{task.args}{task.kwargs}{config}"
