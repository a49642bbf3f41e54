"""TVM's ``relay.backend``: executors and runtimes that scripts pass to ``relay.build``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import GraphError
from autotune.utils.check import Check

__all__ = ["Executor", "Runtime"]


@dataclass(frozen=True)
class Executor:
    """How TVM runs a network; here all run as one function, or as one CUDA graph.

    Attributes:
        name: ``"graph"`` or ``"aot"``.
        options: accepted for TVM's scripts.
    """

    name: str
    options: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        Check(GraphError, "Executor").one_of("name", self.name, ("graph", "aot"))


@dataclass(frozen=True)
class Runtime:
    """TVM's library that a network is linked with; here it is always autotune's.

    Attributes:
        name: ``"cpp"`` or ``"crt"``.
        options: accepted for TVM's scripts.
    """

    name: str
    options: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        Check(GraphError, "Runtime").one_of("name", self.name, ("cpp", "crt"))
