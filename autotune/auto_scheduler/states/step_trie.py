"""States after many sequences of steps that begin alike: each beginning is taken once."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.auto_scheduler.states.loop_state import StateObject, TransformStep


class StepTrie:
    """A node of a trie (prefix tree): a state, and those that steps from there led to so far.

    Attributes:
        state: the state.
    """

    def __init__(self, state: StateObject) -> None:
        self.state = state
        self._following: dict[TransformStep, StepTrie] = {}

    def take(self, step: TransformStep) -> StepTrie:
        """Return what one more step leads to."""
        known = self._following.get(step)
        if known is None:
            known = self._following[step] = StepTrie(step.apply(self.state))
        return known

    def after(self, steps: Iterable[TransformStep]) -> StateObject:
        """Return the state with more steps taken."""
        node = self
        for step in steps:
            node = node.take(step)
        return node.state
