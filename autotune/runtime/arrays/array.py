"""Arrays on a device, in TVM's manner, shared with other libraries by DLPack."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autotune.errors import KernelError
from autotune.kernel.kernel import ITEM_BYTES, item_bytes, unknown_dtype
from autotune.runtime.arrays import dlpack
from autotune.runtime.arrays.memory import Block, memory_of
from autotune.runtime.device import Device, cpu
from autotune.utils.check import Check

HostArray = npt.NDArray[Any]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of one of our dtype names.

    Raises:
        KernelError: the name is unknown.
    """
    item_bytes(name)
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


_NAMES = {numpy_dtype(name): name for name in ITEM_BYTES}


# TVM's names without a width stand for 32 bits; numpy's "float" is one of 64.
_SHORT_NAMES = {"float": "float32", "int": "int32", "uint": "uint32"}


def dtype_name(dtype: npt.DTypeLike) -> str:
    """Return our name of a numpy dtype.

    Raises:
        KernelError: kernels have no such element type.
    """
    if isinstance(dtype, str):
        dtype = _SHORT_NAMES.get(dtype, dtype)
        if dtype in ITEM_BYTES:
            return dtype
    try:
        return _NAMES[np.dtype(dtype)]
    except (TypeError, KeyError):
        raise KernelError(unknown_dtype(str(dtype))) from None


T = TypeVar("T")
_MOST_SHARED = 4096
_known: dict[object, object] = {}


def _shared(value: T) -> T:
    """Return the first of all equal values that were asked for of late."""
    if len(_known) >= _MOST_SHARED:
        _known.clear()
    return cast(T, _known.setdefault((type(value), value), value))


class NDArray:
    """A dense row-major array in the memory of one device.

    Made by `array`, `empty` and `from_dlpack`. Reading its values (`numpy`) copies them to the
    host; writing (`copyfrom`) copies them to the device; `__dlpack__` lends the memory itself.

    Attributes:
        device: where it lives.
        shape: its extents.
        dtype: its element type as a string, such as ``"float32"``.
    """

    # The launcher of calls reads these at their offsets.
    __slots__ = ("_address", "_block", "device", "dtype", "shape")

    def __init__(self, device: Device, shape: Sequence[int], dtype: str, block: Block) -> None:
        # Arrays of one shape share what says so: calls compare it by identity.
        self.device = _shared(device)
        self.shape = _shared(tuple(shape))
        self.dtype = sys.intern(str(dtype))
        self._block = block
        self._address = block.pointer

    @property
    def ctx(self) -> Device:
        """The device, by the name TVM used until 0.8."""
        return self.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes."""
        return self.size * ITEM_BYTES[self.dtype]

    @property
    def pointer(self) -> int:
        """Address of the first element on the device."""
        return self._address

    @property
    def block(self) -> Block:
        """The memory, which lives as long as this is held."""
        return self._block

    def numpy(self) -> HostArray:
        """Return a copy of the values as a numpy array."""
        result = np.empty(self.shape, numpy_dtype(self.dtype))
        memory_of(self.device).to_host(self.device, result.ctypes.data, self.pointer, self.nbytes)
        return result

    def asnumpy(self) -> HostArray:
        """Return `numpy`, by the name TVM used until 0.8."""
        return self.numpy()

    def __setitem__(self, index: object, source: object) -> None:
        """Overwrite all values, as `copyfrom` does: ``array[:] = values``.

        Raises:
            KernelError: a part is named, or the shapes differ.
        """
        if not isinstance(index, slice) or index != slice(None):
            Check(KernelError, "array[...] =").refuse("index", "[:], the whole array", index)
        self.copyfrom(source)

    def copyfrom(self, source: object) -> NDArray:
        """Overwrite the values with those of an array of any kind; returns itself.

        To a bfloat16 array uint16 values are the bits of numbers, as they are in TVM.

        Raises:
            KernelError: the shapes differ.
        """
        if isinstance(source, NDArray) and source.dtype == self.dtype:
            self._check_shape(source.shape)
            return self._copy_device(source)
        check, expected = Check(KernelError, "copyfrom"), "an array or nested lists of numbers"
        try:
            values = source.numpy() if isinstance(source, NDArray) else np.asarray(source)
        except (TypeError, ValueError):
            check.refuse("source", expected, source)
        if values.dtype.kind in "OUSMmc":
            check.refuse("source", expected, source)
        self._check_shape(values.shape)
        if self.dtype == "bfloat16" and values.dtype == np.uint16:
            values = values.view(ml_dtypes.bfloat16)
        values = np.ascontiguousarray(values, numpy_dtype(self.dtype))
        memory_of(self.device).from_host(
            self.device, self.pointer, values.ctypes.data, self.nbytes
        )
        return self

    def _copy_device(self, source: NDArray) -> NDArray:
        if source.device == self.device:
            memory_of(self.device).copy(self.device, self.pointer, source.pointer, self.nbytes)
        elif source.device.kind == "cpu":
            memory_of(self.device).from_host(
                self.device, self.pointer, source.pointer, self.nbytes
            )
        elif self.device.kind == "cpu":
            memory_of(source.device).to_host(
                source.device, self.pointer, source.pointer, self.nbytes
            )
        else:
            return self.copyfrom(source.numpy())
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy to an array, or to a new array on a device; returns that array.

        Raises:
            KernelError: it is neither, or the shapes differ.
        """
        expected = "an array or a device, such as autotune.cpu()"
        Check(KernelError, "copyto").kind("target", target, (NDArray, Device), expected)
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target)
        return target.copyfrom(self)

    def fill_bytes(self, byte: int) -> None:
        """Set every byte of the values, to one of 0 to 255."""
        Check(KernelError, "fill_bytes").whole("byte", byte, least=0, most=255)
        memory_of(self.device).fill(self.device, self.pointer, byte, self.nbytes)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if tuple(shape) != self.shape:
            raise KernelError(f"copyfrom: values must have shape {self.shape}, got {shape}")

    def to_dlpack(self) -> object:
        """Return a capsule that lends the memory, for libraries that do not ask by themselves."""
        return self.__dlpack__()

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Lend the memory to another library, when what runs on the device has ended.

        Args:
            stream: of the borrower; -1 asks not to wait.
            max_version: the newest version of DLPack that the borrower reads.
            dl_device: DLPack's numbers of the device where the values are wanted: this one, by
                default, or the CPU, to which they are copied from any other.
            copy: whether to lend a copy: True, False for never, or where one is needed.

        Raises:
            BufferError: this would take a copy that is not allowed, or another device.
        """
        own = self.__dlpack_device__()
        where = own if dl_device is None else tuple(map(int, dl_device))
        copied = bool(copy) or where != own
        source = self
        if copied:
            target = self.device if where == own else cpu()
            if copy is False or where not in (own, (target.device_type, target.index)):
                raise BufferError(
                    f"__dlpack__ of an array on {self.device}: expected dl_device {own} or, with "
                    f"copy allowed, {(cpu().device_type, 0)}; got {where} and copy={copy}"
                )
            source = self.copyto(target)
        elif stream != -1:
            self.device.sync()
        return dlpack.export(
            source,
            source.pointer,
            source.shape,
            source.dtype,
            source.device,
            versioned=max_version is not None and max_version[0] >= 1,
            copied=copied,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's numbers of the device."""
        return self.device.device_type, self.device.index

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        """Return the values for ``numpy.asarray``; always a copy."""
        if copy is False:
            raise ValueError(
                "an NDArray's values are copied; numpy.from_dlpack shares them on a CPU"
            )
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __len__(self) -> int:
        """Return the first extent."""
        return self.shape[0]

    def __repr__(self) -> str:
        return f"NDArray(shape={self.shape}, dtype={self.dtype!r}, device={self.device})\n" + repr(
            self.numpy()
        )


def empty(
    shape: Sequence[int] | int,
    dtype: npt.DTypeLike = "float32",
    device: Device | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """Return an array whose values are whatever the memory held.

    Args:
        shape: its extents.
        dtype: its element type.
        device: where; the CPU by default. ``ctx`` is the same by TVM's old name.
    """
    where = _where("runtime.empty", device, ctx)
    check = Check(KernelError, "runtime.empty")
    given = (shape,) if isinstance(shape, int) else shape
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        check.refuse("shape", "a tuple of extents such as (2, 3)", shape)
    extents = tuple(check.whole("shape", _whole(n), least=0) for n in given)
    name = dtype_name(dtype)
    size = prod(extents) * item_bytes(name)
    return NDArray(where, extents, name, memory_of(where).allocate(where, size))


def array(source: object, device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """Return a new array with the values of ``source``, on a device (the CPU by default).

    Args:
        source: a numpy array, an `NDArray`, a list, or anything numpy can read.
        device: where; ``ctx`` is the same by TVM's old name.
    """
    where = _where("runtime.array", device, ctx)
    values = source if isinstance(source, NDArray) else _values("runtime.array", source)
    return empty(values.shape, dtype_name(values.dtype), where).copyfrom(values)


def _whole(extent: object) -> object:
    """Return a constant expression or a float without a fraction as an int."""
    plain = getattr(extent, "value", extent)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _where(owner: str, device: Device | None, ctx: Device | None) -> Device:
    """Return the device that is meant; the CPU where none is given."""
    chosen = ctx if device is None else device
    if chosen is not None:
        expected = "a device such as autotune.cpu() or autotune.cuda(0)"
        Check(KernelError, owner).kind("device", chosen, Device, expected)
    return chosen or cpu()


def _values(owner: str, source: object) -> HostArray:
    """Return anything numpy can read as an array of an element type that kernels have.

    Raises:
        KernelError: the value is not an array of numbers.
    """
    check, expected = Check(KernelError, owner), "an array or nested lists of numbers"
    try:
        values = np.asarray(source)
    except (TypeError, ValueError):
        check.refuse("source", expected, source)
    if values.dtype.kind in "OUSMm":
        check.refuse("source", expected, source)
    if values.dtype not in _NAMES:
        dtypes = ", ".join(ITEM_BYTES)
        check.refuse("source", f"of a known dtype ({dtypes})", values.dtype)
    return values


def from_dlpack(source: object, stream: int = 0) -> NDArray:
    """Return an array that shares the memory of an array of another library.

    Args:
        source: anything with ``__dlpack__`` (torch, numpy, cupy, jax), or a DLPack capsule.
        stream: handle of the CUDA stream on which it will be used; the default stream.

    Raises:
        KernelError: its memory is not dense row-major, or of an unknown dtype or device.
    """
    device, shape, dtype, block = dlpack.adopt(source, stream)
    return NDArray(device, shape, dtype, block)
