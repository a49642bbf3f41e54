"""Verification: inputs and expected outputs; `policy` says which trials are checked."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotune.errors import MeasureError
from autotune.kernel.kernel import Argument, Kernel, Scalar
from autotune.kernel.layout import natural_args, natural_kernel
from autotune.measure.build.realise import Realised, realise
from autotune.measure.check.captured import captured
from autotune.measure.check.expected import MOST_UNTOLD, Expected, expected
from autotune.measure.check.naive import PlainLoops, naive_outputs
from autotune.measure.check.policy import ALL, VerifyPolicy
from autotune.measure.check.tolerance import reduction_length, tolerance
from autotune.measure.check.tracked_reference import follow_errors
from autotune.measure.process.scratch import Scratch
from autotune.measure.run.jobs import Check
from autotune.measure.run.value_files import Array, read_values
from autotune.measure.types import BuildResult, MeasureInput
from autotune.runtime.arrays.array import numpy_dtype
from autotune.runtime.arrays.buffers import random_inputs
from autotune.workload import Called, Computed, NoReference, Reference, Workload

logger = logging.getLogger("autotvm")

# Expected outputs that are kept, of references which differ among candidates: more than trials are
# under way at once.
_KEPT = 128
# Arguments, and what the reference knows of its candidate.
_Key = tuple[tuple[Argument, ...], tuple[str, ...]]


@dataclass(frozen=True)
class ArgumentFiles:
    """Files with the values of the arguments that are read, and of those that are written.

    Attributes:
        inputs: in the order of the kernel's arguments.
        checks: of the outputs, in that order; empty if unknown or not requested.
    """

    inputs: tuple[str, ...]
    checks: tuple[Check, ...]


class Oracle:
    """Inputs of one workload and what its reference makes of them, made once and kept in files.

    The files are removed by `close`.

    Args:
        seed: of the random inputs.
        ref_input: values of all arguments in order, in place of random ones.
        policy: how closely outputs must agree.
        loops: runs plain loops; by default a process of its own, which ends with `close`.

    Attributes:
        bytes: what the files take.
    """

    def __init__(
        self,
        seed: int = 0,
        ref_input: Sequence[Array] | None = None,
        policy: VerifyPolicy = ALL,
        loops: PlainLoops | None = None,
    ) -> None:
        self._seed = seed
        self._ref_input = ref_input
        self._policy = policy
        self._scratch = Scratch("data")
        self._inputs: dict[tuple[Argument, ...], tuple[str, ...]] = {}
        self._known: dict[_Key, ArgumentFiles] = {}
        self._numbers = itertools.count()
        self._said: set[str] = set()
        self._loops = loops or PlainLoops()
        self._own_loops = loops is None
        self._over = False
        self.bytes = 0

    def known(
        self, kernel: Kernel, expected: bool = True, reference: Reference | None = None
    ) -> ArgumentFiles | None:
        """Return what `data` would, if that takes no time."""
        args = natural_args(kernel.args)
        known = self._known.get((args, _captured(reference)))
        if known is None and not expected and args in self._inputs:
            return ArgumentFiles(self._inputs[args], ())
        return known

    def data(
        self,
        measure_input: MeasureInput,
        kernel: Kernel,
        expected: bool = True,
        reference: Reference | None = None,
    ) -> ArgumentFiles:
        """Return the files for a kernel of this workload.

        Candidates of one workload nearly always have the same arguments and the same reference; a
        template whose arguments change (packed layouts), or whose reference knows the knobs (sums
        of blocks), gets one set for each. Arrays are in the files row by
        row, whatever layouts the kernel takes them in.

        Args:
            measure_input: a trial.
            kernel: what it runs.
            expected: whether its outputs will be compared; the reference is not called otherwise.
            reference: how the right answer comes about; None asks the candidate, if need be.

        Raises:
            MeasureError: the reference fails or gives other outputs than the kernel has.
        """
        kernel = natural_kernel(kernel)
        args = kernel.args
        if args not in self._inputs:
            values = self._values(measure_input.task.name, kernel, reference)
            self._inputs[args] = tuple(self._write(value) for value in values)
        if reference is None and expected:
            reference = _ask(measure_input)
        if (found := self.known(kernel, expected, reference)) is not None:
            return found
        assert reference is not None  # inputs alone are known by now
        workload, inputs, key = measure_input.task, self._inputs[args], _captured(reference)
        known = self._expected(workload, reference, kernel, inputs)
        # A reference may fill a list that it captures, and is the same one afterwards. One that
        # captures nothing is that of builders which do not pass it on, too.
        for each in (key, _captured(reference), *([()] if len(key) == 1 else [])):
            self._known[args, each] = known
            self._drop_oldest()
        return known

    def _drop_oldest(self) -> None:
        if len(self._known) <= _KEPT:
            return
        oldest = self._known.pop(next(iter(self._known)))
        if any(oldest is kept for kept in self._known.values()):
            return
        for path in [Path(p) for check in oldest.checks for p in (check.path, check.bounds) if p]:
            self.bytes -= path.stat().st_size
            path.unlink()

    def look_ahead(self, workload: Workload) -> None:
        """Compute what `data` will be asked for, if all kernels of it have one signature."""
        if workload.target is None:
            return
        for candidate in workload.examples():
            inp = MeasureInput(workload.target, workload, candidate)
            made = realise(inp)
            if isinstance(made, Realised):
                self.data(inp, made.kernel, reference=made.reference)
                return

    def _values(self, name: str, kernel: Kernel, reference: Reference | None) -> list[Array]:
        if self._ref_input is None:
            found = random_inputs(kernel.args, self._seed)
            known = reference.values if isinstance(reference, Computed) else {}
            read = [(at, a) for at, a in enumerate(kernel.args) if a.role != "out"]
            if not isinstance(reference, Computed):
                self._say_drawn(name, kernel.inputs, found)
            return [
                _fit("task_inputs", a, known[at]) if at in known else value
                for (at, a), value in zip(read, found, strict=True)
            ]
        if len(self._ref_input) != len(kernel.args):
            raise MeasureError(
                f"ref_input: kernel {kernel.name!r} has {len(kernel.args)} arguments, "
                f"got {len(self._ref_input)} arrays"
            )
        pairs = zip(kernel.args, self._ref_input, strict=True)
        return [_fit("ref_input", a, value) for a, value in pairs if a.role != "out"]

    def _expected(
        self, workload: Workload, reference: Reference, kernel: Kernel, inputs: tuple[str, ...]
    ) -> ArgumentFiles:
        """Call a reference, or run the plain loops of what is to be computed."""
        match reference:
            case Called(function):
                pairs = zip(inputs, kernel.inputs, strict=True)
                # Indexed by nothing, scalars become numbers; arrays stay as they are.
                values = [read_values(path, a.dtype)[()] for path, a in pairs]
                made = self._call(function, values, kernel, workload)
                return self._checked(workload.name, inputs, kernel, made)
            case Computed(tensors=tensors):
                try:
                    folder, sums = self._scratch.path, self._policy.sums
                    plain = naive_outputs(tensors, inputs, folder, sums, self._loops)
                except MeasureError as error:
                    return self._unverified(workload.name, inputs, error)
                return self._checked(workload.name, inputs, kernel, plain)
            case NoReference():
                reason = "its kernels have no reference"
                return self._unverified(workload.name, inputs, reason)

    def _call(
        self,
        reference: Callable[..., object],
        values: Sequence[Array],
        kernel: Kernel,
        workload: Workload,
    ) -> list[Expected]:
        """Follow a reference; if that is impossible, allow what fits the lengths of sums."""
        sums = self._policy.sums
        with suppress(Exception, SystemExit):  # whatever it is, the reference itself will tell
            return follow_errors(reference, values, kernel, sums)
        made = _call(reference, [value.copy() for value in values], kernel, workload.name)
        found = []
        for argument, value in zip(kernel.outputs, made, strict=True):
            length = reduction_length(workload.flop, argument, kernel.inputs)
            limits = tolerance(argument.dtype, length, sums).expected(value)
            # Devices compare values of one dtype, whatever numpy made of them.
            made_of = expected(value, limits.bounds, argument.dtype)
            found.append(replace(limits, values=made_of.values, bounds=made_of.bounds))
        return found

    def _checked(
        self, name: str, inputs: tuple[str, ...], kernel: Kernel, made: Sequence[Expected]
    ) -> ArgumentFiles:
        checks = []
        for argument, one in zip(kernel.outputs, made, strict=True):
            allowed = self._policy.fitting(one)
            # Who gives a tolerance says what is right.
            untold = one.untold() if self._policy.rtol is None else 0
            tells = untold <= MOST_UNTOLD * allowed.values.size
            if not tells:
                self._say_unverified(name, _untold(argument, untold))
            bounds = "" if allowed.bounds is None else self._write(allowed.bounds)
            values = self._write(allowed.values)
            checks.append(
                Check(argument.name, values, bounds, allowed.spread, allowed.basis, tells)
            )
        return ArgumentFiles(inputs, tuple(checks))

    def _unverified(self, name: str, inputs: tuple[str, ...], reason: object) -> ArgumentFiles:
        self._say_unverified(name, reason)
        return ArgumentFiles(inputs, ())

    def _say_unverified(self, name: str, reason: object) -> None:
        self._say(f"task {name}: results are not verified: {reason}")

    def _say_drawn(self, name: str, read: Sequence[Argument], values: Sequence[Array]) -> None:
        """Warn of whole numbers, which may be lengths, that the template leaves open."""
        for one, value in zip(read, values, strict=True):
            is_open = isinstance(one, Scalar) and one.value is None
            if is_open and np.issubdtype(value.dtype, np.integer):
                self._say(
                    f"task {name}: argument {one.name!r} is {value} in all trials, drawn at "
                    f"random; if it is a length, name it: "
                    f"arg({one.name!r}, (), {one.dtype!r}, value=...)"
                )

    def _say(self, said: str) -> None:
        # Once, however many signatures its kernels have.
        if said not in self._said and not self._over:
            self._said.add(said)
            logger.warning("%s", said)

    def _write(self, value: Array) -> str:
        try:
            path = self._scratch.path / f"{next(self._numbers)}.npy"
            np.save(path, value, allow_pickle=False)
            self.bytes += path.stat().st_size
        except OSError as error:
            raise MeasureError(
                f"cannot write reference data to {self._scratch.path}: {error}; "
                "free space there or set TMPDIR"
            ) from error
        return str(path)

    def close(self) -> None:
        """Remove the files, which are written again on demand, and end the computing process."""
        self._forget()
        self._scratch.remove()

    def end(self) -> None:
        """Remove the files for good: none is made any more; see `Scratch.end`.

        A thread that computes some meanwhile fails without a word.
        """
        self._over = True
        self._forget()
        self._scratch.end()

    def _forget(self) -> None:
        if self._own_loops:
            self._loops.end()
            self._loops = PlainLoops()
        self._inputs.clear()
        self._known.clear()
        self.bytes = 0


def _untold(argument: Argument, untold: int) -> str:
    """Say why a comparison with expected values is no verification."""
    return (
        f"{untold} of {math.prod(argument.shape)} elements of {argument.name} may be off by as "
        "much as they are large, by rounding; give inputs for which errors stay small "
        "(ref_input=), or a tolerance of your own (verify=VerifyPolicy(rtol=...))"
    )


def _captured(reference: Reference | None) -> tuple[str, ...]:
    """Return what tells a reference from those of other candidates."""
    return captured(reference.function) if isinstance(reference, Called) else ()


def _ask(measure_input: MeasureInput) -> Reference:
    """Return the reference of a candidate, for builders that do not pass it on.

    Raises:
        MeasureError: it cannot be made again.
    """
    made = realise(measure_input)
    if isinstance(made, BuildResult):
        raise MeasureError(f"{measure_input.task.name}: no reference: {made.error_msg}")
    return made.reference


def _call(
    reference: Callable[..., object], inputs: Sequence[Array], kernel: Kernel, name: str
) -> list[Array]:
    """Call a reference and check what it gives."""
    try:
        made = reference(*inputs)
    except (Exception, SystemExit) as error:  # the user's: it is told in its own words
        raise MeasureError(
            f"task {name!r}: its reference failed: {type(error).__name__}: {error}"
        ) from error
    if made is None:
        names = ", ".join(a.name for a in kernel.outputs)
        raise MeasureError(
            f"task {name!r}: its reference returned None; it must return what the kernel writes "
            f"({names}), not write into its arguments"
        )
    made = made if isinstance(made, (tuple, list)) else (made,)
    if len(made) != len(kernel.outputs):
        raise MeasureError(
            f"task {name!r}: its reference returned {len(made)} arrays, "
            f"the kernel writes {len(kernel.outputs)}"
        )
    pairs = zip(kernel.outputs, made, strict=True)
    return [_fit(f"task {name!r}: reference", a, value, cast=False) for a, value in pairs]


def _fit(what: str, argument: Argument, value: object, cast: bool = True) -> Array:
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
    # `ascontiguousarray` would make a row of a number.
    return _cast(what, argument, array) if cast else np.asarray(array, order="C")


def _cast(what: str, argument: Argument, array: Array) -> Array:
    """Return values in the dtype of an argument; those of floats may be rounded."""
    dtype = numpy_dtype(argument.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.asarray(array, dtype, order="C")
    if dtype.kind in "biu":
        changed = found != array
    else:
        changed = np.isinf(found.astype(np.float64)) & np.isfinite(array)
    if np.any(changed):
        raise MeasureError(
            f"{what}: argument {argument.name!r} is {argument.dtype}, which does not hold "
            f"{array[changed].flat[0]}; give other values, or the argument another dtype"
        )
    return found
