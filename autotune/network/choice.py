"""The choice of a kernel for each function of a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

from autotune.auto_scheduler import LayoutRewriteOption, RecordedState, SearchTask
from autotune.errors import AutotuneError
from autotune.graph import Operator
from autotune.graph.fuse import FusedFunction
from autotune.graph.ops import TileLayout
from autotune.kernel import SourceKernel
from autotune.network.implementations import FunctionOffer, offers_of
from autotune.target import Target
from autotune.task import ConfigEntity, DispatchContext, Task
from autotune.task.dispatcher import provided
from autotune.workload import Candidate, Realisation


@dataclass(frozen=True)
class ByRule:
    """A function that is scheduled by rule, untuned."""

    kind: ClassVar[str] = "rule"
    key: ClassVar[str] = "rule"
    provenance: ClassVar[str] = "by rule, untuned"
    prepared: ClassVar[tuple[tuple[int, Operator], ...]] = ()
    in_place: ClassVar[bool] = True


@dataclass(frozen=True)
class ByTemplate:
    """A function, or the first part of it, that a template computes.

    Attributes:
        offer: what the template does of the function.
        candidate: a point of its space.
    """

    kind: ClassVar[str] = "template"
    offer: FunctionOffer
    candidate: Candidate

    @property
    def workload(self) -> Task:
        """The task of the template."""
        return self.offer.task

    @property
    def key(self) -> str:
        """Tells it from all other choices of its function; the same in every process."""
        return f"{self.kind} {self.workload.key} {self.candidate.key}"

    @property
    def provenance(self) -> str:
        """The origin of the kernel, for people."""
        return f"{self.workload.name} #{self.candidate.key}"

    @property
    def prepared(self) -> tuple[tuple[int, Operator], ...]:
        """The inputs that are transformed ahead of time: (number of the input, operator)."""
        return self.offer.prepared

    @property
    def in_place(self) -> bool:
        """Whether each element of the result depends on one of an input, at its own place."""
        return self.offer.in_place

    def realise(self) -> Realisation:
        """Return what is to be built."""
        return self.workload.realise(self.candidate)


@dataclass(frozen=True)
class BySearch:
    """A function that a state of the auto-scheduler computes.

    Attributes:
        workload: the task of the search.
        candidate: the state.
    """

    kind: ClassVar[str] = "search"
    in_place: ClassVar[bool] = False
    workload: SearchTask
    candidate: RecordedState

    @property
    def key(self) -> str:
        """Tells it from all other choices of its function; the same in every process."""
        tiled = " tiled" if self.prepared else ""
        return f"{self.kind} {self.workload.key} {self.candidate.key}{tiled}"

    @property
    def provenance(self) -> str:
        """The origin of the kernel, for people."""
        tiled = ", weights laid out ahead of time" if self.prepared else ""
        return f"auto-scheduler {self.candidate.key}{tiled}"

    @cached_property
    def prepared(self) -> tuple[tuple[int, Operator], ...]:
        """The inputs that are transformed ahead of time: (number of the input, operator)."""
        layouts = enumerate(self.workload.layouts_of(self.candidate))
        return tuple([(i, TileLayout(each.parts)) for i, each in layouts if each is not None])

    def realise(self) -> Realisation:
        """Return what is to be built."""
        return self.workload.realise(self.candidate)

    def as_they_are(self) -> BySearch:
        """Return the same state with a kernel that takes all inputs unchanged."""
        natural = self.workload.rewriting(LayoutRewriteOption.NO_REWRITE)
        return replace(self, workload=cast(SearchTask, natural))


# The chosen implementation of a function.
Choice = ByRule | ByTemplate | BySearch
RULE = ByRule()
# Operations a byte from which on a function is bound by arithmetic, if it is done badly.
_MUCH = 8
# Given a function and a target, how it is computed.
Chooser = Callable[[FusedFunction, Target], Choice]


def choose_untuned(function: FusedFunction, target: Target) -> Choice:
    """Return how a function is computed before anything was tuned.

    That is the first template that computes it, with the configuration that packs have for the
    device (`autotune.hub`), else with its default; on a GPU the first hand-written one, whose
    default follows from the shape and the device, and only where it leaves nothing or computes
    much. Functions of no template are scheduled by rule. A joint
    function is computed as its first part would be, if that does both.
    """
    if function.parts:
        return same_for(function, choose_untuned(function.parts[0], target), target) or RULE
    for offer in offers_of(function, target):
        if target.backend.on_gpu and not _is_worth_a_part(function, offer):
            continue
        candidate = shipped(offer) or offer.task.default()
        if candidate is not None and (not target.backend.on_gpu or _by_hand(offer, candidate)):
            return ByTemplate(offer, candidate)
    return RULE


def shipped(offer: FunctionOffer) -> ConfigEntity | None:
    """Return what packs have for an offer on its device, with its own epilogue or another."""
    for workload in offer.known_as[: offer.own]:
        config = provided(offer.task.target, workload)
        candidate = None if config is None else _own(offer, config)
        if candidate is not None:
            return candidate
    return None


def _is_worth_a_part(function: FusedFunction, offer: FunctionOffer) -> bool:
    """Return whether a kernel for a part of a function may gain what the other one costs."""
    return offer.nodes == len(function.nodes) or function.flop > _MUCH * function.bytes


def _by_hand(offer: FunctionOffer, candidate: ConfigEntity) -> bool:
    return isinstance(offer.task.realise(candidate).what, SourceKernel)


def by_dispatch(context: DispatchContext) -> Chooser:
    """Return a chooser that asks a source of configurations, such as ``apply_history_best(log)``.

    Records of a template for an operator alone are used where more follows it, and those of TVM's
    logs by the templates whose knobs are the same; of several the nearest counts, then the
    fastest. Times taken on another kind of device do not count: such a record is used where no
    other template has one of this device. What the source does not know runs untuned.
    """

    def recorded(function: FusedFunction, target: Target) -> Choice | None:
        found: list[tuple[float, float, Choice]] = []
        for offer in offers_of(function, target):
            for distance, workload in enumerate(offer.known_as):
                config = context.known(target, workload)
                candidate = None if config is None else _own(offer, config)
                if candidate is not None:
                    cost = getattr(config, "cost", None)
                    choice = ByTemplate(offer, candidate)
                    # Logs from elsewhere are equally far: the faster row counts.
                    far = distance if distance < offer.own else math.inf
                    found.append((far, math.inf if cost is None else cost, choice))
                    break
        return min(found, key=lambda each: each[:2])[2] if found else None

    def choose(function: FusedFunction, target: Target) -> Choice:
        found = recorded(function, target)
        if found is None and any(recorded(part, target) for part in function.parts):
            return RULE
        return found or choose_untuned(function, target)

    return choose


def same_for(function: FusedFunction, choice: Choice, target: Target) -> Choice | None:
    """Return the template and candidate of a choice for another function; None if it has none.

    Of several offers of the template the one counts whose records serve the other, or that theirs
    do: it differs from it in what follows the operator only.
    """
    if not isinstance(choice, ByTemplate):
        return None
    found = []
    for offer in offers_of(function, target):
        candidate = _own(offer, choice.candidate)
        if offer.task.name == choice.workload.name and candidate is not None:
            found.append(ByTemplate(offer, candidate))
    theirs = choice.offer.known_as[: choice.offer.own]
    near = [
        each
        for each in found
        if each.workload.workload in theirs
        or choice.workload.workload in each.offer.known_as[: each.offer.own]
    ]
    return next(iter([*near, *found]), None)


def _own(offer: FunctionOffer, config: object) -> ConfigEntity | None:
    """Return a configuration as a point of the offer's space; None if it is not in the space."""
    try:
        candidate = offer.task.own(config)
        offer.task.realise(candidate)
    except AutotuneError:
        return None
    return candidate


def by_rule(function: FusedFunction, target: Target) -> Choice:
    """Return the choice that needs neither templates nor records."""
    del function, target
    return RULE
