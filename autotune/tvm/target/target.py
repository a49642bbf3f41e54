"""TVM's `target.target`."""

from autotune.target import Target

__all__ = ["Target", "create", "current_target"]

current_target = Target.current  # its name in TVM 0.6


def create(target: str | Target, host: str | Target | None = None) -> Target:
    """Return a target; TVM's name for `Target` up to 0.7."""
    return Target(target) if host is None else Target(target, host)
