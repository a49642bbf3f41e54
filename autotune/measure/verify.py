"""Verification: inputs, expected outputs, and which trials are checked."""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import MeasureError
from autotune.kernel import Argument, Kernel
from autotune.measure.naive import naive_outputs
from autotune.measure.scratch import Scratch
from autotune.measure.tolerance import Array, Tolerance, reduction_length, tolerance
from autotune.measure.types import MeasureInput
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
        rtol, atol: allowed difference; by default what fits dtype and reduction length.
    """

    best: bool = True
    sample: float = 0.1
    rtol: float | None = None
    atol: float | None = None

    def sampled(self, measure_input: MeasureInput) -> bool:
        """Whether this trial is checked even if it is not the best."""
        text = f"{measure_input.task.name} {measure_input.config.index}"
        return zlib.crc32(text.encode()) < self.sample * 2**32

    def tolerance(self, kernel: Kernel, output: Argument, flop: float | None) -> Tolerance:
        """Return the allowed difference of one output."""
        fitting = tolerance(output.dtype, reduction_length(flop, kernel.outputs))
        if self.rtol is None and self.atol is None:
            return fitting
        return Tolerance(self.rtol or 0.0, self.atol or 0.0)


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

    Both in the order of the kernel's arguments; ``expected`` is empty where nobody knows.
    """

    inputs: tuple[str, ...]
    expected: tuple[str, ...]


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
        self._known: dict[tuple[Argument, ...], Data] = {}
        self._numbers = itertools.count()

    def data(self, measure_input: MeasureInput, kernel: Kernel) -> Data:
        """Return the files for a kernel of this task.

        Configurations of one task nearly always have the same arguments; a template whose
        arguments change (packed layouts) gets one set for each.

        Raises:
            MeasureError: the reference fails or gives other outputs than the kernel has.
        """
        known = self._known.get(kernel.args)
        if known is None:
            values = self._values(kernel)
            inputs = tuple(self._write(value) for value in values.values())
            expected = self._expected(measure_input, kernel, values, inputs)
            known = self._known[kernel.args] = Data(inputs, expected)
        return known

    def _values(self, kernel: Kernel) -> dict[str, Array]:
        if self._ref_input is None:
            made = random_inputs(kernel.args, self._seed)
            return {a.name: value for a, value in zip(kernel.inputs, made, strict=True)}
        if len(self._ref_input) != len(kernel.args):
            raise MeasureError(
                f"ref_input: kernel {kernel.name!r} has {len(kernel.args)} arguments, "
                f"got {len(self._ref_input)} arrays"
            )
        pairs = zip(kernel.args, self._ref_input, strict=True)
        return {a.name: _fitting("ref_input", a, value) for a, value in pairs if a.role != "out"}

    def _expected(
        self,
        measure_input: MeasureInput,
        kernel: Kernel,
        values: Mapping[str, Array],
        inputs: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Ask the task's own reference, that of its kernel, or its plain loops."""
        task = measure_input.task
        output = task.instantiate(measure_input.config)
        reference = getattr(task, "reference", None) or getattr(output, "reference", None)
        if reference is not None:
            copies = [values[a.name].copy() for a in kernel.inputs]
            made = _called(reference, copies, kernel, task.name)
            return tuple(self._write(value) for value in made)
        if not isinstance(output, tuple):
            return ()
        try:
            return tuple(naive_outputs(output[0], output[1], inputs, self._scratch.path))
        except MeasureError as error:
            logger.warning("task %s: results are not verified: %s", task.name, error)
            return ()

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
    return np.ascontiguousarray(array, numpy_dtype(argument.dtype) if cast else None)
