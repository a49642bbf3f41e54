"""The kernel: the one thing that lowering produces and that building, running and replay consume.

A `Kernel` is plain frozen data - text, numbers and strings - so it crosses a process border as it
is, hashes, and prints. Nothing after this point knows whether it was written by hand or generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

from autotune.errors import KernelError
from autotune.kernel.entry import check_entry
from autotune.kernel.scalar import ScalarValue, scalar_value
from autotune.kernel.sizes import Size, Sizes, evaluate
from autotune.target import Language
from autotune.target.backends import of_language
from autotune.utils.frozen import remade

Role = Literal["in", "out", "inout"]

ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


def item_bytes(dtype: str) -> int:
    """Return the size of one element of ``dtype`` in bytes; raise `KernelError` if unknown."""
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise KernelError(unknown_dtype(dtype))
    return ITEM_BYTES[dtype]


# The dtype of the two parts of a complex number.
_PARTS = {"complex64": "float32", "complex128": "float64"}


def unknown_dtype(dtype: object) -> str:
    """Return the message about a dtype that no array of a kernel has."""
    said = f"dtype {dtype!r} is unknown; expected one of {', '.join(ITEM_BYTES)}"
    if (part := _PARTS.get(str(dtype))) is not None:
        return (
            f"{said}; complex numbers are pairs in a last axis of 2: declare {part} of shape "
            f"(..., 2), and pass x.view({part!r}).reshape(*x.shape, 2)"
        )
    if str(dtype).startswith((">", "<")):
        return f"{said}; for another order of bytes pass x.astype(x.dtype.newbyteorder('='))"
    return said


def _check_buffer(kind: str, name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Refuse a shape or dtype that no buffer has; the message names the buffer."""
    if not all(isinstance(n, int) and n > 0 for n in shape):
        raise KernelError(f"{kind} {name!r}: shape must be positive ints, got {shape}")
    try:
        item_bytes(dtype)
    except KernelError as error:
        raise KernelError(f"{kind} {name!r}: {error}") from error


# Indices of kernels are 32-bit integers where sizes are.
MOST_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class Argument:
    """One array argument of a function: its name, shape, dtype and who reads or writes it.

    Entries take its address. Its subclasses are handed over in other ways.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role = "in"

    def __post_init__(self) -> None:
        _check_buffer("argument", self.name, self.shape, self.dtype)
        if self.role not in ("in", "out", "inout"):
            raise KernelError(
                f"argument {self.name!r}: role must be 'in', 'out' or 'inout', got {self.role!r}"
            )

    @property
    def bytes(self) -> int:
        """Size of the whole array in bytes."""
        return prod(self.shape) * item_bytes(self.dtype)


@dataclass(frozen=True)
class Scalar(Argument):
    """A number that a caller passes and entries take by value.

    Wherever values of arguments are kept, that of a scalar is an array of shape () in host memory.

    Attributes:
        value: what it is while the function is tuned; drawn like the values of arrays if None.
    """

    shape: tuple[int, ...] = field(default=(), init=False)
    dtype: str = "int32"
    role: Role = field(default="in", init=False)
    value: ScalarValue | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value is not None:
            fitting = scalar_value(f"argument {self.name!r}: value", self.dtype, self.value)
            if fitting != fitting:  # kernels are compared, and NaN equals nothing
                raise KernelError(f"argument {self.name!r}: value: expected a number, got nan")
            object.__setattr__(self, "value", fitting)


@dataclass(frozen=True)
class Constant(Argument):
    """An array that a caller passes, and that entries read from a variable of the source.

    The variable has the same name: ``__constant__`` memory of a CUDA kernel, or a global array of
    a C kernel. It is filled before the kernels run, and is not a parameter of theirs.
    """

    role: Role = field(default="in", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name.isidentifier():
            raise KernelError(f"constant {self.name!r}: expected the name of a variable of C")


@dataclass(frozen=True)
class Workspace:
    """A device buffer that lives between the kernels of one function (split-K needs one).

    With ``zero`` it is cleared before every run of the function; otherwise it holds garbage.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    zero: bool = False

    def __post_init__(self) -> None:
        _check_buffer("workspace", self.name, self.shape, self.dtype)
        if not isinstance(self.zero, bool):
            raise KernelError(
                f"workspace {self.name!r}: zero must be True or False, got {self.zero!r}"
            )

    @property
    def bytes(self) -> int:
        """Size of the whole buffer in bytes."""
        return prod(self.shape) * item_bytes(self.dtype)


@dataclass(frozen=True)
class Launch:
    """The launch shape of a CUDA kernel: blocks, threads, and dynamic shared memory in bytes.

    A C function ignores it.

    Attributes:
        early: whether the kernel may begin while the one before it still runs, as "programmatic
            dependent launch" has it (CUDA C++ Programming Guide). Its text waits, by
            ``griddepcontrol.wait``, before it reads or writes what that one does. Of the first
            kernel of a function that one is of another function.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    early: bool = False

    @property
    def threads(self) -> int:
        """Threads per block."""
        return prod(self.block)


@dataclass(frozen=True)
class KernelCall:
    """One entry of the source called with arguments and workspaces, by name and in order.

    Attributes:
        omitted: what of the launch its author left out: ``"grid"``, ``"block"``. A `Kernel`, where
            that is 1, has none.
    """

    entry: str
    args: tuple[str, ...]
    launch: Launch = field(default_factory=Launch)
    omitted: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Kernel:
    """A function made of one or more kernels, ready to be compiled.

    Attributes:
        name: name of the function for its users.
        language: ``"cuda"`` or ``"c"``.
        source: complete text, with all knobs filled in. Entries have C linkage (``extern "C"``),
            or are named as instances of C++ templates (``gemm<float, 4>``).
        args: what a caller passes, in order: arrays, scalars and constants.
        calls: the kernels to run, in order, on one stream.
        workspace: buffers that the runtime provides.
        flags: extra compiler flags, part of the cache key.
        kernel_hash: hash for the records of its trials, see `autotune.driver.kernel_hash`; may be
            empty.
        sizes: the extents that are known only when the function is called; None if all are known.
    """

    name: str
    language: Language
    source: str
    args: tuple[Argument, ...]
    calls: tuple[KernelCall, ...]
    workspace: tuple[Workspace, ...] = ()
    flags: tuple[str, ...] = ()
    kernel_hash: str = field(default="", compare=False)
    sizes: Sizes | None = None

    def hashed(self, kernel_hash: str) -> Kernel:
        """Return this kernel, which was checked before, with a hash."""
        return remade(Kernel, {**self.__dict__, "kernel_hash": kernel_hash})

    def __reduce__(self) -> tuple[object, ...]:
        """Return the kernel with its parts as plain data.

        Each trial sends it to two processes; to pickle a class takes longer than what it holds.
        """
        args = [one.__dict__ if type(one) is Argument else one for one in self.args]
        calls = [(one.entry, one.args, one.launch.__dict__) for one in self.calls]
        buffers = [one.__dict__ for one in self.workspace]
        return _whole, ({**self.__dict__, "args": args, "calls": calls, "workspace": buffers},)

    def __post_init__(self) -> None:
        known = self._known()
        if len(known) < len(self.args) + len(self.workspace):
            names = [a.name for a in self.args] + [w.name for w in self.workspace]
            twice = sorted({n for n in names if names.count(n) > 1})
            raise KernelError(
                f"kernel {self.name!r}: argument names used twice: {', '.join(twice)}"
            )
        if not self.calls:
            raise KernelError(f"kernel {self.name!r}: no entry to call")
        templates = of_language(self.language).cxx
        for one in self.calls:
            check_entry(self.name, one.entry, templates)
            unknown = [n for n in one.args if n not in known]
            if unknown:
                raise KernelError(
                    f"kernel {self.name!r}: entry {one.entry!r} takes {', '.join(unknown)}, "
                    f"but the function has only {', '.join(known)}"
                )
        self._check_kinds(known)

    def _check_kinds(self, known: Mapping[str, Argument | Workspace]) -> None:
        """Refuse constants as parameters, and an entry that is called in two ways."""
        kinds: dict[str, tuple[str | None, ...]] = {}
        for one in self.calls:
            taken = [known[name] for name in one.args]
            wrong = [a.name for a in taken if isinstance(a, Constant)]
            if wrong:
                raise KernelError(
                    f"kernel {self.name!r}: entry {one.entry!r} takes the constant {wrong[0]!r}; "
                    "kernels find constants in a variable of that name, leave it out of the call"
                )
            found = tuple([a.dtype if isinstance(a, Scalar) else None for a in taken])
            if kinds.setdefault(one.entry, found) != found:
                raise KernelError(
                    f"kernel {self.name!r}: entry {one.entry!r} is called twice with arguments of "
                    "other kinds; scalars must stand in the same places"
                )

    def at(self, values: Mapping[str, int]) -> Kernel:
        """Return the kernel with its sizes put in; itself if it has none.

        Raises:
            KernelError: an extent is less than 1, or an array has too many elements.
        """
        sizes = self.sizes
        if sizes is None:
            return self
        pairs = zip(self.args, sizes.args, strict=True)
        spaces = zip(self.workspace, sizes.workspace, strict=True)
        calls = zip(self.calls, sizes.grids, strict=True)
        return replace(
            self,
            args=tuple([_argument_at(self.name, one, shape, values) for one, shape in pairs]),
            workspace=tuple(
                [
                    replace(one, shape=_extents(self.name, one.name, shape, values))
                    for one, shape in spaces
                ]
            ),
            calls=tuple([_launched(one, grid, values) for one, grid in calls]),
            sizes=None,
        )

    def parameters(self, one: KernelCall) -> tuple[Argument | Workspace, ...]:
        """Return the arguments that one of the calls passes, in order."""
        known = self._known()
        return tuple([known[name] for name in one.args])

    def _known(self) -> dict[str, Argument | Workspace]:
        """Return arguments and workspaces by their names."""
        known: dict[str, Argument | Workspace] = {one.name: one for one in self.args}
        known.update([(one.name, one) for one in self.workspace])
        return known

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Arguments that entries find in variables of the source."""
        return tuple(a for a in self.args if isinstance(a, Constant))

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Arguments whose values are read."""
        return tuple(a for a in self.args if a.role != "out")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Arguments whose values are written."""
        return tuple(a for a in self.args if a.role != "in")


def _whole(plain: dict[str, Any]) -> Kernel:
    """Return the kernel that `Kernel.__reduce__` took apart."""
    args = [remade(Argument, one) if isinstance(one, dict) else one for one in plain["args"]]
    plain["args"] = tuple(args)
    calls = [KernelCall(entry, names, remade(Launch, own)) for entry, names, own in plain["calls"]]
    plain["calls"] = tuple(calls)
    plain["workspace"] = tuple([remade(Workspace, own) for own in plain["workspace"]])
    return remade(Kernel, plain)


def _argument_at(
    kernel: str, one: Argument, shape: tuple[Size, ...], values: Mapping[str, int]
) -> Argument:
    """Return an argument for given sizes: an array with its shape, or a size with its value."""
    if shape:
        return replace(one, shape=_extents(kernel, one.name, shape, values))
    if isinstance(one, Scalar) and one.name in values:
        return replace(one, value=values[one.name])
    return one


def _extents(
    kernel: str, name: str, shape: tuple[Size, ...], values: Mapping[str, int]
) -> tuple[int, ...]:
    """Return the shape that an array has with these sizes."""
    extents = tuple([evaluate(size, values) for size in shape])
    if min(extents, default=1) < 1 or prod(extents) > MOST_ELEMENTS:
        known = ", ".join(f"{size} = {value}" for size, value in values.items())
        raise KernelError(
            f"{kernel}: {name!r} would have the shape {extents} with {known}; expected "
            f"extents of at least 1, and at most {MOST_ELEMENTS} elements"
        )
    return extents


def _launched(
    one: KernelCall, grid: tuple[Size, Size, Size], values: Mapping[str, int]
) -> KernelCall:
    x, y, z = (evaluate(size, values) for size in grid)
    return replace(one, launch=replace(one.launch, grid=(x, y, z)))
