"""Errors that also are the built-in that TVM's auto-scheduler raises at the same place."""

from __future__ import annotations

from autotune.errors import TemplateError


class SearchTaskError(TemplateError, AssertionError):
    """A search task was asked for without saying what to compute, or for which target."""
