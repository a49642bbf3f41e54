"""One record of the auto-scheduler as one line, in the format of TVM, and what we add before it.

    {"i": [[key, target, [8 ints], host, layout, [names]], [[], [steps]]],
     "r": [[costs], error, all_cost, time], "v": "v0.6"}

Versions v0.2 to v0.5 have fewer fields of the task. What we know beyond that stands in a line
``# with {...}`` before the record: a comment to TVM's reader.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields

from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.errors import AutotuneError, RecordError
from autotune.measure.types import MeasureErrorNo, MeasureResult
from autotune.record.fields import result_from_json, target_of
from autotune.record.messages import shorten_message, writable
from autotune.record.reader import RACE_NOTE
from autotune.record.row_parts import no_json

RecordedPair = tuple[MeasureInput, MeasureResult]


VERSION = "v0.6"
# What TVM writes as the time of a trial that failed.
FAILED_COST = 1e10
# What a line begins with that adds to the record after it.
NOTE = "# with "
# The key there of `SearchProblem.graph_hash`.
GRAPH_HASH = "graph_hash"
_WORDS = 200
# The error of a record whose times are 0: scripts save so what is still to be measured.
UNMEASURED = "not measured: its times are 0"
# Why a line of AutoTVM is none of ours.
OF_TEMPLATE = "a record of a template, not one of the auto-scheduler"
# AutoTVM's lines may have the same keys, in any order; what stands under "i" begins otherwise.
_STATE = re.compile(r'"i"\s*:\s*\[\s*\[')


def holds_state(line: str) -> bool:
    """Returns whether a line is a record of the auto-scheduler, and not one of a template."""
    return '"input"' not in line and _STATE.search(line) is not None


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """Returns the line of a record, without a newline; times have six digits, as in TVM.

    Raises:
        RecordError: the length of a loop is not decided.
    """
    task = json.dumps([_task_row(inp.task), [[], inp.config.to_json()]])
    costs = result.costs if result.ok else (FAILED_COST,)
    times = ", ".join(map(_six_digits, costs))
    rest = f"{int(result.error_no)}, {_six_digits(result.all_cost)}, {int(result.timestamp)}"
    return f'{{"i": {task}, "r": [[{times}], {rest}], "v": "{VERSION}"}}'


def encode_task(task: SearchProblem | RecordedTask) -> str:
    """Returns a task as JSON, as it stands in a record."""
    return json.dumps(_task_row(task))


def decode_task(text: str) -> RecordedTask:
    """Reads what `encode_task` gave, or an older version wrote.

    Raises:
        RecordError: it is no task.
    """
    try:
        return _task(json.loads(text))
    except json.JSONDecodeError as error:
        raise no_json(error) from error
    except RecursionError as error:
        raise RecordError(f"not a task: {_few_words(error)}") from error


def encode_race(inp: MeasureInput, result: MeasureResult) -> str:
    """Returns the line of a final race: a comment to TVM's reader, with all we know in one."""
    extra = json.dumps(_known(inp, result), default=str)
    return f"{RACE_NOTE}{encode(inp, result)[:-1]}, {extra[1:-1]}}}"


def encode_lines(inp: MeasureInput, result: MeasureResult) -> str:
    """Returns the whole lines of a record, with its note before it, or of a final race."""
    if result.evidence.race is not None:
        return encode_race(inp, result) + "\n"
    note = encode_note(inp, result)
    return f"{note}\n{encode(inp, result)}\n" if note else encode(inp, result) + "\n"


def encode_note(inp: MeasureInput, result: MeasureResult) -> str:
    """Returns the line that goes before a record; empty where there is nothing to say."""
    known = _known(inp, result)
    if result.error_msg:
        known["error_msg"] = writable(shorten_message(result.error_msg))
    if not known:
        return ""
    exact = list(result.costs), result.all_cost, result.timestamp
    try:
        return NOTE + json.dumps({"of": inp.key, "exact": exact, **known}, default=str)
    except (TypeError, ValueError) as error:
        raise RecordError(f"{inp.task.workload_key}: no JSON form: {error}") from error


def _known(inp: MeasureInput, result: MeasureResult) -> dict[str, object]:
    """Returns what TVM's line does not hold; of a trial of this process, also of which graph."""
    known: dict[str, object] = dict(result.extra)
    if isinstance(inp.task, SearchProblem):
        known.setdefault(GRAPH_HASH, inp.task.graph_hash)
    return known


def is_of_graph(result: MeasureResult, graph_hash: str) -> bool:
    """Returns whether a record can be of a graph; one that does not say, as TVM's, can."""
    return bool(result.extra.get(GRAPH_HASH, graph_hash) == graph_hash)


def says_graph(result: MeasureResult, graph_hash: str) -> bool:
    """Returns whether a record says that it is of a graph."""
    return result.extra.get(GRAPH_HASH) == graph_hash


def decode(line: str, note: str = "") -> RecordedPair | None:
    """Reads one line; None for a comment or an empty line.

    Args:
        line: as a log has it, of any version from v0.1 on.
        note: the line before it, if that begins with `NOTE`; one of another record is ignored.

    Raises:
        RecordError: the line is no record.
    """
    # TVM's reader passes over lines that begin with a blank, too.
    text = line.removeprefix("\ufeff")
    if not text.strip() or text[0] in "# ":
        return None
    try:
        return _pair(json.loads(text), note)
    except RecordError:
        raise
    except json.JSONDecodeError as error:
        raise no_json(error) from error
    except (AutotuneError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise RecordError(f"not a record: {_few_words(error)}") from error


def _pair(row: object, note: str) -> RecordedPair:
    if not isinstance(row, dict):
        raise RecordError(f"expected a JSON object, got {type(row).__name__}")
    for key in ("i", "r"):
        if key not in row and "input" not in row:
            raise RecordError(f"it has no {key!r}")
    if "input" in row or _is_text(next(iter(row["i"]), None)):  # as in AutoTVM's first logs
        raise RecordError(OF_TEMPLATE)
    task, state = row["i"]
    if not isinstance(state, list) or len(state) != 2 or not isinstance(state[1], list):
        raise RecordError("its state is not [[], steps]")
    inp = MeasureInput(_task(task), RecordedState.from_json(state[1]))
    inline = {key: value for key, value in row.items() if key not in ("i", "r", "v")}
    return inp, _result(row["r"], {**inline, **_noted(note, inp)})


def _task(values: object) -> RecordedTask:
    if not isinstance(values, list) or not 2 <= len(values) <= 6:
        raise RecordError("its task is not a list of 2 to 6 fields")
    padded = [*values, *[None] * (6 - len(values))]
    key, target, hardware, host, layout, names = padded
    if not all(isinstance(text, str) and text.isprintable() for text in (key, target, host or "")):
        raise RecordError("workload key and targets are texts of one line")
    if layout is not None and (type(layout) is not int or layout not in (0, 1, 2)):
        raise RecordError(f"layout rewrite option {layout!r} is not 0, 1 or 2")
    if names is not None and not (isinstance(names, list) and all(map(_is_text, names))):
        raise RecordError("names of inputs are a list of texts")
    numbers = _ints([] if hardware is None else hardware)
    task = RecordedTask(key, target, numbers, host or "", layout, tuple(names or ()))
    for known in (target, host or target):
        target_of(known)  # an unknown one raises here, not where it is used
    return task


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _ints(values: object) -> tuple[int, ...]:
    most = len(fields(HardwareParams))
    if (
        not isinstance(values, list)
        or len(values) > most
        or any(type(each) is not int for each in values)
    ):
        raise RecordError(f"hardware parameters are ints, got {values!r}"[:_WORDS])
    return tuple(values)


def _result(values: object, note: dict[str, object]) -> MeasureResult:
    exact = note.pop("exact", None)
    message = note.pop("error_msg", "")
    match values:
        case [[*costs], 0, all_cost, timestamp] if costs and not any(costs):
            unknown = int(MeasureErrorNo.UNKNOWN_ERROR)
            return result_from_json([[], unknown, all_cost, timestamp], UNMEASURED)
    result = result_from_json(values, message, note)
    if isinstance(exact, list) and len(exact) == 3:
        found = result_from_json([exact[0], result.error_no, *exact[1:]], message, note)
        if [*map(_six_digits, found.costs)] == [*map(_six_digits, result.costs)]:
            result = found
    return result


def _noted(note: str, inp: MeasureInput) -> dict[str, object]:
    """Returns what the line before a record says; nothing if it is of another one."""
    if not note.startswith(NOTE):
        return {}
    try:
        known = json.loads(note.removeprefix(NOTE))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(known, dict) or known.pop("of", None) != inp.key:
        return {}
    return known


def _task_row(task: SearchProblem | RecordedTask) -> list[object]:
    if isinstance(task, RecordedTask):
        target, host = task.target_text, task.host_text
        option = task.layout_rewrite_option or 0
        numbers = list(task.hardware_row) or task.hardware_params.to_row()
    else:
        target, host = str(task.target), str(task.target_host or "")
        option, numbers = int(task.layout_rewrite_option), task.hardware_params.to_row()
    return [task.workload_key, target, numbers, host, option, list(task.task_input_names)]


def _six_digits(seconds: float) -> str:
    """Returns a number as C++ prints it by default."""
    return f"{seconds:.6g}"


def _few_words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_WORDS]
