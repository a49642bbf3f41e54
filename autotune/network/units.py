"""The parts of a network that one kernel computes each, by the choices of its functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autotune.graph import Constant, Node, Operator, Pattern, Value
from autotune.graph.fuse import FusedFunction
from autotune.graph.ops import Write
from autotune.graph.passes import folded
from autotune.network.choice import (
    RULE,
    BySearch,
    ByTemplate,
    Choice,
    Chooser,
    choose_untuned,
)
from autotune.target import Target


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
        function = self.function
        if len(function.outputs) != 1 or value.type != function.outputs[0].type:
            return False
        if not self.choice.in_place:
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
    return (
        isinstance(choice, ByTemplate)
        and choice.offer.nodes == len(joint.nodes)
        and all(isinstance(joint.inputs[index], Constant) for index, _ in choice.prepared)
    )


def _units(
    function: FusedFunction,
    choice: Choice,
    prepared: dict[tuple[Constant, Operator], Constant],
    target: Target,
) -> list[Unit]:
    """Return what computes a function: of what its template leaves, whatever is best untuned."""
    inputs = list(function.inputs)
    for index, op in choice.prepared:
        value = inputs[index]
        if not isinstance(value, Constant):  # known in another function of this structure
            if isinstance(choice, BySearch):
                return [_natural(function, function, choice.as_they_are())]
            return _units(function, choose_untuned(function, target), prepared, target)
        inputs[index] = _prepare(value, op, prepared)
    if not isinstance(choice, ByTemplate):
        return [Unit(function, function, choice, (*inputs, *function.outputs))]
    operands = [inputs[index] for index in choice.offer.operands]
    parts = function.cut(choice.offer.nodes)
    if parts is None:
        return [Unit(function, function, choice, (*operands, *function.outputs))]
    first, rest = parts
    computed = Unit(first, function, choice, (*operands, *first.outputs))
    others = _units(rest, choose_untuned(rest, target), prepared, target)
    return [computed, *(replace(unit, whole=function) for unit in others)]


def _natural(function: FusedFunction, whole: FusedFunction, choice: Choice) -> Unit:
    """Return a unit whose kernel takes the inputs and outputs of its function in their order."""
    return Unit(function, whole, choice, (*function.inputs, *function.outputs))


def _prepare(
    value: Constant, op: Operator, known: dict[tuple[Constant, Operator], Constant]
) -> Constant:
    if (value, op) not in known:
        known[value, op] = folded(Node(op, (value,), value.name), [value])
    return known[value, op]
