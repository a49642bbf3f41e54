"""What a kernel is built for: a target string, and the limits of the device behind it."""

from autotune.target.backends import Backend, Language
from autotune.target.limits import Limits
from autotune.target.target import Kind, Target, cuda

__all__ = ["Backend", "Kind", "Language", "Limits", "Target", "cuda"]
