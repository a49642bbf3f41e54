"""Records as flat rows, for tables, spreadsheets and pandas."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from autotune.errors import RecordError
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult, Pair
from autotune.record.database import Database
from autotune.record.paths import without_password
from autotune.record.reader import load_from_file
from autotune.task import ConfigEntity
from autotune.workload import Candidate, key_to_json

Source = str | os.PathLike[str] | Database | Iterable[Pair]

# In front of the name of a knob, which may be that of another column.
KNOB = "config."


def row_of(inp: MeasureInput, result: MeasureResult) -> dict[str, object]:
    """Return the content of a record as plain values under fixed names.

    ``seconds`` is the median of the timed batches, ``spread`` the relative spread of a batch,
    ``joules`` the energy of a run and ``watts`` the power; all are None if the trial failed or
    they are unknown. Each knob has a column of its own. For a candidate that is not a point of a
    space, ``index`` is its key.
    """
    return {
        "task": inp.task.name,
        "args": list(getattr(inp.task, "args", ())),
        "target": str(inp.target),
        "index": key_to_json(inp.key),
        "error": MeasureErrorNo(result.error_no).name if result.error_no else "",
        "seconds": result.seconds if result.ok else None,
        "spread": result.spread,
        "joules": result.joules,
        "watts": result.watts,
        "error_msg": result.error_msg,
        "all_cost": result.all_cost,
        "timestamp": result.timestamp,
        **{f"{KNOB}{name}": value for name, value in choices_of(inp.config).items()},
    }


def choices_of(candidate: Candidate) -> dict[str, object]:
    """Return the choices by name, as a record has them; steps have one name for all."""
    if isinstance(candidate, ConfigEntity):
        return {name: value for name, _, value in candidate.to_json_dict()["entity"]}
    return {"candidate": candidate.to_json()}


def to_dataframe(records: Source, *more: Source) -> Any:
    """Return records as a `pandas.DataFrame`, one row a trial, in their order.

    Args:
        records: a log or what else `open_database` takes, or pairs of input and result.
        more: further ones; a column ``log`` has the file of a row.

    Raises:
        RecordError: pandas is not installed, or a log cannot be read.
    """
    try:
        import pandas
    except ImportError as error:
        raise RecordError(
            "to_dataframe needs pandas; install it: pip install 'autotune[pandas]'"
        ) from error
    rows = [row for source in (records, *more) for row in _rows(source)]
    # Lists cannot be grouped by or told apart; tuples can.
    return pandas.DataFrame(
        [{key: _hashable(value) for key, value in row.items()} for row in rows]
    )


def _rows(source: Source) -> Iterable[dict[str, object]]:
    if isinstance(source, (str, os.PathLike)):
        for inp, result in load_from_file(source):
            log = without_password(os.fspath(source))
            yield {"log": log, **_frozen(row_of(inp, result))}
    elif isinstance(source, Database):
        for inp, result in source.records():
            yield {"log": source.url, **_frozen(row_of(inp, result))}
    else:
        for inp, result in source:
            yield _frozen(row_of(inp, result))


def _frozen(row: dict[str, object]) -> dict[str, object]:
    """Make tuples of lists, so that rows can be grouped by them."""
    return {key: _hashable(value) for key, value in row.items()}


def _hashable(value: object) -> object:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
