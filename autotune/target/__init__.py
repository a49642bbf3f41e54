"""What a kernel is built for: a target string, and the limits of the device behind it."""

from autotune.target.limits import Limits
from autotune.target.target import Kind, Language, Target, cuda

__all__ = ["Kind", "Language", "Limits", "Target", "cuda"]
