"""The choice of a kernel for each function of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from autotune.auto_scheduler import LayoutRewriteOption
from autotune.errors import AutotuneError
from autotune.graph import Constant, Node, Operator, Pattern, Value
from autotune.graph.fuse import FusedFunction
from autotune.graph.ops import TileLayout, Write
from autotune.graph.passes import folded
from autotune.kernel import SourceKernel
from autotune.network.implementations import FunctionOffer, offers_of
from autotune.target import Target
from autotune.task import ConfigEntity, DispatchContext
from autotune.task.dispatcher import provided

Kind = Literal["template", "search", "rule"]


@dataclass(frozen=True)
class Choice:
    """The chosen implementation of a function.

    Attributes:
        kind: by a template, by a state that the auto-scheduler found, or by rule, untuned.
        workload: what gives the kernel; None where that is a rule.
        candidate: which of its kernels.
        offer: what the template does of the function; None of the other kinds.
    """

    kind: Kind = "rule"
    workload: Any = None
    candidate: Any = None
    offer: FunctionOffer | None = None

    @property
    def key(self) -> str:
        """Tells it from all others of its function; the same in every process."""
        if self.workload is None:
            return self.kind
        tiled = " tiled" if self.kind == "search" and self.prepared else ""
        return f"{self.kind} {self.workload.key} {self.candidate.key}{tiled}"

    @cached_property
    def prepared(self) -> tuple[tuple[int, Operator], ...]:
        """The inputs that are transformed ahead of time: (number of the input, operator)."""
        if self.offer is not None:
            return self.offer.prepared
        if self.kind != "search":
            return ()
        layouts = enumerate(self.workload.layouts_of(self.candidate))
        return tuple([(i, TileLayout(each.parts)) for i, each in layouts if each is not None])

    @property
    def provenance(self) -> str:
        """The origin of the kernel, for people."""
        match self.kind:
            case "template":
                return f"{self.workload.name} #{self.candidate.key}"
            case "search":
                tiled = ", weights laid out ahead of time" if self.prepared else ""
                return f"auto-scheduler {self.candidate.key}{tiled}"
        return "by rule, untuned"


RULE = Choice()
# Operations a byte from which on a function is bound by arithmetic, if it is done badly.
_MUCH = 8
# Given a function and a target, how it is computed.
Chooser = Callable[[FusedFunction, Target], Choice]


@dataclass(frozen=True, eq=False)
class Unit:
    """A part of a network that one kernel computes.

    Attributes:
        function: the operators that the kernel computes.
        whole: the function of the network to which these operators belong.
        choice: how its kernel is made.
        arguments: the kernel's arguments, in order: values of the network, and constants in the
            layout that the kernel reads.
        within: the joint function that it replaces; None if there is none.
    """

    function: FusedFunction
    whole: FusedFunction
    choice: Choice
    arguments: tuple[Value, ...]
    within: FusedFunction | None = None

    @property
    def key(self) -> str:
        """Units with equal keys run the same kernel."""
        return f"{self.function.signature} {self.choice.key}"

    @property
    def in_place(self) -> tuple[Value, ...]:
        """Inputs whose memory may become that of the result.

        Each element of it depends on one element of theirs, the one at its own place.
        """
        nodes = self.function.graph.nodes
        if any(node.op.pattern > Pattern.BROADCAST for node in nodes):
            return ()
        return tuple(each for each in self.function.inputs if self.writes_over(each))

    def writes_over(self, value: Value) -> bool:
        """Returns whether the result may be in the memory of an input, if no other input is in it.

        Each element of the result depends on one element of the input at most, the one at its own
        place; what it depends on of other inputs does not matter.
        """
        function, offer = self.function, self.choice.offer
        by_place = self.choice.kind == "rule" or (offer is not None and offer.in_place)
        if not by_place or len(function.outputs) != 1 or value.type != function.outputs[0].type:
            return False
        named = zip(function.inputs, function.graph.inputs, strict=True)
        follow: set[Value] = {own for each, own in named if each is value}
        for node in function.graph.nodes:
            if node.op.pattern > Pattern.INJECTIVE:
                return False
            if follow.isdisjoint(node.inputs):
                continue
            if isinstance(node.op, Write) and follow.isdisjoint(node.inputs[1:]):
                follow.add(node.output)
                continue
            if node.op.pattern > Pattern.BROADCAST or node.output.shape != value.shape:
                return False
            follow.add(node.output)
        return bool(follow)


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
            return Choice("template", offer.task, candidate, offer)
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
                    choice = Choice("template", offer.task, candidate, offer)
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
    found = []
    for offer in offers_of(function, target) if choice.kind == "template" else ():
        candidate = _own(offer, choice.candidate)
        if offer.task.name == choice.workload.name and candidate is not None:
            found.append(Choice("template", offer.task, candidate, offer))
    theirs = choice.offer.known_as[: choice.offer.own] if choice.offer is not None else ()
    near = [
        each
        for each in found
        if each.offer is not None
        and (
            each.workload.workload in theirs
            or choice.workload.workload in each.offer.known_as[: each.offer.own]
        )
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


def units_of(
    functions: Sequence[FusedFunction],
    target: Target,
    choose: Chooser,
    prepared: dict[tuple[Constant, Operator], Constant] | None = None,
    joint: Iterable[FusedFunction] = (),
) -> list[Unit]:
    """Return the units in the order in which they run.

    There is one unit per function, or two if a template computes only a part of it. Functions of
    equal structure have the same choice. If no template computes a joint function, its parts run,
    each by its own choice.

    Args:
        functions: the functions, in the order in which they run.
        target: the target.
        choose: returns how a function is computed.
        prepared: constants whose layout was changed before; new ones are added.
        joint: functions that may replace two of the functions, at the place of the first.
    """
    chosen: dict[str, Choice] = {}
    prepared = {} if prepared is None else prepared

    def how(function: FusedFunction) -> Choice:
        if function.signature not in chosen:
            by_rule = function.is_free or function.stores_updates
            chosen[function.signature] = RULE if by_rule else choose(function, target)
        return chosen[function.signature]

    one: dict[FusedFunction, FusedFunction] = {}
    within: dict[FusedFunction, FusedFunction] = {}
    for each in joint:
        if is_one(each, how(each)):
            one |= dict.fromkeys(each.parts, each)
        else:
            within |= dict.fromkeys(each.parts, each)
    units: list[Unit] = []
    for function in functions:
        whole = one.get(function, function)
        if whole is function:
            made = _units(function, how(function), prepared, target)
            units += [replace(unit, within=within.get(function)) for unit in made]
        elif function is whole.parts[0]:
            units += _units(whole, how(whole), prepared, target)
    return units


def is_one(joint: FusedFunction, choice: Choice) -> bool:
    """Return whether a choice computes a joint function; if not, its parts run by themselves."""
    offer = choice.offer
    return (
        offer is not None
        and offer.nodes == len(joint.nodes)
        and all(isinstance(joint.inputs[index], Constant) for index, _ in offer.prepared)
    )


def _units(
    function: FusedFunction,
    choice: Choice,
    prepared: dict[tuple[Constant, Operator], Constant],
    target: Target,
) -> list[Unit]:
    """Return what computes a function: of what its template leaves, whatever is best untuned."""
    offer = choice.offer
    inputs = list(function.inputs)
    for index, op in choice.prepared:
        value = inputs[index]
        if not isinstance(value, Constant):  # known in another function of this structure
            if choice.kind == "search":
                return [_natural(function, function, _as_they_are(choice))]
            return _units(function, choose_untuned(function, target), prepared, target)
        inputs[index] = _prepare(value, op, prepared)
    if offer is None:
        return [Unit(function, function, choice, (*inputs, *function.outputs))]
    operands = [inputs[index] for index in offer.operands]
    parts = function.cut(offer.nodes)
    if parts is None:
        return [Unit(function, function, choice, (*operands, *function.outputs))]
    first, rest = parts
    computed = Unit(first, function, choice, (*operands, *first.outputs))
    others = _units(rest, choose_untuned(rest, target), prepared, target)
    return [computed, *(replace(unit, whole=function) for unit in others)]


def _as_they_are(choice: Choice) -> Choice:
    """Return a choice of a schedule whose kernel takes all inputs unchanged."""
    return Choice("search", choice.workload.rewriting(LayoutRewriteOption.NO_REWRITE),
                  choice.candidate)  # fmt: skip


def _natural(function: FusedFunction, whole: FusedFunction, choice: Choice) -> Unit:
    """Return a unit whose kernel takes the inputs and outputs of its function in their order."""
    return Unit(function, whole, choice, (*function.inputs, *function.outputs))


def _prepare(
    value: Constant, op: Operator, known: dict[tuple[Constant, Operator], Constant]
) -> Constant:
    if (value, op) not in known:
        known[value, op] = folded(Node(op, (value,), value.name), [value])
    return known[value, op]
