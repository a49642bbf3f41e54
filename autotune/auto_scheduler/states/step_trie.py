"""States after many sequences of steps that begin alike: each beginning is taken once."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.auto_scheduler.states.loop_state import StateObject, TransformStep


class Taken:
    """A state, and those that steps taken from there led to so far.

    Attributes:
        state: the state.
    """

    def __init__(self, state: StateObject) -> None:
        self.state = state
        self._following: dict[TransformStep, Taken] = {}

    def take(self, step: TransformStep) -> Taken:
        """Return what one more step leads to."""
        known = self._following.get(step)
        if known is None:
            known = self._following[step] = Taken(step.apply(self.state))
        return known

    def after(self, steps: Iterable[TransformStep]) -> StateObject:
        """Return the state with more steps taken."""
        taken = self
        for step in steps:
            taken = taken.take(step)
        return taken.state
