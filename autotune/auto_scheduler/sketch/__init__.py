"""Sketches: the structures that a search fills with numbers, derived by rules."""

from autotune.auto_scheduler.sketch.custom import PreloadCustomSketchRule
from autotune.auto_scheduler.sketch.generate import CPU_RULES, GPU_RULES, generate_sketches
from autotune.auto_scheduler.sketch.rule import Condition, SketchContext, SketchRule

__all__ = [
    "CPU_RULES",
    "GPU_RULES",
    "Condition",
    "PreloadCustomSketchRule",
    "SketchContext",
    "SketchRule",
    "generate_sketches",
]
