"""One space of several families of kernels, whose knobs may differ: a knob selects the family.

Where no estimate is sure which of some families is fastest, tuning must be able to try them all.
Knobs that the selected family does not have keep their first value (they are conditional knobs),
so each kernel is one point of the space. Configurations that were logged when a family had a space
of its own lack the selecting knob, and are read by that family.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol, cast

from autotune import SourceKernel, Target

from . import common

KNOB = "family"


class Family(Protocol):
    """A family of kernels over one kind of shape."""

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: Any, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice."""


@dataclass(frozen=True)
class Alternatives:
    """Families of one space, itself one.

    Attributes:
        families: in the order of their values. Knobs of one name must mean the same.
        untuned: the value of the family that is used where nothing was tuned.
        numbers: the values of the knob, in ascending order: 0, 1 and so on, unless families that
            do not serve a shape are left out.
    """

    families: tuple[Family, ...]
    untuned: int
    numbers: tuple[int, ...] = ()

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The values of the knob."""
        return self.numbers or tuple(range(len(self.families)))

    @property
    def ADDED(self) -> dict[str, int]:
        """What choices have of logs that are older than a knob of a family."""
        every = [getattr(family, "ADDED", {}) for family in self.families]
        return {name: value for added in every for name, value in added.items()}

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape, in any family."""
        return {KNOB: list(self.values), **_values(self.families, shape)[1]}

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        family = self._selected(choice)
        options, shared = _values(self.families, shape)
        own = options[self.families.index(family)]
        unused = {name: [values[0]] for name, values in shared.items()}
        strange = [
            (common.is_none_of(choice[name], values), f"{name} of another family")
            for name, values in (unused | own).items()
        ]
        return common.first_broken(strange) or family.violation(
            shape, {name: choice[name] for name in own}, target
        )

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice of the untuned family."""
        return self._default_of(self.untuned, shape, target)

    def suggestions(self, shape: Any, target: Target) -> list[dict[str, int]]:
        """Return the untuned choices of the other families, which a search tries early."""
        others = [number for number in self.values if number != self.untuned]
        return [self._default_of(number, shape, target) for number in others]

    def completed(self, shape: Any, values: Mapping[str, int]) -> Mapping[str, int]:
        """Return the values of all knobs for what was chosen of a family in its own space."""
        family = self.chosen_alone(shape, values)
        if family is None:
            return values
        first = {name: options[0] for name, options in self.candidates(shape).items()}
        number = next(n for n, f in zip(self.values, self.families, strict=True) if f is family)
        return {**first, KNOB: number, **values}

    def _default_of(self, number: int, shape: Any, target: Target) -> dict[str, int]:
        first = {name: values[0] for name, values in self.candidates(shape).items()}
        family = self._selected({KNOB: number})
        return {**first, KNOB: number, **family.default_choice(shape, target)}

    def kernel(self, shape: Any, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""
        family = self._selected(choice)
        return family.kernel(shape, {name: choice[name] for name in family.candidates(shape)})

    def chosen_alone(self, shape: Any, knobs: Container[str]) -> Family | None:
        """Return the family that knobs were chosen of when it had its own space, or None."""
        if KNOB in knobs:
            return None
        names = [set(family.candidates(shape)) for family in self.families]
        for i, family in enumerate(self.families):
            own = names[i].difference(*names[:i], *names[i + 1 :])
            if any(name in knobs for name in own):
                return family
        # Of a family whose knobs another one has too, all are there, and no other.
        for own, family in zip(names, self.families, strict=True):
            if all((name in knobs) == (name in own) for name in set().union(*names)):
                return family
        return None

    def _selected(self, choice: Mapping[str, int]) -> Family:
        """Return the family that a choice selects; of expressions each value is asked for."""
        *before, last = zip(self.values, self.families, strict=True)
        return next((family for i, family in before if choice[KNOB] == i), last[1])


@dataclass(frozen=True)
class Near:
    """A family of a large space, without the choices that are far from its untuned one.

    Attributes:
        family: one whose estimate is known to lead close to the best choice.
        reach: how many values of each knob to either side are kept.
        kept: knobs that keep the value of the untuned choice.
        target: that the untuned choice is for.
    """

    family: Family
    reach: int
    kept: tuple[str, ...]
    target: Target

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        untuned = _untuned(cast(Any, self.family), getattr(shape, "alone", shape), self.target)
        options = self.family.candidates(shape)
        return {name: self._around(name, v, untuned[name]) for name, v in options.items()}

    def _around(self, name: str, values: list[int], untuned: int) -> list[int]:
        at, reach = values.index(untuned), 0 if name in self.kept else self.reach
        return values[max(0, at - reach) : at + reach + 1]

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(shape, choice, target)

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(shape, target)

    def kernel(self, shape: Any, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice."""
        return self.family.kernel(shape, choice)


# A filter that cannot be traced asks for these at each of many points.
@lru_cache(maxsize=64)
def _values(
    families: tuple[Family, ...], shape: Any
) -> tuple[list[dict[str, list[int]]], dict[str, list[int]]]:
    """Return the values of knobs for a shape: in each family, and in any."""
    options = [family.candidates(shape) for family in families]
    names = dict.fromkeys(name for each in options for name in each)
    shared = {name: sorted({v for o in options for v in o.get(name, ())}) for name in names}
    return options, shared


@lru_cache(maxsize=1024)
def _untuned(family: Any, shape: Any, target: Target) -> Mapping[str, int]:
    """Return the untuned choice of a family, which may take long to find."""
    chosen: Mapping[str, int] = family.default_choice(shape, target)
    return chosen
