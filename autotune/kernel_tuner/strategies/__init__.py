"""Kernel Tuner's strategies, passed in place of a name: ``strategy=strategies.mls``."""

from __future__ import annotations

from autotune.kernel_tuner.choice import STRATEGIES
from autotune.utils.names import did_you_mean


def __getattr__(name: str) -> str:
    """Return a strategy, which is its name."""
    if name in STRATEGIES:
        return name
    near = did_you_mean(name, STRATEGIES)
    raise AttributeError(f"autotune.kernel_tuner.strategies: there is no {name!r}{near}")
