"""Errors of spaces and workloads that also are the built-in AutoTVM raised at the same place."""

from __future__ import annotations

from autotune.errors import SpaceError, TemplateError


class KnobLookupError(SpaceError, KeyError):
    """A knob was asked for by a name that is not defined."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the message with quotes around it


class SpaceIndexError(SpaceError, IndexError):
    """An index is outside its space, or a filter rejects it."""


class KnobValueError(SpaceError, ValueError):
    """A knob's value has no numeric form."""


class WorkloadError(TemplateError, RuntimeError):
    """An argument cannot be part of a workload key, or a task has no template."""
