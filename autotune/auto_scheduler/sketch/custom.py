"""Sketch rules that users write as two functions, as in TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.state import State
from autotune.errors import TunerError


@dataclass(frozen=True)
class PreloadCustomSketchRule:
    """A sketch rule made of two functions; it stands before all built-in rules.

    Attributes:
        meet_condition_func: of the policy, a state and a stage's number; returns `PASS`, `APPLY`
            or `APPLY_AND_SKIP_REST`.
        apply_func: of the same; returns ``[[state, number of the next stage], ...]``. The states
            it gets are `StateObject`; ``State(state, dag)`` has the primitives.
        rule_name: for messages.
    """

    PASS: ClassVar[Condition] = Condition.PASS
    APPLY: ClassVar[Condition] = Condition.APPLY
    APPLY_AND_SKIP_REST: ClassVar[Condition] = Condition.APPLY_AND_SKIP_REST

    meet_condition_func: Callable[[Any, StateObject, int], int]
    apply_func: Callable[[Any, StateObject, int], Iterable[object]]
    rule_name: str = "CustomSketchRule"

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule_name

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns what the user's function says."""
        found = self.meet_condition_func(_policy(context), state.state_object, stage_id)
        try:
            return Condition(found)
        except ValueError:
            raise TunerError(
                f"sketch rule {self.rule_name!r}: the condition must return PASS, APPLY or "
                f"APPLY_AND_SKIP_REST, got {found!r}"
            ) from None

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Returns what the user's function derives."""
        derived = self.apply_func(_policy(context), state.state_object, stage_id)
        if not isinstance(derived, Iterable):
            raise self._wrong(derived)
        return [self._one(each, state) for each in derived]

    def _one(self, pair: object, before: State) -> Derived:
        state, stage_id = pair if isinstance(pair, (list, tuple)) and len(pair) == 2 else (pair, 0)
        if isinstance(state, StateObject):
            state = State(state, before.compute_dag)
        if not isinstance(state, State) or not hasattr(stage_id, "__index__"):
            raise self._wrong(pair)
        return state, int(stage_id)

    def _wrong(self, derived: object) -> TunerError:
        return TunerError(
            f"sketch rule {self.rule_name!r}: it must return [[state, next stage], ...], got "
            f"{derived!r}"
        )


def _policy(context: SketchContext) -> object:
    return context if context.policy is None else context.policy
