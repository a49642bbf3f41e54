"""Comparing what a configuration computes with what the caller expects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.driver import build
from autotune.errors import AutotuneError, TunerError
from autotune.kernel.source import SourceKernel
from autotune.kernel_tuner.foreign_arrays import in_numbers, is_elsewhere, like, on_host
from autotune.runtime.arrays.array import array
from autotune.runtime.device import Device, device
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.utils.check import shown

Array = npt.NDArray[Any]
Answer = Sequence[object]
Verify = Callable[..., object]


def outputs_of(
    kernel: SourceKernel, target: Target, values: Sequence[Array], index: int = 0
) -> list[Array]:
    """Run a kernel once on copies of values, and return what these are then.

    Args:
        kernel, target: what is run.
        values: of all arguments.
        index: number of the GPU.
    """
    _place_of(target, index)
    return called(build(kernel, target=target), values, index)


def called(module: Module, values: Sequence[Any], index: int = 0) -> list[Array]:
    """Call a built kernel on copies of values, and return what these are then.

    Arrays in the memory of a device are not copied: the kernel writes to them.
    """
    given = [each if is_elsewhere(each) else _copied(in_numbers(each)) for each in values]
    run_on(module, given, index)
    return [
        each if is_elsewhere(each) else like(np.asarray(each), value)
        for each, value in zip(given, values, strict=True)
    ]


def run_on(module: Module, given: Sequence[Any], index: int) -> None:
    """Run a built kernel on this GPU; arrays of numpy have its results then.

    Raises:
        DeviceError: there is no such GPU.
    """
    place = _place_of(module.target, index)
    if place.kind == "cpu":
        module(*given)
        return
    held = [array(each, place) if _is_array(each) else each for each in given]
    module(*held)
    for mine, there in zip(given, held, strict=True):
        if there is not mine:
            np.copyto(mine, there.numpy())


def _place_of(target: Target, index: int) -> Device:
    """Return where kernels of a target run: on this GPU, or on the CPU."""
    place = device(target, index)
    if place.kind == "cpu":
        return device(target)
    place.require()
    return place


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _copied(value: Any) -> Any:
    return np.array(value) if np.ndim(value) else np.asarray(value)[()]


class Checker:
    """What is right.

    Args:
        answer: for each argument what it is expected to be afterwards; None for those that are
            not looked at.
        atol: most that elements may differ, beside a hundred-thousandth of their size.
        verify: ``verify(answer, results, atol=...)`` says whether results are right.
        arguments: those that were given, in whose form ``verify`` gets results.
        compares: whether the answer is compared without ``verify``.
        index: number of the GPU that kernels run on.

    Raises:
        TunerError: the answer has another length, or arrays of other shapes.
    """

    def __init__(
        self,
        answer: object,
        atol: float,
        verify: Verify | None,
        arguments: Sequence[object],
        compares: bool = True,
        index: int = 0,
    ) -> None:
        if verify is not None and not callable(verify):
            raise TunerError(f"verify: expected a function of two lists, got {shown(verify)}")
        if answer is not None and not isinstance(answer, list | tuple):
            raise TunerError(
                "answer: expected a list with an array or None for each argument, got "
                f"{shown(answer)}"
            )
        if answer is not None and verify is None and len(answer) != len(arguments):
            raise TunerError(
                f"answer: expected one item for each of {len(arguments)} arguments, got "
                f"{len(answer)}"
            )
        self.answer: list[Any] | None = (
            None if answer is None else [in_numbers(each) for each in answer]
        )
        self.said = None if answer is None else [on_host(each) for each in answer]
        self.arguments = arguments
        self.index = index
        self._atol = atol
        self._verify = verify
        self._compares = compares

    @property
    def looks(self) -> bool:
        """Whether anything is compared."""
        return self._verify is not None or (self._compares and self.answer is not None)

    def problem(self, kernel: SourceKernel, target: Target, values: Sequence[Array]) -> str:
        """Return what is wrong with the results of a kernel; an empty text if nothing is."""
        try:
            results = outputs_of(kernel, target, values, self.index)
        except AutotuneError as error:
            return str(error)
        if self._verify is not None:
            pairs = zip(results, self.arguments, strict=False)
            written = [like(each, given) for each, given in pairs]
            right = self._verify(self.said, written, atol=self._atol)
            return (
                ""
                if right is None or bool(np.all(np.asarray(right)))
                else "verify says that results are wrong"
            )
        for place, expected in enumerate(self.answer or ()):
            if expected is None:
                continue
            wanted, found = np.asarray(expected), results[place]
            if wanted.size != found.size:
                return f"argument {place}: {found.size} elements instead of {wanted.size}"
            if not np.allclose(wanted.ravel(), found.ravel(), atol=self._atol):
                apart = np.abs(wanted.ravel() - found.ravel())
                if np.isnan(apart).any():
                    return f"argument {place}: {int(np.isnan(apart).sum())} elements are NaN"
                return (
                    f"argument {place}: elements differ from the answer by up to {apart.max():.3g}"
                )
        return ""
