"""TVM's `auto_scheduler.loop_state`."""

from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import Iterator, Stage
from autotune.auto_scheduler.states.state import State

__all__ = ["Iterator", "Stage", "State", "StateObject"]
