"""Process-wide switches that AutoTVM scripts set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GlobalScope:
    """Switches.

    Attributes:
        in_tuning: whether a tuner is at work.
        silent: whether warnings about fallback configurations are suppressed.
    """

    in_tuning: bool = False
    silent: bool = False


GLOBAL_SCOPE = GlobalScope()
