"""Pinned functions of networks, as plain data of a lock.

This layer reads and writes them; `autotune.network` interprets them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from autotune.errors import LockError

_TEXTS = (
    "function", "signature", "target", "device", "device_class", "way", "compiler", "evidence",
    "choice", "graph",
)  # fmt: skip
_HASHES = ("text_sha256", "code_sha256")


@dataclass(frozen=True)
class LockedFunction:
    """One pinned function of networks: some operators, and the kernels that compute them.

    Attributes:
        function: its name.
        signature: a hash of its operators, shapes and types.
        target: what it was built for.
        device, device_class: where, see `device_class_of`.
        way: where its kernels come from, for people.
        text_sha256, code_sha256: of each kernel, in the order of running.
        compiler: which compiler made them.
        microseconds: of each kernel on its own; empty where they were not timed.
        ci95: 95% intervals of these.
        evidence: what the times and answers are based on.
        choice: how it is computed, as JSON.
        graph: its operators, as JSON.
    """

    function: str
    signature: str
    target: str
    device: str
    device_class: str
    way: str
    text_sha256: tuple[str, ...]
    code_sha256: tuple[str, ...]
    compiler: str
    microseconds: tuple[float, ...]
    ci95: tuple[tuple[float, float], ...]
    evidence: str
    choice: str
    graph: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that distinguishes entries of one function."""
        return self.signature, self.device_class, self.target

    @property
    def row(self) -> dict[str, object]:
        """Its row in the lock file."""
        row = {name: _listed(value) for name, value in asdict(self).items()}
        return {name: value for name, value in row.items() if value != []}


def function_of_row(where: str, row: object) -> LockedFunction:
    """Read what `LockedFunction.row` gave.

    Raises:
        LockError: it is something else; the message begins with ``where``.
    """
    if not isinstance(row, dict):
        raise LockError(f"{where}: expected a table, got {row!r:.80}")
    _check_keys(where, row)
    _check_times(where, row)
    if len(row["code_sha256"]) != len(row["text_sha256"]):
        raise LockError(f"{where}: expected one hash of each kernel's machine code")
    for key in ("choice", "graph"):
        try:
            json.loads(row[key])
        except (ValueError, RecursionError) as error:
            raise LockError(f"{where}: {key} is no JSON: {error!s:.100}") from error
    return LockedFunction(
        **{key: row[key] for key in _TEXTS},
        text_sha256=tuple(row["text_sha256"]),
        code_sha256=tuple(row["code_sha256"]),
        microseconds=tuple(row.get("microseconds", [])),
        ci95=tuple((low, high) for low, high in row.get("ci95", [])),
    )


def _check_keys(where: str, row: Mapping[str, object]) -> None:
    """Refuse a row in which a key is missing or unknown."""
    missing = [key for key in _TEXTS if not isinstance(row.get(key), str)]
    missing += [key for key in _HASHES if not _is_list(row.get(key), str) or not row[key]]
    if missing:
        raise LockError(f"{where}: expected a text as {', '.join(missing)}")
    unknown = sorted(set(row) - {each.name for each in fields(LockedFunction)})
    if unknown:
        raise LockError(f"{where}: {unknown[0]} is unknown; upgrade autotune, or lock again")


def _check_times(where: str, row: Mapping[str, Any]) -> None:
    """Refuse times and confidence intervals unless there is one of each kernel, or none at all."""
    times, intervals = row.get("microseconds", []), row.get("ci95", [])
    count = len(row["text_sha256"])
    timed = _is_list(times, float) and len(times) in (0, count) and all(t > 0 for t in times)
    sure = isinstance(intervals, list) and len(intervals) in (0, count)
    if not timed or not sure or not all(_is_list(i, float) and len(i) == 2 for i in intervals):
        raise LockError(f"{where}: expected one time of each kernel, got {times!r:.80}")


def _is_list(value: object, kind: type) -> bool:
    if not isinstance(value, list) or not all(type(each) is kind for each in value):
        return False
    return kind is not float or all(map(math.isfinite, value))


def _listed(value: object) -> object:
    return list(map(_listed, value)) if isinstance(value, tuple) else value
