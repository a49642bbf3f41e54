"""Verification: inputs, expected outputs, and which trials are checked."""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.errors import MeasureError
from autotune.kernel import Argument, Kernel
from autotune.measure.naive import kept_sums, naive_outputs
from autotune.measure.scratch import Scratch
from autotune.measure.tolerance import (
    EPSILON,
    Array,
    Limit,
    Tolerance,
    reduction_length,
    tolerance,
)
from autotune.measure.types import MeasureInput
from autotune.measure.values import read_values
from autotune.runtime import random_inputs
from autotune.runtime.array import numpy_dtype

logger = logging.getLogger("autotvm")


@dataclass(frozen=True)
class VerifyPolicy:
    """Which trials are compared with the reference, and how closely.

    Attributes:
        best: check whatever is faster than all before it.
        sample: part of the other trials that is checked, from 0 to 1; chosen by the configuration,
            so that a repeated run checks the same ones.
        rtol, atol: allowed difference, relative and absolute; each replaces its part of what by
            default fits dtype and reduction length.
        sums: dtype in which kernels keep their sums. By default what a tensor expression says, and
            for kernels written by hand float32 where results are shorter than that.
    """

    best: bool = True
    sample: float = 0.1
    rtol: float | None = None
    atol: float | None = None
    sums: str | None = None

    def __post_init__(self) -> None:
        if self.sums is not None and self.sums not in EPSILON:
            names = ", ".join(EPSILON)
            raise MeasureError(f"VerifyPolicy: sums must be one of {names}, got {self.sums!r}")

    def sampled(self, measure_input: MeasureInput) -> bool:
        """Whether this trial is checked even if it is not the best."""
        text = f"{measure_input.task.name} {measure_input.config.index}"
        return zlib.crc32(text.encode()) < self.sample * 2**32

    def tolerance(
        self, kernel: Kernel, output: Argument, flop: float | None, sums: str | None = None
    ) -> Tolerance:
        """Return the allowed difference of one output.

        Args:
            kernel: what writes it.
            output: the argument.
            flop: operations of the whole task, if anybody has counted them.
            sums: dtype that the task says it keeps sums in, if it says so.
        """
        length = reduction_length(flop, output, kernel.inputs)
        fitting = tolerance(output.dtype, length, self.sums or sums)
        if self.rtol is not None:
            fitting = Tolerance(Limit(self.rtol))
        return replace(fitting, atol=self.atol or 0.0)


ALL = VerifyPolicy(sample=1.0)
NONE = VerifyPolicy(best=False, sample=0.0)


def verify_policy(choice: VerifyPolicy | bool | str | float) -> VerifyPolicy:
    """Read the ``verify=`` argument of a runner: a policy, a bool, ``"all"``, or a share."""
    if isinstance(choice, VerifyPolicy):
        return choice
    if isinstance(choice, bool):
        return VerifyPolicy() if choice else NONE
    if choice == "all":
        return ALL
    if isinstance(choice, (int, float)) and 0 <= choice <= 1:
        return VerifyPolicy(sample=float(choice))
    raise MeasureError(
        f"verify: expected True, False, 'all', a share from 0 to 1 or a VerifyPolicy, "
        f"got {choice!r}"
    )


@dataclass(frozen=True)
class Data:
    """Files with the values of the arguments that are read, and of those that are written.

    Attributes:
        inputs: in the order of the kernel's arguments.
        expected: in that order; empty where nobody knows, or nobody asked.
        sums: dtype that the task keeps its sums in, if it says so.
    """

    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    sums: str | None = None


class Oracle:
    """Inputs of one task and what its reference makes of them, computed once and kept in files.

    The files are removed by `close`.

    Args:
        seed: of the random inputs.
        ref_input: values of all arguments in order, in place of random ones.
    """

    def __init__(self, seed: int = 0, ref_input: Sequence[Array] | None = None) -> None:
        self._seed = seed
        self._ref_input = ref_input
        self._scratch = Scratch("data")
        self._inputs: dict[tuple[Argument, ...], tuple[str, ...]] = {}
        self._known: dict[tuple[Argument, ...], Data] = {}
        self._numbers = itertools.count()

    def data(self, measure_input: MeasureInput, kernel: Kernel, expected: bool = True) -> Data:
        """Return the files for a kernel of this task.

        Configurations of one task nearly always have the same arguments; a template whose
        arguments change (packed layouts) gets one set for each.

        Args:
            measure_input: a trial.
            kernel: what it runs.
            expected: whether its outputs will be compared; the reference is not called otherwise.

        Raises:
            MeasureError: the reference fails or gives other outputs than the kernel has.
        """
        args = kernel.args
        if args in self._known:
            return self._known[args]
        if args not in self._inputs:
            self._inputs[args] = tuple(self._write(value) for value in self._values(kernel))
        if not expected:
            return Data(self._inputs[args], ())
        known = self._known[args] = self._expected(measure_input, kernel, self._inputs[args])
        return known

    def _values(self, kernel: Kernel) -> list[Array]:
        if self._ref_input is None:
            return random_inputs(kernel.args, self._seed)
        if len(self._ref_input) != len(kernel.args):
            raise MeasureError(
                f"ref_input: kernel {kernel.name!r} has {len(kernel.args)} arguments, "
                f"got {len(self._ref_input)} arrays"
            )
        pairs = zip(kernel.args, self._ref_input, strict=True)
        return [_fitting("ref_input", a, value) for a, value in pairs if a.role != "out"]

    def _expected(
        self, measure_input: MeasureInput, kernel: Kernel, inputs: tuple[str, ...]
    ) -> Data:
        """Ask the task's own reference, that of its kernel, or its plain loops."""
        task = measure_input.task
        output = task.instantiate(measure_input.config)
        tensors = output[1] if isinstance(output, tuple) else ()
        sums = kept_sums(tensors)
        reference = getattr(task, "reference", None) or getattr(output, "reference", None)
        if reference is not None:
            pairs = zip(inputs, kernel.inputs, strict=True)
            # Indexed by nothing, scalars become numbers; arrays stay as they are.
            copies = [read_values(path, a.dtype).copy()[()] for path, a in pairs]
            made = _called(reference, copies, kernel, task.name)
            return Data(inputs, tuple(self._write(value) for value in made), sums)
        if not tensors:
            return self._unverified(task.name, inputs, "its kernels have no reference")
        try:
            plain = naive_outputs(output[0], tensors, inputs, self._scratch.path)
        except MeasureError as error:
            return self._unverified(task.name, inputs, error)
        return Data(inputs, tuple(plain), sums)

    def _unverified(self, name: str, inputs: tuple[str, ...], reason: object) -> Data:
        logger.warning("task %s: results are not verified: %s", name, reason)
        return Data(inputs, ())

    def _write(self, value: Array) -> str:
        try:
            path = self._scratch.path / f"{next(self._numbers)}.npy"
            np.save(path, value, allow_pickle=False)
        except OSError as error:
            raise MeasureError(
                f"cannot write reference data to {self._scratch.path}: {error}; "
                "free space there or set TMPDIR"
            ) from error
        return str(path)

    def close(self) -> None:
        """Remove the files."""
        self._inputs.clear()
        self._known.clear()
        self._scratch.remove()


def _called(
    reference: Callable[..., Any], inputs: Sequence[Array], kernel: Kernel, name: str
) -> list[Array]:
    """Call a reference and check what it gives."""
    try:
        made = reference(*inputs)
    except Exception as error:  # the user's function: its failure is told in its own words
        raise MeasureError(
            f"task {name!r}: its reference failed: {type(error).__name__}: {error}"
        ) from error
    made = made if isinstance(made, (tuple, list)) else (made,)
    if len(made) != len(kernel.outputs):
        raise MeasureError(
            f"task {name!r}: its reference returned {len(made)} arrays, "
            f"the kernel writes {len(kernel.outputs)}"
        )
    pairs = zip(kernel.outputs, made, strict=True)
    return [_fitting("reference", a, value, cast=False) for a, value in pairs]


def _fitting(what: str, argument: Argument, value: Any, cast: bool = True) -> Array:
    array = np.asarray(value)
    if array.shape != argument.shape:
        raise MeasureError(
            f"{what}: argument {argument.name!r} has shape {argument.shape}, got {array.shape}"
        )
    if array.dtype == numpy_dtype("bfloat16"):
        array = array.astype(np.float32)  # files forget its name
    if array.dtype.kind not in "biuf":
        raise MeasureError(
            f"{what}: argument {argument.name!r} is {argument.dtype}, got {array.dtype} values, "
            "which are not real numbers"
        )
    return np.ascontiguousarray(array, numpy_dtype(argument.dtype) if cast else None)
