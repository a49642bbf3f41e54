"""TVM's `auto_scheduler.loop_state`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import Iterator, Stage
from autotune.auto_scheduler.states.state import State
from autotune.tvm.names import resolver

__all__ = ["Iterator", "Stage", "State", "StateObject"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
