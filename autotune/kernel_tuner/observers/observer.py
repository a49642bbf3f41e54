"""Observers of one's own: a kernel runs once more before their eyes, after it was timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.kernel_tuner.checking import Checker, run_on
from autotune.kernel_tuner.foreign_arrays import like
from autotune.runtime.module import Module
from autotune.utils.names import Elsewhere

__all__ = ["BenchmarkObserver", "IterationObserver", "OutputObserver", "observed"]

# What they must not replace in a result.
_OURS = ("time", "times")


class _Function(Elsewhere):
    """The kernel as observers see it."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "shared_size_bytes": "results have shared_bytes without an observer"
    }

    def __init__(self, registers: int | None) -> None:
        self.num_regs = registers
        self.func = self  # what a module of CuPy has

    def get_function(self, name: str) -> _Function:
        """Return the kernel, as a module that observers ask for it does."""
        del name
        return self


class ObservedDevice(Elsewhere):
    """What an observer reads and writes between the steps of a run.

    Attributes:
        outputs: the arguments of the run, in order.
        allocations: a list of them.
        func, current_module: the kernel, for the number of its registers (``num_regs``).
        name: of the target.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "stream": "a run is over when an observer is called",
        "start": "times are in the results",
        "end": "times are in the results",
    }

    def __init__(self, module: Module, arguments: Sequence[Any]) -> None:
        self.outputs = tuple(arguments)
        self.allocations = list(arguments)
        self.func = self.current_module = _Function(module.resources.get("registers"))
        self.name = str(module.target)

    def memcpy_htod(self, dest: Any, src: npt.ArrayLike) -> None:
        """Write to an argument."""
        _copy("memcpy_htod", dest, src)

    def memcpy_dtoh(self, dest: Any, src: npt.ArrayLike) -> None:
        """Read an argument."""
        _copy("memcpy_dtoh", dest, src)


def _copy(what: str, dest: Any, src: npt.ArrayLike) -> None:
    if not isinstance(dest, np.ndarray) or not dest.ndim:
        raise TunerError(f"{what}: expected an array to write to, got {dest!r}"[:200])
    np.copyto(dest, np.reshape(np.asarray(src), dest.shape))


class BenchmarkObserver:
    """Base of observers: its methods are called around a run of each configuration.

    Kernel Tuner calls them in every timed run. Here times are taken elsewhere; each configuration
    that ran is run once more for all observers, so what they average is of one run.

    Attributes:
        dev: an `ObservedDevice`, of the configuration that runs.
    """

    dev: ObservedDevice

    def register_device(self, dev: ObservedDevice) -> None:
        """Called before the run of each configuration."""
        self.dev = dev

    def register_configuration(self, params: Mapping[str, object]) -> None:
        """Called with the parameters of a configuration before its run."""

    def before_start(self) -> None:
        """Called before the run."""

    def after_start(self) -> None:
        """Called when the run has begun; here when it is over."""

    def during(self) -> None:
        """Called while the kernel runs; here when it is over."""

    def after_finish(self) -> None:
        """Called when the run is over."""

    def get_results(self) -> Mapping[str, object]:
        """Return what is added to the result of the configuration."""
        raise NotImplementedError


class OutputObserver(BenchmarkObserver):
    """Base of observers that look at what kernels write.

    With one of them an ``answer`` is not compared by `tune_kernel`, unless there is ``verify``.
    """

    def process_output(
        self, answer: Sequence[object] | None, output: Sequence[npt.NDArray[Any]]
    ) -> None:
        """Called after the run, with the ``answer`` of `tune_kernel` and all arguments."""
        raise NotImplementedError

    def get_results(self) -> Mapping[str, object]:
        """Return what is added to the result of the configuration: nothing by default."""
        return {}


class IterationObserver:
    """Stands in for observers that are told of single iterations, which are not here."""

    def __init__(self, *args: object, **more: object) -> NoReturn:
        raise TunerError("IterationObserver: there is one run; write a BenchmarkObserver")


def observed(
    observers: Sequence[BenchmarkObserver],
    module: Module,
    values: Sequence[Any],
    params: Mapping[str, object],
    checker: Checker,
) -> dict[str, object]:
    """Run a kernel on copies of values, and return what observers say of it.

    They see arrays of complex numbers as such.

    Raises:
        TunerError: one returns no dict, or a time.
    """
    given = [np.array(each) if np.ndim(each) else np.asarray(each)[()] for each in values]
    seen = [like(*pair) for pair in zip(given, checker.arguments, strict=False)]
    device = ObservedDevice(module, [*seen, *given[len(seen) :]])
    for each in observers:
        each.register_device(device)
        each.register_configuration(dict(params))
        each.before_start()
    run_on(module, given, checker.index)
    for each in observers:
        each.after_start()
        each.during()
        each.after_finish()
        if isinstance(each, OutputObserver):
            each.process_output(checker.said, device.outputs)
    found: dict[str, object] = {}
    for each in observers:
        said = each.get_results()
        if not isinstance(said, Mapping) or not set(_OURS).isdisjoint(said):
            raise TunerError(
                f"{type(each).__name__}.get_results: expected a dict without "
                f"{' and '.join(_OURS)}, got {said!r}"[:300]
            )
        found.update(said)
    return found
