"""Forms of rows: how workloads other than templates, and their candidates, are JSON.

A template's row is AutoTVM's, which `autotune.record.codec` writes and reads. Any other kind of
workload has a form here: the keys of a row that name the workload and the candidate. All other
keys are the same in all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput
from autotune.record.fields import target_of
from autotune.task import ConfigEntity, Task
from autotune.utils.plain_data import listed
from autotune.workload import RecordedGraph, ScheduleSteps, TensorGraph

# Most characters of a name or key in a row.
_LONGEST = 1000


class Form(Protocol):
    """The form of rows for one kind of workload.

    Attributes:
        mark: the key that these rows have, and no others.
    """

    mark: str

    def fits(self, inp: MeasureInput) -> bool:
        """Return whether a trial is written so."""
        ...

    def write(self, inp: MeasureInput) -> dict[str, object]:
        """Return the keys that name the workload and the candidate."""
        ...

    def read(self, row: dict[str, object]) -> MeasureInput:
        """Remove these keys from a row, and return the trial that they identify.

        Raises:
            Exception: the keys are malformed, so that the line is not a record.
        """
        ...


class GraphForm:
    """Schedules of a te graph: its target, name and key, and the steps.

    The computes are not in the row. What is read equals the `GraphWorkload` of that key.
    """

    mark = "graph"

    def fits(self, inp: MeasureInput) -> bool:
        """Return whether a trial is one of schedule steps."""
        return isinstance(inp.task, TensorGraph) and isinstance(inp.config, ScheduleSteps)

    def write(self, inp: MeasureInput) -> dict[str, object]:
        """Return ``{"graph": [target, name, key], "steps": [[tag, ...], ...]}``."""
        return {
            "graph": [str(inp.target), inp.task.name, inp.task.key],
            "steps": inp.config.to_json(),
        }

    def read(self, row: dict[str, object]) -> MeasureInput:
        """Read what `write` gave."""
        target, name, key = map(_short_line, listed(row.pop("graph")))
        steps = ScheduleSteps.from_json(map(listed, listed(row.pop("steps"))))
        known = target_of(target)
        return MeasureInput(known, RecordedGraph(key, known, name), steps)


def _short_line(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise TypeError("target, name and key of a graph are texts of one line")
    return value


FORMS: tuple[Form, ...] = (GraphForm(),)


def written(inp: MeasureInput) -> dict[str, object]:
    """Return the part of a row that identifies the workload and the candidate.

    Raises:
        RecordError: no form is known for them.
    """
    if isinstance(inp.task, Task):
        config = ConfigEntity.of(inp.config).to_json_dict()
        task = [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs]
        return {"input": task, "config": config}
    for form in FORMS:
        if form.fits(inp):
            return form.write(inp)
    raise RecordError(
        f"workload {inp.task.name!r}: expected a task of a template or a GraphWorkload with "
        f"ScheduleSteps, got a {type(inp.task).__name__} with a {type(inp.config).__name__}; "
        "no log has a form for these"
    )


def form_of(row: Mapping[str, object]) -> Form | None:
    """Return the form of a row; None of a template's."""
    return next((form for form in FORMS if form.mark in row), None)
