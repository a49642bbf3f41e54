"""Looks at arrays on their device: what was computed, and whether anything else was touched."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import numpy as np

from autotune.errors import CompilerMissing
from autotune.kernel import Kernel
from autotune.runtime.array import NDArray, array, empty
from autotune.runtime.compile import compile_kernel
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.inspector_text import compare_kernel, digest_kernel
from autotune.runtime.load import load
from autotune.target import Language, Target


@dataclass(frozen=True)
class Tally:
    """How two arrays differ.

    Attributes:
        wrong: elements that are farther apart than their bound.
        counted: elements that have a bound.
        squares: sum over these of the square of what part of the bound they are apart.
    """

    wrong: int
    counted: int
    squares: float


class Inspector:
    """Compares and digests arrays by small kernels, compiled on first use and then cached.

    On a CPU it starts no threads: a process that forks may use it before.

    Args:
        device: where the arrays are.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._language: Language = "c" if device.kind == "cpu" else "cuda"
        self._loaded: dict[str, Executable] = {}
        self._none = empty((1,), "float32", device)
        self._tally = empty((3,), "float64", device)
        self._sum = empty((1,), "uint64", device)
        self._sizes: dict[tuple[int, ...], NDArray] = {}

    def prepare(self, dtype: str) -> None:
        """Get ready to compare arrays of ``dtype``, and to digest any.

        Raises:
            AutotuneError: the kernels cannot be compiled.
        """
        self._comparer(dtype)
        self._digester()

    def compare(self, got: NDArray, expected: NDArray, bounds: NDArray | None) -> Tally:
        """Compare arrays of one dtype and size; without bounds they must be the same."""
        sizes = self._of((got.size, int(bounds is not None)))
        self._tally.fill_bytes(0)
        arrays = (got, expected, bounds or self._none, sizes, self._tally)
        self._comparer(got.dtype).call(arrays)
        wrong, counted, squares = self._tally.numpy()
        return Tally(int(wrong), int(counted), float(squares))

    def digest(self, one: NDArray) -> int:
        """Return a number that is another one when any byte is."""
        self._sum.fill_bytes(0)
        self._digester().call((one, self._of((one.nbytes,)), self._sum))
        return int(self._sum.numpy()[0])

    def _of(self, sizes: tuple[int, ...]) -> NDArray:
        if sizes not in self._sizes:
            self._sizes[sizes] = array(np.array(sizes, np.int64), self.device)
        return self._sizes[sizes]

    def _comparer(self, dtype: str) -> Executable:
        if dtype not in self._loaded:
            self._loaded[dtype] = self._load(compare_kernel(dtype, self._language))
        return self._loaded[dtype]

    def _digester(self) -> Executable:
        if "" not in self._loaded:
            self._loaded[""] = self._load(digest_kernel(self._language))
        return self._loaded[""]

    def _load(self, kernel: Kernel) -> Executable:
        with tempfile.TemporaryDirectory(prefix="autotune-inspector-") as folder:
            return load(self._built(kernel, folder), kernel, self.device)

    def _built(self, kernel: Kernel, folder: str) -> str:
        if self._language == "c":
            return compile_kernel(kernel, Target("c"), out_dir=folder).artifact
        arch = self.device.compute_version.replace(".", "")
        target = Target(f"cuda -arch=sm_{arch}")
        try:  # the faster of the two, where it is
            return compile_kernel(kernel, target, compiler="nvrtc", out_dir=folder).artifact
        except CompilerMissing:
            return compile_kernel(kernel, target, compiler="nvcc", out_dir=folder).artifact
