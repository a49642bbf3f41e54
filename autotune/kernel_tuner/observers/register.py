"""Kernel Tuner's observer of the registers of a kernel."""

from __future__ import annotations

from autotune.kernel_tuner.observers.observer import BenchmarkObserver

__all__ = ["RegisterObserver"]


class RegisterObserver(BenchmarkObserver):
    """Adds ``num_regs`` to each result; None where kernels have no registers of their own."""

    def get_results(self) -> dict[str, object]:
        """Return the number of registers of a thread."""
        return {"num_regs": self.dev.func.num_regs}
