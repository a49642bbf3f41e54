"""The interface of a configuration inside a template, for type checkers.

`get_config` gives the collecting space, a run with one point, or made-up values; a template cannot
tell which. So it is typed by what a template may ask of any of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from autotune.ir import IterVar
from autotune.task.kinds import Entity
from autotune.task.knobs import Knobs


class KnobValue(Protocol):
    """The value of one knob; which of these attributes it has, the kind of the knob decides."""

    @property
    def val(self) -> Any:
        """The chosen value, of `define_knob`."""

    @property
    def size(self) -> list[int]:
        """Extents from outer to inner, of `define_split`; the first may be -1, "the rest"."""

    @property
    def perm(self) -> Sequence[int]:
        """The order of the loops, of `define_reorder`."""

    @property
    def anns(self) -> Sequence[str | int]:
        """An annotation for each loop, of `define_annotate`."""

    @property
    def apply(self) -> Callable[..., list[IterVar]]:
        """Takes a schedule, a tensor or operation, and loops of it; returns the new loops."""


class TemplateConfig(Knobs):
    """The object that `get_config` returns inside a template, as type checkers see it."""

    @abstractmethod
    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Chooses a split where nothing was tuned; only with `is_fallback`."""

    @abstractmethod
    def __setitem__(self, name: str, entity: Entity) -> None:
        """Chooses a value where nothing was tuned; only with `is_fallback`."""

    # Which entity it is, only the template knows.
    @abstractmethod
    def __getitem__(self, name: str) -> KnobValue:  # type: ignore[override]
        """Returns the chosen value of a knob."""
