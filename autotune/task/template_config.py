"""The interface of a configuration inside a template, for type checkers.

`get_config` gives the collecting space, a run with one point, or made-up values; a template cannot
tell which. So it is typed by what a template may ask of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from autotune.ir import IterVar
from autotune.task.axes import Axis, VirtualAxis
from autotune.task.kinds import NO_MAX_FACTOR, Chains, Entity, SplitFilter, TransformSpace


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


class TemplateConfig(Protocol):
    """The object that `get_config` returns inside a template; see `Knobs` for the methods."""

    @property
    def is_fallback(self) -> bool:
        """Whether the values are made up, as nothing was tuned."""

    def axis(self, var: object) -> VirtualAxis:
        """Returns a virtual axis."""

    def reduce_axis(self, var: object) -> VirtualAxis:
        """Returns a virtual axis."""

    def define_split(
        self,
        name: str,
        axis: object,
        policy: str = "factors",
        *,
        num_outputs: int = 0,
        max_factor: int = NO_MAX_FACTOR,
        filter: SplitFilter | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> list[Axis]:
        """Defines how an axis is split."""

    def define(self, name: str, knob: TransformSpace) -> list[Axis]:
        """Defines a knob of any kind."""

    def define_reorder(
        self,
        name: str,
        axes: Sequence[object],
        policy: str,
        *,
        interval: tuple[int, int] | None = None,
        candidate: Chains | None = None,
        spatial: Chains | None = None,
        reduce: Chains | None = None,
    ) -> list[Axis]:
        """Defines an order of loops."""

    def define_annotate(
        self, name: str, axes: Sequence[object], policy: str, *, num_anchor: int | None = None
    ) -> list[Axis]:
        """Defines the annotations of loops."""

    def define_knob(self, name: str, candidate: Iterable[object]) -> list[Axis]:
        """Defines a knob of listed values."""

    def multi_filter(self, filter: Callable[[Mapping[str, KnobValue]], object]) -> None:
        """Keeps only configurations for which ``filter`` is true."""

    def add_flop(self, flop: object) -> None:
        """Adds to the operations that the task does."""

    def add_bytes(self, count: object) -> None:
        """Adds to the bytes that the task moves at least."""

    def suggest(self, choice: Mapping[str, Entity]) -> None:
        """Names a point that a search tries early."""

    def complete(self, completion: Callable[[Mapping[str, Entity]], Mapping[str, Entity]]) -> None:
        """Says which values knobs have for a record from before these knobs were there."""

    def raise_error(self, msg: str) -> None:
        """Marks this configuration impossible."""

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Chooses a split where nothing was tuned; only with `is_fallback`."""

    def __setitem__(self, name: str, entity: Entity) -> None:
        """Chooses a value where nothing was tuned; only with `is_fallback`."""

    def __getitem__(self, name: str) -> KnobValue:
        """Returns the chosen value of a knob."""

    def __contains__(self, name: object) -> bool:
        """Returns whether there is such a knob."""
