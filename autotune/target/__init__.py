"""What a kernel is built for: a target string, and the limits of the device behind it."""

from typing import TYPE_CHECKING

from autotune.migration import resolver
from autotune.target.limits import Limits
from autotune.target.target import Kind, Language, Target, cuda

__all__ = ["Kind", "Language", "Limits", "Target", "cuda"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
