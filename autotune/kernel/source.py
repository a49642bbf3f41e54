"""Hand-written kernels with knobs: the source front end.

A template returns a `SourceKernel`; `SourceKernel.kernel` renders it to a `Kernel` for one target.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import KernelError
from autotune.kernel.checks import check_items, define_line, dtype_name, extent3, shape_of
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
from autotune.kernel.local_headers import header_flags
from autotune.kernel.scalar import ScalarValue
from autotune.kernel.thread_indices import check_launch_given
from autotune.kernel.unroll import with_factors
from autotune.target import Language
from autotune.target.backends import LANGUAGES, of_language
from autotune.utils.check import Check

# Processes that run kernels need not import it.
if TYPE_CHECKING:
    import jinja2

Define = bool | int | float | str
Reference = Callable[..., object]
Extent = int | Sequence[int]

_CXX_FLAGS = ("-x", "c++")
_ARG, _CONSTANT = Check(KernelError, "arg"), Check(KernelError, "constant")
_WORKSPACE = Check(KernelError, "workspace")


def arg(
    name: str,
    shape: Sequence[int],
    dtype: object = "float32",
    role: Role = "in",
    value: ScalarValue | None = None,
) -> Argument:
    """Describe one argument of a kernel: an array, or with shape () a number.

    A number that is read is passed by value: ``arg("n", (), "int32")`` belongs to ``int n``. One
    that is written (``role="out"``) is an array of one element, passed by its address.

    Args:
        name: the name used in messages and, for several kernels, in `call`.
        shape: positive extents.
        dtype: element type: its name in numpy, ``"bfloat16"``, or a dtype of numpy or torch.
        role: ``"in"`` (read), ``"out"`` (written) or ``"inout"`` (read, then written; restored
            between timed runs).
        value: of a number, what it is while the kernel is tuned and verified; drawn at random if
            it is left out, 1 to 9 for integers.
    """
    _ARG.text("name", name, "a")
    extents, element = shape_of(name, shape), dtype_name(dtype)
    if extents or role != "in":
        if value is not None:
            raise KernelError(
                f"argument {name!r}: only numbers (shape (), role 'in') take value=; arrays get "
                "theirs from ref_input of the runner"
            )
        try:
            return _argument(name, extents, element, role)
        except TypeError:  # not even hashable, so it is no dtype or no role: this says which
            return Argument(name, extents, element, role)
    return Scalar(name, element, value)


@lru_cache(maxsize=1024, typed=True)
def _argument(name: str, shape: tuple[int, ...], dtype: str, role: Role) -> Argument:
    """Return an argument, one for all trials of a workload: it is checked and hashed often."""
    return Argument(name, shape, dtype, role)


def constant(name: str, shape: Sequence[int], dtype: object = "float32") -> Constant:
    """Describe an array that is kept in constant memory.

    A caller passes it like any array; before the kernels run its values are copied to the
    variable of that name, ``__constant__ float mask[25];`` in CUDA text, ``float mask[25];`` in C.
    Kernels do not take it as a parameter.

    Args:
        name: of the variable.
        shape: positive extents; together as many elements as the variable has.
        dtype: of its elements, see `arg`.
    """
    _CONSTANT.text("name", name, "mask")
    return Constant(name, shape_of(name, shape), dtype_name(dtype))


def workspace(
    name: str, shape: Sequence[int], dtype: object = "float32", zero: bool = False
) -> Workspace:
    """Describe a buffer between kernels of one function, which no caller sees.

    Args:
        name: the name by which `call` passes it.
        shape: positive extents.
        dtype: of its elements, see `arg`.
        zero: whether it is cleared before each run.

    Raises:
        KernelError: the shape or the dtype is invalid.
    """
    _WORKSPACE.text("name", name, "partial")
    return Workspace(name, shape_of(name, shape), dtype_name(dtype), zero)


def call(
    entry: str,
    args: Sequence[str],
    grid: Extent | None = None,
    block: Extent | None = None,
    shared_bytes: int = 0,
    early: bool = False,
) -> KernelCall:
    """Describe one kernel of a function that has several, run in the order given.

    Args:
        entry: name of the kernel in the source.
        args: names of its parameters, in order: of arguments and of workspaces.
        grid: blocks, in one to three dimensions. It may be left out, as may ``block``, for a
            kernel that reads no index of its block (thread), of which one runs; and on a CPU.
        block: threads of a block, in one to three dimensions.
        shared_bytes: of dynamic shared memory.
        early: programmatic dependent launch: whether it may start while the kernel before it
            still runs, see `Launch`; the first of a function may not.

    Raises:
        KernelError: an argument is out of range, or not of its kind.

    Example::

        calls=[call("part", ["x", "sums"], 64, 256), call("total", ["sums", "y"], 1, 256)]
    """
    check = Check(KernelError, f"call({entry!r})")
    check.text("entry", entry, "gemm")
    names = check_items(check, "args", args, str, "a list of names of arguments")
    shared = check.whole("shared_bytes", shared_bytes, least=0)
    launch = Launch(
        extent3(check, "grid", 1 if grid is None else grid),
        extent3(check, "block", 1 if block is None else block),
        shared,
        check.flag("early", early),
    )
    return KernelCall(entry, tuple(names), launch, _omitted(grid, block))


def _omitted(grid: Extent | None, block: Extent | None) -> tuple[str, ...]:
    """Return the names of the parts of a launch that were left out."""
    return tuple([name for name, part in (("grid", grid), ("block", block)) if part is None])


@dataclass(frozen=True)
class SourceKernel:
    """A hand-written kernel whose knobs arrive as ``#define``\\ s or Jinja2 variables.

    Args:
        name: entry point; in CUDA sources it has C linkage (``extern "C"``), or is named as C++
            names it: ``"::gemm"``, or ``"gemm<float, 4>"`` for an instance of a template.
        source: source text, a path to a file (`pathlib.Path` or a one-line string that ends in
            ``.cu``, ``.c``, ``.cpp``, ``.cuh`` or ``.j2``), or a `jinja2.Template`. Headers that a
            file includes in quotes are looked up in its folder too. Texts for the CPU are C;
            those of ``.cpp`` files, and with the flags ``-x c++``, are C++.
        args: what callers pass, in the order of the entry's parameters; see `arg`, `constant`.
        defines: knobs, which become ``#define`` lines at the beginning of the source, or variables
            of the Jinja2 template. In ``#pragma unroll NAME`` they count too; 0 removes it.
        grid, block: launch shape in blocks and threads. A C function needs none, nor does a
            kernel for a single block (thread), which reads no index of it.
        shared_bytes: dynamic shared memory in bytes.
        reference: a function of numpy arrays, by which candidates are verified. It takes the
            arguments that the kernel reads, in order (numbers as numpy scalars), and returns those
            that it writes (one array or a tuple).
        calls: in place of grid and block, if the function consists of several kernels; see `call`.
        workspace: buffers between those kernels; see `workspace`.
        flags: extra compiler flags.
        language: ``"cuda"`` or ``"c"``; by default that of the target.
    """

    name: str
    source: str | PathLike[str] | jinja2.Template
    args: Sequence[Argument]
    defines: Mapping[str, Define] = field(default_factory=dict)
    grid: Extent | None = None
    block: Extent | None = None
    shared_bytes: int = 0
    reference: Reference | None = None
    calls: Sequence[KernelCall] = ()
    workspace: Sequence[Workspace] = ()
    flags: Sequence[str] = ()
    language: Language | None = None

    def __post_init__(self) -> None:
        check = Check(KernelError, f"kernel {self.name!r}")
        check.text("name", self.name, "gemm")
        args = "a list of autotune.arg(name, shape, dtype)"
        number = "; a number passed by value is arg(name, (), dtype, value=...)"
        check_items(check, "args", self.args, Argument, args, number)
        check.kind("defines", self.defines, (dict, Mapping), "a dict such as {'TILE': 8}")
        sources = "text, a path or a jinja2.Template"
        if not _is_template(self.source):
            check.kind("source", self.source, (str, PathLike), sources)
        if self.reference is not None:
            check.function("reference", self.reference, "arrays")
        check_items(check, "calls", self.calls, KernelCall, "a list of autotune.call(...)")
        if self.calls and self.calls[0].launch.early:
            check.refuse("calls", "a list whose first call is not early", self.calls)
        buffers = "a list of autotune.workspace(...)"
        check_items(check, "workspace", self.workspace, Workspace, buffers)
        self._check_launch()
        check_items(check, "flags", self.flags, str, "a list of texts such as ['-O3']")
        if self.language is not None:
            check.one_of("language", self.language, LANGUAGES)

    def _check_launch(self) -> None:
        """Refuse a launch beside `calls`, which would be ignored."""
        if not self.calls:
            return
        launch = {"grid": self.grid, "block": self.block, "shared_bytes": self.shared_bytes}
        own = [n for n, v in launch.items() if isinstance(v, Iterable) or v not in (None, 0, 1)]
        if own:
            raise KernelError(
                f"kernel {self.name!r}: with calls={', '.join(c.entry for c in self.calls)} each "
                f"call has a launch of its own, got {' and '.join(own)} too; give them to "
                "autotune.call(...)"
            )

    def __iter__(self) -> Iterator[object]:
        """Yield the kernel and its arguments, as ``s, args = ...`` takes a template's result.

        Scripts that replay a record build, or print, a schedule and tensors so; here both are of
        a kernel that has no schedule: ``build(s, args)``.
        """
        yield self
        yield list(self.args)

    def text(self) -> str:
        """Return the complete source text with the knobs in place.

        Lines are numbered as in the source, so that compilers name the user's own.

        Raises:
            KernelError: the file is missing, or the Jinja2 template uses an undefined variable.
        """
        return self._text(Check(KernelError, f"kernel {self.name!r}"))

    def _text(self, check: Check) -> str:
        lines = {name: define_line(check, name, value) for name, value in self.defines.items()}
        if not lines:
            return self._body()
        return "".join(lines.values()) + "#line 1\n" + with_factors(self._body(), lines)

    def _body(self) -> str:
        source = self.source
        if not isinstance(source, (str, PathLike)):
            return _render(self.name, source, self.defines)
        path = self._path()
        if path is None:
            return str(source)
        try:
            body = path.read_text("utf-8")
        except OSError as error:
            raise KernelError(
                f"kernel {self.name!r}: source must be text or a file, got {path}, "
                f"which cannot be read: {error.strerror}"
            ) from error
        return _render_file(self.name, path, body, self.defines) if path.suffix == ".j2" else body

    def _path(self) -> Path | None:
        """Return the path of the source, if that is a file."""
        if isinstance(self.source, str) and not _looks_like_path(self.source):
            return None
        return Path(self.source) if isinstance(self.source, (str, PathLike)) else None

    def kernel(self, language: Language) -> Kernel:
        """Render for a target that takes ``language``.

        Raises:
            KernelError: the source is written for the other language, or is ill-formed, or it
                reads an index of its block or thread and the launch does not say how many.
        """
        if self.language not in (None, language):
            raise KernelError(
                f"kernel {self.name!r} is written in language {self.language!r}, "
                f"the target takes {language!r}"
            )
        if all(one.role == "in" for one in self.args):
            named = ", ".join(one.name for one in self.args) or "none"
            raise KernelError(
                f"kernel {self.name!r}: one of args must be written (role 'out' or 'inout'), "
                f"got {named}, all with role 'in'"
            )
        check = Check(KernelError, f"kernel {self.name!r}")
        calls = list(self.calls) or [self._call(check)]
        source = self._text(check)
        if of_language(language).cxx:  # a C function is called once, whatever its launch
            for one in calls:
                check_launch_given(self.name, source, one)
        path = self._path()
        headers = header_flags(path, source) if path is not None else ()
        cxx = path is not None and _is_cxx(path) and not of_language(language).cxx
        return Kernel(
            name=self.name,
            language=language,
            source=source,
            args=tuple(self.args),
            calls=tuple([replace(one, omitted=()) if one.omitted else one for one in calls]),
            workspace=tuple(self.workspace),
            flags=(*(_CXX_FLAGS if cxx else ()), *headers, *self.flags),
        )

    def _call(self, check: Check) -> KernelCall:
        """Return the only call of a function that has one kernel."""
        names = tuple([a.name for a in self.args if not isinstance(a, Constant)])
        shared = check.whole("shared_bytes", self.shared_bytes, least=0)
        grid = extent3(check, "grid", 1 if self.grid is None else self.grid, 1)
        block = extent3(check, "block", 1 if self.block is None else self.block, 1)
        launch = Launch(grid, block, shared)
        return KernelCall(self.name, names, launch, _omitted(self.grid, self.block))


def _looks_like_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".cu", ".c", ".cpp", ".cuh", ".j2"))


def _is_cxx(path: Path) -> bool:
    """Return whether a file is named as those of C++, be it a template of Jinja2."""
    return path.name.removesuffix(".j2").endswith(".cpp")


def _is_template(source: object) -> bool:
    """Return whether a value is a Jinja2 template, without importing Jinja2."""
    loaded = sys.modules.get("jinja2")
    return loaded is not None and isinstance(source, loaded.Template)


def _render_file(name: str, path: Path, text: str, values: Mapping[str, Define]) -> str:
    """Render a file, which may include and extend templates beside it."""
    import jinja2

    beside = jinja2.FileSystemLoader(path.absolute().parent)
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, loader=beside)
    try:
        template = environment.from_string(text)
    except jinja2.TemplateError as error:
        raise _failed(name, error) from error
    return _render(name, template, values)


def _render(name: str, template: jinja2.Template, values: Mapping[str, Define]) -> str:
    try:
        return template.render(**values)
    except Exception as error:  # of its expressions, and of what it includes
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> KernelError:
    # Of most errors the text is no sentence: of what is divided, or only the name of a file.
    kind = "" if "Undefined" in type(error).__name__ else f"{type(error).__name__}: "
    return KernelError(f"kernel {name!r}: the Jinja2 source failed: {kind}{error}")
