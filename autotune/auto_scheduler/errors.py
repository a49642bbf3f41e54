"""Errors that also are the built-in that TVM's auto-scheduler raises at the same place."""

from __future__ import annotations

from autotune.errors import TemplateError, TunerError


class SearchTaskError(TemplateError, AssertionError):
    """A search task was asked for without saying what to compute, or for which target."""


class TuningOptionError(TunerError):
    """An option of tuning makes no sense."""


class NoScheduleError(TunerError):
    """A log holds no schedule for a task, or a search found none."""


class PrintModeError(TunerError, AssertionError):
    """A schedule cannot be printed in the requested form."""
