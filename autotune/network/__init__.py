"""Whole networks: their search tasks, and compiling and running them."""

from autotune.network.compile import compile_network
from autotune.network.compiled import CompiledNetwork, NetworkInstance

__all__ = ["CompiledNetwork", "NetworkInstance", "compile_network"]
