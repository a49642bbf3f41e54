"""One space of several families of kernels, whose knobs may differ: a knob selects the family.

Where no estimate is sure which of some families is fastest, tuning must be able to try them all.
Knobs that the selected family does not have keep their first value (they are conditional knobs),
so each kernel is one point of the space. Configurations that were logged when a family had a space
of its own lack the selecting knob, and are read by that family.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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
        families: of the values 0, 1 and so on of the knob. Knobs of one name must mean the same.
        untuned: the value of the family that is used where nothing was tuned.
    """

    families: tuple[Family, ...]
    untuned: int

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape, in any family."""
        options = [family.candidates(shape) for family in self.families]
        names = dict.fromkeys(name for each in options for name in each)
        shared = {name: sorted({v for o in options for v in o.get(name, ())}) for name in names}
        return {KNOB: list(range(len(self.families))), **shared}

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        family = self._selected(choice)
        own = family.candidates(shape)
        unused = {name: [v[0]] for name, v in self.candidates(shape).items() if name != KNOB}
        strange = [
            (common.is_none_of(choice[name], values), f"{name} of another family")
            for name, values in (unused | own).items()
        ]
        return common.first_broken(strange) or family.violation(
            shape, {name: choice[name] for name in own}, target
        )

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice of the untuned family."""
        first = {name: values[0] for name, values in self.candidates(shape).items()}
        chosen = self.families[self.untuned].default_choice(shape, target)
        return {**first, KNOB: self.untuned, **chosen}

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
        return None

    def _selected(self, choice: Mapping[str, int]) -> Family:
        """Return the family that a choice selects; of expressions each value is asked for."""
        *before, last = enumerate(self.families)
        return next((family for i, family in before if choice[KNOB] == i), last[1])
