"""Hand-written kernels with knobs: the source front end.

A template returns a `SourceKernel`; `SourceKernel.kernel` renders it to a `Kernel` for one target.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2

from autotune.errors import KernelError
from autotune.kernel.kernel import (
    Argument,
    Constant,
    Kernel,
    KernelCall,
    Launch,
    Role,
    Scalar,
    Workspace,
)
from autotune.kernel.scalar import ScalarValue
from autotune.target import Language

Define = bool | int | float | str
Reference = Callable[..., Any]
Extent = int | Sequence[int]
# What ends a line that goes on in the next.
_JOINS_LINES = ("\\", "??/", "\n", "\r")


def arg(
    name: str,
    shape: Sequence[int],
    dtype: str = "float32",
    role: Role = "in",
    value: ScalarValue | None = None,
) -> Argument:
    """Describe one argument of a kernel: an array, or with shape () a number.

    A number that is read is passed by value: ``arg("n", (), "int32")`` belongs to ``int n``. One
    that is written (``role="out"``) is an array of one element, passed by its address.

    Args:
        name: the name used in messages and, for several kernels, in `call`.
        shape: positive extents.
        dtype: numpy name of the element type, or ``"bfloat16"``.
        role: ``"in"`` (read), ``"out"`` (written) or ``"inout"`` (read, then written; restored
            between timed runs).
        value: of a number, what it is while the kernel is tuned and verified; drawn at random if
            it is left out, 1 to 9 for integers.
    """
    extents = _shape(name, shape)
    if extents or role != "in":
        if value is not None:
            raise KernelError(
                f"argument {name!r}: only numbers (shape (), role 'in') take value=; arrays get "
                "theirs from ref_input of the runner"
            )
        return Argument(name, extents, dtype, role)
    return Scalar(name, dtype, value)


def constant(name: str, shape: Sequence[int], dtype: str = "float32") -> Constant:
    """Describe an array that is kept in constant memory.

    A caller passes it like any array; before the kernels run its values are copied to the
    variable of that name, ``__constant__ float mask[25];`` in CUDA text, ``float mask[25];`` in C.
    Kernels do not take it as a parameter.

    Args:
        name: of the variable.
        shape: positive extents; together as many elements as the variable has.
        dtype: of its elements.
    """
    return Constant(name, _shape(name, shape), dtype)


def workspace(
    name: str, shape: Sequence[int], dtype: str = "float32", zero: bool = False
) -> Workspace:
    """Describe a buffer between kernels of one function; ``zero`` clears it before each run."""
    return Workspace(name, _shape(name, shape), dtype, zero)


def call(
    entry: str,
    args: Sequence[str],
    grid: Extent = 1,
    block: Extent = 1,
    shared_bytes: int = 0,
) -> KernelCall:
    """Describe one kernel of a function that has several, run in the order given."""
    return KernelCall(entry, tuple(args), Launch(_extent3(grid), _extent3(block), shared_bytes))


def _shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(n) for n in shape)
    except TypeError as error:
        raise KernelError(
            f"argument {name!r}: shape must be a sequence of ints such as (1024,), got {shape!r}"
        ) from error


def _extent3(extent: Extent) -> tuple[int, int, int]:
    """Pad a launch extent to three dimensions."""
    try:
        extents = extent if isinstance(extent, Iterable) else (extent,)
        sizes = tuple(operator.index(n) for n in extents)
    except TypeError as error:
        raise KernelError(
            f"a launch extent is an int or up to three, got {extent!r}; divide with //"
        ) from error
    if not 1 <= len(sizes) <= 3:
        raise KernelError(f"a launch extent has 1 to 3 dimensions, got {extent!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _define_text(name: str, value: Define) -> str:
    """Return one ``#define`` line; booleans become 0 and 1, as the preprocessor has no others."""
    if not name.isidentifier():
        raise KernelError(f"defines: {name!r} is not a C identifier")
    if value is None:
        raise KernelError(f"defines: {name!r} is None; expected a number, a bool or text")
    text = str(int(value) if isinstance(value, bool) else value)
    # The preprocessor would take what follows a line break for further lines of the source.
    if len(text.splitlines()) > 1 or text.endswith(_JOINS_LINES):
        raise KernelError(f"defines: {name!r} must be one line of text, got {text!r}")
    return f"#define {name} {text}\n"


@dataclass(frozen=True)
class SourceKernel:
    """A hand-written kernel whose knobs arrive as ``#define``\\ s or Jinja2 variables.

    Args:
        name: entry point; needs C linkage (``extern "C"``) in CUDA sources.
        source: source text, a path to a file (`pathlib.Path` or a one-line string that ends in
            ``.cu``, ``.c``, ``.cpp``, ``.cuh`` or ``.j2``), or a `jinja2.Template`.
        args: what callers pass, in the order the entry takes them; see `arg` and `constant`.
        defines: knobs, written as ``#define`` lines in front and given to the Jinja2 template.
        grid, block: launch shape in blocks and threads; a C function needs none.
        shared_bytes: dynamic shared memory in bytes.
        reference: numpy in, numpy out: takes the read arguments in order (numbers as numpy's
            scalars), returns the written ones (one array or a tuple). Used to verify candidates.
        calls: instead of grid and block, when the function is made of several kernels; see `call`.
        workspace: buffers between those kernels; see `workspace`.
        flags: extra compiler flags.
        language: ``"cuda"`` or ``"c"``; by default what the target takes.
    """

    name: str
    source: str | PathLike[str] | jinja2.Template
    args: Sequence[Argument]
    defines: Mapping[str, Define] = field(default_factory=dict)
    grid: Extent = 1
    block: Extent = 1
    shared_bytes: int = 0
    reference: Reference | None = None
    calls: Sequence[KernelCall] = ()
    workspace: Sequence[Workspace] = ()
    flags: Sequence[str] = ()
    language: Language | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(one, Argument) for one in self.args):
            raise KernelError(
                f"kernel {self.name!r}: args must be a list of autotune.arg(name, shape, dtype), "
                f"got {self.args!r}"
            )
        if not isinstance(self.defines, Mapping):
            raise KernelError(
                f"kernel {self.name!r}: defines must be a dict such as {{'TILE': 8}}, "
                f"got {self.defines!r}"
            )
        if not isinstance(self.source, (str, PathLike, jinja2.Template)):
            raise KernelError(
                f"kernel {self.name!r}: source must be text, a path or a jinja2.Template, "
                f"got {self.source!r}"
            )

    def text(self) -> str:
        """Return the complete source text with the knobs in place.

        Lines are numbered as in the source, so that compilers name the user's own.

        Raises:
            KernelError: the file is missing, or the Jinja2 template uses an undefined variable.
        """
        defines = "".join(_define_text(k, v) for k, v in self.defines.items())
        return defines + "#line 1\n" * bool(defines) + self._body()

    def _body(self) -> str:
        source = self.source
        if isinstance(source, jinja2.Template):
            return _render(self.name, source, self.defines)
        if isinstance(source, str) and not _looks_like_path(source):
            return source
        path = Path(source)
        try:
            body = path.read_text("utf-8")
        except OSError as error:
            raise KernelError(
                f"kernel {self.name!r}: cannot read {path}: {error.strerror}"
            ) from error
        if path.suffix != ".j2":
            return body
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
        return _render(self.name, environment.from_string(body), self.defines)

    def kernel(self, language: Language) -> Kernel:
        """Render for a target that takes ``language``.

        Raises:
            KernelError: the source is written for the other language, or is ill-formed.
        """
        if self.language not in (None, language):
            raise KernelError(
                f"kernel {self.name!r} is written in {self.language!r}, "
                f"the target takes {language!r}"
            )
        passed = [a.name for a in self.args if not isinstance(a, Constant)]
        calls = tuple(self.calls) or (
            call(self.name, passed, self.grid, self.block, self.shared_bytes),
        )
        return Kernel(
            name=self.name,
            language=language,
            source=self.text(),
            args=tuple(self.args),
            calls=calls,
            workspace=tuple(self.workspace),
            flags=tuple(self.flags),
        )


def _looks_like_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".cu", ".c", ".cpp", ".cuh", ".j2"))


def _render(name: str, template: jinja2.Template, values: Mapping[str, Define]) -> str:
    try:
        return template.render(**values)
    except jinja2.TemplateError as error:
        raise KernelError(f"kernel {name!r}: the Jinja2 source failed: {error}") from error
