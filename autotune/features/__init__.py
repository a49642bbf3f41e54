"""What cost models see of a configuration."""

from autotune.features.knob import KnobFeatures

__all__ = ["KnobFeatures"]
