"""The choice of trials that are compared with the reference, and of the tolerance."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np

from autotune.errors import MeasureError
from autotune.kernel.kernel import Kernel
from autotune.measure.check.expected import Expected
from autotune.measure.check.rounding import EPSILON
from autotune.measure.check.tolerance import Limit, Tolerance
from autotune.measure.run.jobs import When
from autotune.measure.types import MeasureInput
from autotune.utils.check import Check

# Part of the trials that ``verify="sample"`` checks besides the best.
SAMPLE = 0.1
# Outputs of more bytes are compared as ``verify="sample"`` does: their reference takes six times
# as much memory while it is made, and each comparison reads two and a half times as much.
HUGE_BYTES = 1 << 28


@dataclass(frozen=True)
class VerifyPolicy:
    """The choice of trials that are compared with the reference, and of the tolerance.

    Attributes:
        best: check whatever is faster than all before it, and what comes near it.
        sample: part of the other trials that is checked, from 0 to 1; chosen by the candidate,
            so that a repeated run checks the same ones. A tenth at most where the outputs are
            larger than `HUGE_BYTES`.
        rtol, atol: allowed difference, relative and absolute, in place of and besides what fits
            the computation. ``rtol`` is relative to an element or to the root mean square of the
            output, whichever is larger.
        sums: dtype in which kernels keep their sums. By default what a tensor expression says, and
            for kernels written by hand float32 where results are shorter than that.
    """

    best: bool = True
    sample: float = 1.0
    rtol: float | None = None
    atol: float | None = None
    sums: str | None = None

    def __post_init__(self) -> None:
        if self.sums is not None and self.sums not in EPSILON:
            names = ", ".join(EPSILON)
            raise MeasureError(f"VerifyPolicy: sums must be one of {names}, got {self.sums!r}")
        check = Check(MeasureError, "VerifyPolicy")
        check.number("sample", self.sample, 0, 1)
        for name in ("rtol", "atol"):
            if getattr(self, name) is not None:
                check.number(name, getattr(self, name), least=0)

    def share(self, output_bytes: int) -> float:
        """Return the part of the trials that is checked even if they are not the best."""
        return min(self.sample, SAMPLE) if output_bytes > HUGE_BYTES else self.sample

    def sampled(self, measure_input: MeasureInput, output_bytes: int = 0) -> bool:
        """Whether this trial is checked even if it is not the best."""
        share = self.share(output_bytes)
        if share >= 1:
            return True
        text = f"{measure_input.task.name} {measure_input.key}"
        return zlib.crc32(text.encode()) < share * 2**32

    def check(self, measure_input: MeasureInput, output_bytes: int) -> When:
        """Return when a trial is checked."""
        if self.sampled(measure_input, output_bytes):
            return "always"
        return "best" if self.best else "never"

    def recorded(self, output_bytes: int) -> str | None:
        """Return what a record keeps of which trials were checked: None where all were."""
        if self.share(output_bytes) >= 1:
            return None
        return "sample" if self.best or self.sample else "none"

    def fitting(self, found: Expected) -> Expected:
        """Put the user's own tolerances in place of what fits the computation, or besides it."""
        if self.rtol is not None:
            allowed = Tolerance(Limit(self.rtol), atol=self.atol or 0.0)
            return allowed.expected(found.values)
        if not self.atol:
            return found
        bounds = np.zeros(1, np.float32) if found.bounds is None else found.bounds
        more = np.broadcast_to(bounds + np.float32(self.atol), found.values.shape)
        return replace(found, bounds=np.ascontiguousarray(more))


def output_bytes(kernel: Kernel) -> int:
    """Return the bytes of all outputs of a kernel, by which a policy may leave some unchecked."""
    return sum(a.bytes for a in kernel.outputs)


ALL = VerifyPolicy()
SOME = VerifyPolicy(sample=SAMPLE)
NONE = VerifyPolicy(best=False, sample=0.0)


def verify_policy(choice: VerifyPolicy | bool | str | float) -> VerifyPolicy:
    """Read the ``verify=`` argument of a runner: a policy, a bool, a word, or a share."""
    if isinstance(choice, VerifyPolicy):
        return choice
    if isinstance(choice, bool):
        return ALL if choice else NONE
    if choice in ("all", "sample"):
        return ALL if choice == "all" else SOME
    if isinstance(choice, (int, float)) and 0 <= choice <= 1:
        return VerifyPolicy(sample=float(choice))
    raise MeasureError(
        f"verify: expected True, False, 'all', 'sample', a share from 0 to 1 or a VerifyPolicy, "
        f"got {choice!r}"
    )
