"""Checks of arrays on their device: the results, and whether other memory was changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from autotune.errors import CompilerMissing, KernelError
from autotune.kernel.kernel import Kernel
from autotune.runtime.arrays.array import HostArray, NDArray, array, empty
from autotune.runtime.arrays.buffers import GUARD
from autotune.runtime.arrays.inspector_text import compare_kernel, digest_kernel
from autotune.runtime.arrays.memory import Block
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.load import load
from autotune.target.backends import Compiler
from autotune.utils.scratch import temporary_folder

# An argument has one answer; functions take fewer.
_MOST_ANSWERS = 256


@dataclass(frozen=True)
class Tally:
    """The differences between arrays.

    Attributes:
        wrong: elements that are farther apart than their bound.
        counted: elements that have a bound.
        squares: sum over these of the square of what part of the bound they are apart.
        trespassed: bytes of guards that have changed.
    """

    wrong: int
    counted: int
    squares: float
    trespassed: int


@dataclass(frozen=True)
class Answers:
    """The answers of an `Inspector`, by the positions of the questions."""

    numbers: HostArray

    def tally(self, place: int) -> Tally:
        """Return the answer to a comparison."""
        wrong, counted, squares, trespassed = self.numbers[place]
        return Tally(int(wrong), int(counted), float(squares), int(trespassed))

    def digest(self, place: int) -> int:
        """Return a number that is another one when any byte is."""
        return int(self.numbers[place].view(np.uint64)[0])


class Inspector:
    """Compares and digests arrays by small kernels, compiled on first use and then cached.

    What is asked is queued, and all of it answered at once. On a CPU it starts no threads: a
    process that forks may use it before.

    Args:
        device: where the arrays are.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._target = device.target
        self._language = self._target.language
        self._loaded: dict[str, Executable] = {}
        self._none = empty((1,), "float32", device)
        self._answers = empty((_MOST_ANSWERS, 4), "float64", device)
        self._asked = 0
        self._sizes: dict[tuple[int, ...], NDArray] = {}

    def prepare(self, dtype: str) -> None:
        """Get ready to compare arrays of ``dtype``, and to digest any.

        Raises:
            AutotuneError: the kernels cannot be compiled.
        """
        self._comparer(dtype)
        self._digester()

    def begin(self) -> None:
        """Forget what was asked before."""
        self._asked = 0
        self._answers.fill_bytes(0)

    def compare(
        self,
        got: NDArray,
        expected: NDArray,
        bounds: NDArray | None,
        guards: tuple[int, int] = (0, 0),
        place: int | None = None,
    ) -> int:
        """Compare arrays of one dtype and size; without bounds they must be the same.

        Args:
            got, expected, bounds: the arrays.
            guards: bytes before and after ``got`` that must still be `GUARD`.
            place: of an earlier comparison, whose tally this one adds to.

        Returns:
            the place of the answer.
        """
        sizes = self._of((got.size, int(bounds is not None), got.nbytes, *guards))
        place = self._place() if place is None else place
        limits = self._none if bounds is None else bounds
        arrays = (got, expected, limits, sizes, self._answer(place))
        self._comparer(got.dtype).queue_call(arrays)
        return place

    def digest(self, one: NDArray) -> int:
        """Digest the bytes of an array; return the place of the answer."""
        place = self._place()
        arrays = (one, self._of((one.nbytes,)), self._answer(place))
        self._digester().queue_call(arrays)
        return place

    def answers(self) -> Answers:
        """Wait for what was asked since `begin`."""
        return Answers(self._answers.numpy())

    def _place(self) -> int:
        self._asked += 1
        if self._asked > _MOST_ANSWERS:
            raise KernelError(f"more than {_MOST_ANSWERS} arrays cannot be looked at together")
        return self._asked - 1

    def _answer(self, place: int) -> NDArray:
        block = Block(self._answers.pointer + 32 * place, 32, self._answers)
        return NDArray(self.device, (4,), "float64", block)

    def _of(self, sizes: tuple[int, ...]) -> NDArray:
        if sizes not in self._sizes:
            self._sizes[sizes] = array(np.array(sizes, np.int64), self.device)
        return self._sizes[sizes]

    def _comparer(self, dtype: str) -> Executable:
        if dtype not in self._loaded:
            self._loaded[dtype] = self._load(compare_kernel(dtype, self._language, GUARD))
        return self._loaded[dtype]

    def _digester(self) -> Executable:
        if "" not in self._loaded:
            self._loaded[""] = self._load(digest_kernel(self._language))
        return self._loaded[""]

    def _load(self, kernel: Kernel) -> Executable:
        with temporary_folder("inspector") as folder:
            return load(self._built(kernel, folder), kernel, self.device)

    def _built(self, kernel: Kernel, folder: str) -> str:
        *faster, last = self._target.backend.compilers
        for compiler in faster:
            with suppress(CompilerMissing):
                return self._compiled(kernel, folder, compiler)
        return self._compiled(kernel, folder, last)

    def _compiled(self, kernel: Kernel, folder: str, compiler: Compiler) -> str:
        return compile_kernel(kernel, self._target, compiler=compiler, out_dir=folder).artifact
