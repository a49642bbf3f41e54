"""From the arguments of `tune_kernel` to a `SourceKernel`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError, KernelError
from autotune.kernel.kernel import Argument
from autotune.kernel.local_headers import header_flags
from autotune.kernel.prototype import prototype
from autotune.kernel.source import SourceKernel, arg, constant
from autotune.kernel_tuner.defines import CXX_FLAGS, is_cxx, macros_of, without_linkage
from autotune.kernel_tuner.foreign_arrays import in_numbers
from autotune.kernel_tuner.launch import LaunchRule, Params
from autotune.kernel_tuner.tunable import TunablePrecision
from autotune.target import Language
from autotune.target.backends import of_language
from autotune.utils.check import shown

Array = npt.NDArray[Any]
Given = Array | np.generic | TunablePrecision
Code = str | PathLike[str] | Callable[[Params], str]

_CUDA = ("CUDA", "CUPY", "NVCUDA", "PYCUDA")
# A text that is a path: one word, with an ending.
_PATH = re.compile(r"[^(){};<>\"\n]*\.\w+")
_OTHER_FILES = {
    ".cl": "OpenCL", ".opencl": "OpenCL", ".hip": "HIP", ".py": "Python", ".jl": "Julia",
    **dict.fromkeys((".f", ".f90", ".f95", ".f03"), "Fortran"),
}  # fmt: skip
_LANGUAGES = (
    "kernels are compiled from CUDA C++ and C; most in HIP are CUDA too, after a change of names"
)
# What launches kernels, or calls CUDA's runtime.
_HOST_CODE = re.compile(
    r"<<<[^<>;]*>>>\s*\(|\bcuda(?:Malloc|Memcpy|Free|Event|HostGet|Stream)\w*\s*\("
)


@dataclass(frozen=True)
class Problem:
    """A kernel with what it is launched on.

    Attributes:
        name: of the kernel, as Kernel Tuner takes it.
        code: source text, the path of a file, or a function of the parameters that writes it.
        rule: how a launch follows from the parameters.
        arguments: arrays and numbers of numpy, in the order of the kernel's parameters; some may
            be of a type that follows from the parameters.
        constants: arrays in constant memory, by the names of their variables.
        flags: of the compiler.
        language: what the kernel is written in.
        defines: what is defined; None for all parameters and the grid.
    """

    name: str
    code: Code
    rule: LaunchRule
    arguments: Sequence[Given]
    constants: Mapping[str, Array] = field(default_factory=dict)
    flags: Sequence[str] = ()
    language: Language = "cuda"
    defines: Mapping[str, object] | None = None

    def values(self, params: Params | None = None) -> list[Array]:
        """Return the values of all arguments, in the order of the kernel.

        Args:
            params: those of a configuration, for values of the types that it takes.
        """
        given = [_plain_value(each, params) for each in self.arguments]
        return [*given, *(np.asarray(each) for each in self.constants.values())]

    def text(self, params: Params) -> str:
        """Return the source text for these parameters, without their definitions."""
        if isinstance(self.code, str | PathLike):
            return read_code(self.code)
        found = self.code(dict(params))
        if not isinstance(found, str):
            raise KernelError(f"kernel_source: expected a text from it, got {shown(found)}")
        return found

    def kernel(self, params: Params, written: Sequence[bool] | None = None) -> SourceKernel:
        """Return the kernel of one configuration.

        Args:
            params: the value of each parameter.
            written: whether each argument may be written; by default what the prototype says.
        """
        source = self.text(params)
        entry = self._entry(source, params)
        grid, block = self.rule.grid(params), self.rule.block(params)
        sizes = {f"grid_size_{axis}": n for axis, n in zip("xyz", grid, strict=True)}
        roles = written or self._written(source, entry)
        given = [_selected(each, params) for each in self.arguments]
        args = [_argument(i, each, roles[i]) for i, each in enumerate(given)]
        args += [constant(n, np.shape(a), a.dtype.name) for n, a in self.constants.items()]
        on_gpu = of_language(self.language).on_gpu
        cxx = not on_gpu and is_cxx(source)
        threads = dict(zip(self.rule.names, block, strict=True))
        macros = {**(threads if on_gpu else {}), **_plain(params), **(sizes if on_gpu else {})}
        if self.defines is not None:
            macros = macros_of(self.defines, _plain(params))
        return SourceKernel(
            entry,
            source=f"\n{source if on_gpu or cxx else without_linkage(source)}",
            args=args,
            defines={"kernel_tuner": 1, **macros},
            grid=grid if on_gpu else 1,
            block=block if on_gpu else 1,
            shared_bytes=self.rule.shared_bytes(params),
            flags=[*(CXX_FLAGS if cxx else ()), *self._header_flags(source), *self.flags],
            language=self.language,
        )

    def _header_flags(self, source: str) -> tuple[str, ...]:
        """Return the flags by which compilers find headers beside the file of the kernel."""
        path = path_of(self.code) if isinstance(self.code, str | PathLike) else None
        return header_flags(path, source) if path is not None else ()

    def _entry(self, source: str, params: Params) -> str:
        """Return the entry as `SourceKernel` names it."""
        name = self.name
        if "<" in name:  # an instance of a template, whose arguments may be parameters
            head, _, rest = name.partition("<")
            for parameter, value in _plain(params).items():
                rest = re.sub(rf"\b{re.escape(parameter)}\b", str(value), rest)
            return f"{head}<{rest}"
        if not of_language(self.language).on_gpu or "::" in name:
            return name
        linked = re.search(rf'extern\s+"C"[^;}}]*?\b{re.escape(name)}\s*\(', source)
        return name if linked else f"::{name}"

    def _written(self, source: str, entry: str) -> list[bool]:
        """Return which arguments may be written: what no pointer to constants is given for."""
        arrays = [isinstance(_held(each), np.ndarray) for each in self.arguments]
        try:
            found = prototype(source, entry.removeprefix("::"))
        except AutotuneError:
            found = None
        if found is None or len(found) != len(arrays):
            return arrays
        fixed = ["const" in re.findall(r"\w+", each.text.split("*")[0]) for each in found]
        roles = [array and not f for array, f in zip(arrays, fixed, strict=True)]
        return roles if any(roles) else arrays


def _held(value: Given) -> Array | np.generic:
    """Return the numbers of an argument as they were given."""
    return value.array if isinstance(value, TunablePrecision) else value


def _selected(value: Given, params: Params) -> Array | np.generic:
    return value.select(params) if isinstance(value, TunablePrecision) else value


def _plain_value(value: Given, params: Params | None) -> Array:
    return np.asarray(_held(value) if params is None else _selected(value, params))


def _argument(place: int, value: Array | np.generic, written: bool) -> Argument:
    name = f"arg{place}"
    if isinstance(value, np.ndarray):
        return arg(name, value.shape, value.dtype.name, "inout" if written else "in")
    return arg(name, (), value.dtype.name, value=value.item())


def check_arguments(arguments: Sequence[object]) -> list[Given]:
    """Return arguments of a kernel, which are arrays and numbers of numpy.

    Raises:
        KernelError: one is something else, whose type in C nothing says.
    """
    found: list[Given] = []
    for place, value in enumerate(map(in_numbers, arguments)):
        if not isinstance(value, np.ndarray | np.generic | TunablePrecision):
            raise KernelError(
                f"arguments[{place}]: expected an array of numpy, PyTorch or CuPy, or a number "
                f"such as numpy.int32(n), got {shown(value)}"
            )
        found.append(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
    return found


def _plain(params: Params) -> dict[str, Any]:
    """Return parameters as values of Python."""
    return {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}


def read_code(code: str | PathLike[str]) -> str:
    """Return a source text, which may be given as the path of a file.

    Raises:
        KernelError: the file cannot be read, or is in another language.
    """
    path = path_of(code)
    if path is None:
        return str(code)
    if other := _OTHER_FILES.get(path.suffix.lower()):
        raise KernelError(f"kernel_source: {code} is in {other}: {_LANGUAGES}")
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise KernelError(f"kernel_source: cannot read {code}: {error.strerror}") from error


def path_of(code: str | PathLike[str]) -> Path | None:
    """Return the path of a source that is given as one; None of a text."""
    return None if isinstance(code, str) and not _PATH.fullmatch(code.strip()) else Path(code)


def code_of(source: object) -> Code:
    """Return a source as it can be kept: of several files the first, which includes the others."""
    first = source[0] if isinstance(source, list | tuple) and source else source
    if isinstance(first, str | PathLike) or callable(first):
        return first
    raise KernelError(
        f"kernel_source: expected a text, a path, or a function of the parameters, got "
        f"{shown(source)}"
    )


def language_of(lang: object, code: Code) -> Language:
    """Return the language of a kernel.

    Raises:
        KernelError: it is none of CUDA and C.
    """
    text = "" if callable(code) else read_code(code)
    if lang is None:
        if "__kernel" in text or "get_global_id" in text:
            lang = "OpenCL"
        else:
            lang = "C" if text and "__global__" not in text else "CUDA"
    upper = str(lang).upper()
    if upper in _CUDA:
        return "cuda"
    if upper == "C":
        if _HOST_CODE.search(text):
            raise KernelError(
                "lang='C': this is code of the host that launches CUDA kernels, which is not "
                "tuned here: tune a kernel by itself (lang='CUDA'), whose launch follows from its "
                "parameters"
            )
        return "c"
    raise KernelError(f"lang: expected CUDA or C, got {lang!r}: {_LANGUAGES}")
