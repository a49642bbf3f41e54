"""Frozen data that is taken apart to be sent, and put together where it arrives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Kind = TypeVar("Kind")


def remade(kind: type[Kind], fields: Mapping[str, object]) -> Kind:
    """Returns an instance that has these fields; they were checked when it was first made."""
    made = object.__new__(kind)
    made.__dict__.update(fields)
    return made
