"""Kernel Tuner's observers: that of NVML, and the base of one's own."""

from autotune.kernel_tuner.observers.observer import (
    BenchmarkObserver,
    IterationObserver,
    OutputObserver,
)

__all__ = ["BenchmarkObserver", "IterationObserver", "OutputObserver"]
