"""Kernel Tuner's `PythonKernel`: one configuration of a kernel as a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from autotune.driver import build
from autotune.errors import TunerError
from autotune.kernel_tuner.checking import called
from autotune.kernel_tuner.integration import TuneResults
from autotune.kernel_tuner.interface import Array, problem_of
from autotune.kernel_tuner.launch import Divisor
from autotune.kernel_tuner.measured import device_name
from autotune.kernel_tuner.renamed_arguments import takes_older_names
from autotune.runtime.module import Module

_FLAGS = "a list with True or False for each argument"


class PythonKernel:
    """A kernel that is built once and called with arrays of numpy.

    Args:
        kernel_name, kernel_source, problem_size: as `tune_kernel` takes them.
        arguments: of the shapes and dtypes of later calls.
        params: values of the parameters.
        results_file: of `store_results`, whose best parameters of the device are taken.
        inputs: accepted: all arguments are passed to the kernel.
        outputs: which arguments a call returns; by default all.
        platform, verbose: accepted for scripts.
        device: index of the GPU that it runs on, and of which results are looked for.
        block_size_names, grid_div_x, grid_div_y, grid_div_z, compiler_options, lang: as
            `tune_kernel` takes them.

    Raises:
        TunerError: an argument is of no use here; the message says what to do.
        CompileError: the kernel cannot be compiled.
    """

    @takes_older_names
    def __init__(
        self,
        kernel_name: str,
        kernel_source: object,
        problem_size: object,
        arguments: Sequence[object],
        params: Mapping[str, object] | None = None,
        inputs: Sequence[bool] | None = None,
        outputs: Sequence[bool] | None = None,
        device: int = 0,
        platform: int = 0,
        block_size_names: Sequence[str] | None = None,
        grid_div_x: Divisor = None,
        grid_div_y: Divisor = None,
        grid_div_z: Divisor = None,
        verbose: bool = True,
        lang: str | None = None,
        compiler_options: Sequence[str] | None = None,
        results_file: str | PathLike[str] | None = None,
    ) -> None:
        del inputs, platform, verbose
        self._count, self._device = len(arguments), device
        self._outputs = [True] * self._count if outputs is None else list(outputs)
        if len(self._outputs) != self._count:
            raise TunerError(f"outputs: expected {_FLAGS}, {self._count} in all, got {outputs}")
        divisors = (grid_div_x, grid_div_y, grid_div_z)
        problem, target = problem_of(
            kernel_name, kernel_source, problem_size, arguments, divisors, block_size_names,
            flags=compiler_options, lang=lang,
        )  # fmt: skip
        self._rest = problem.values()[self._count :]
        self.params = dict(params or {})
        if results_file is not None:
            results = TuneResults(results_file)
            self.params |= results.get_best_config(device_name(target, device), problem_size)
        self.module: Module = build(problem.kernel(self.params), target=target)

    def __call__(self, *args: Any) -> list[Array]:
        """Run the kernel on copies, and return the outputs.

        Raises:
            TunerError: there are more or fewer arguments than before.
            KernelError: they have another shape or dtype.
        """
        if len(args) != self._count:
            raise TunerError(f"PythonKernel: expected {self._count} arguments, got {len(args)}")
        found = called(self.module, [*args, *self._rest], self._device)
        return [each for each, wanted in zip(found, self._outputs, strict=False) if wanted]

    def run_kernel(self, *args: Any) -> list[Array]:
        """Run the kernel on copies of arguments, or of a list of them, and return the outputs."""
        listed = len(args) == 1 and isinstance(args[0], list | tuple)
        return self(*(args[0] if listed else args))
