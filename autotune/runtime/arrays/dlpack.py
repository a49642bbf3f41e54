"""DLPack capsules, exported and imported with ctypes.

The layouts are those of dlpack.h. Memory is exported versioned to consumers that ask for it (numpy
allows writing only to such memory), and unversioned to all others; it is imported unversioned.
numpy's own functions support neither CUDA nor bfloat16, so one path serves all.
"""

from __future__ import annotations

import ctypes
import weakref
from math import prod
from typing import Any

from autotune.errors import KernelError
from autotune.kernel.kernel import ITEM_BYTES
from autotune.runtime.arrays.lender import hold, lender
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import DEVICE_TYPES, Device


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [
    ("dl_tensor", _DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
]


class _DLManagedTensorVersioned(ctypes.Structure):
    pass


_VersionedDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensorVersioned))
_DLManagedTensorVersioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _VersionedDeleter),
    ("flags", ctypes.c_uint64),
    ("dl_tensor", _DLTensor),
]

CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
# Pinned host memory and managed memory are as good as host and device memory.
_CUDA_HOST, _CUDA_MANAGED = 3, 13
_ON_CPU = (DEVICE_TYPES["cpu"], _CUDA_HOST)
_ON_CUDA = (DEVICE_TYPES["cuda"], _CUDA_MANAGED)
# CUDA's legacy default stream in DLPack's numbering; our kernels run after what is queued there.
_LEGACY_STREAM = 1
# DLPACK_FLAG_BITMASK_IS_COPIED.
_IS_COPIED = 2
_FRESH, _USED, _VERSIONED = b"dltensor", b"used_dltensor", b"dltensor_versioned"

_api = ctypes.pythonapi
_new_capsule = _api.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)


def export(
    owner: object,
    pointer: int,
    shape: tuple[int, ...],
    dtype: str,
    device: Device,
    versioned: bool = False,
    copied: bool = False,
) -> object:
    """Return a capsule that lends ``pointer``; ``owner`` lives until it is given back.

    Whether the memory is a copy, which nothing else reads, is said to versioned consumers.
    """
    functions = lender()
    if versioned:
        managed: Any = _DLManagedTensorVersioned(major=1, flags=_IS_COPIED if copied else 0)
        managed.deleter = _VersionedDeleter(functions.give_back_versioned)
    else:
        managed = _DLManagedTensor()
        managed.deleter = _Deleter(functions.give_back)
    extents = (ctypes.c_int64 * len(shape))(*shape)
    # numpy refuses absent strides together with zero dimensions; dense ones suit everybody.
    steps = (ctypes.c_int64 * len(shape))(*_dense_strides(shape))
    tensor = managed.dl_tensor
    tensor.data = pointer
    tensor.device = _DLDevice(device.device_type, device.index)
    tensor.ndim = len(shape)
    tensor.dtype = _DLDataType(CODES[dtype.rstrip("0123456789")], ITEM_BYTES[dtype] * 8, 1)
    tensor.shape, tensor.strides = extents, steps
    managed.manager_ctx = hold((managed, extents, steps, owner))
    name = _VERSIONED if versioned else _FRESH
    return _new_capsule(ctypes.addressof(managed), name, functions.drop_capsule)


def adopt(
    source: object, stream: int = _LEGACY_STREAM
) -> tuple[Device, tuple[int, ...], str, Block]:
    """Take the memory of another library's array: its device, shape, dtype and bytes.

    Work that the library has queued on the array precedes work that is put on ``stream`` later.

    Raises:
        KernelError: the array cannot be used in place; the message says why.
    """
    capsule, address, tensor = _shown(source, stream)
    device, shape, dtype = _device(tensor), tuple(tensor.shape[: tensor.ndim]), _dtype(tensor)
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    if strides is not None and not _is_dense(shape, strides):
        raise KernelError(
            f"from_dlpack: shape {shape} with strides {strides} is not dense row-major; "
            "pass a contiguous copy"
        )
    if not tensor.data and 0 not in shape:
        raise KernelError(f"from_dlpack: the {type(source).__name__} holds no memory")
    owner = _borrowed(capsule, address)
    size = prod(shape) * ITEM_BYTES[dtype]
    return device, shape, dtype, Block((tensor.data or 0) + tensor.byte_offset, size, owner)


def strided_on_host(source: object) -> tuple[tuple[int, ...], tuple[int, ...], str, Block] | None:
    """Take the memory of a strided array of the host.

    Returns:
        Shape, strides in elements, dtype, and the bytes from the first element to the last; None
        where it is dense, or on another device.
    """
    capsule, address, tensor = _shown(source, _LEGACY_STREAM)
    if tensor.device.device_type not in _ON_CPU or not tensor.strides or not tensor.data:
        return None
    shape, strides = tuple(tensor.shape[: tensor.ndim]), tuple(tensor.strides[: tensor.ndim])
    if 0 in shape or min(strides, default=0) < 0 or _is_dense(shape, strides):
        return None
    dtype = _dtype(tensor)
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    begin = tensor.data + tensor.byte_offset
    size = (last + 1) * ITEM_BYTES[dtype]
    return shape, strides, dtype, Block(begin, size, _borrowed(capsule, address))


def _shown(source: object, stream: int) -> tuple[object, int, Any]:
    """Return a capsule that was not taken yet, its address, and what is said in it."""
    capsule = _capsule_of(source, stream)
    if not _is_valid(capsule, _FRESH):
        raise KernelError("from_dlpack: the capsule was used before; ask its owner for a new one")
    address = _pointer_of(capsule, _FRESH)
    return capsule, address, _DLManagedTensor.from_address(address).dl_tensor


def _borrowed(capsule: object, address: int) -> _Borrowed:
    """Take a capsule; its memory is given back when what is returned ends."""
    _rename(capsule, _USED)
    owner = _Borrowed()
    weakref.finalize(owner, _release, address)
    return owner


class _Borrowed:
    """Lives as long as borrowed memory is used; its end gives the memory back."""

    __slots__ = ("__weakref__",)


def _release(address: int) -> None:
    managed = _DLManagedTensor.from_address(address)
    # A null deleter means that there is nothing to free (dlpack.h).
    if ctypes.cast(managed.deleter, ctypes.c_void_p).value:
        managed.deleter(ctypes.byref(managed))


def _capsule_of(source: Any, stream: int) -> object:
    if not hasattr(source, "__dlpack__"):
        if type(source).__name__ == "PyCapsule":
            return source
        raise KernelError(
            f"from_dlpack: expected an array with __dlpack__, got {type(source).__name__}"
        )
    if _is_negated(source):
        raise KernelError(
            f"from_dlpack: the memory of this {type(source).__name__} holds its values with the "
            "other sign (is_neg()): pass tensor.resolve_neg()"
        )
    try:
        if source.__dlpack_device__()[0] == DEVICE_TYPES["cuda"]:
            return source.__dlpack__(stream=stream or _LEGACY_STREAM)
        return source.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # Each library has its own words: torch for tensors that require grad, numpy for
        # read-only arrays and its byte orders.
        raise KernelError(
            f"from_dlpack: {type(source).__name__} does not lend its memory: {error}"
        ) from error


def _is_negated(source: object) -> bool:
    """Return whether it is a tensor of torch that is minus what its memory holds.

    Torch lends such memory without a word.
    """
    asked = getattr(source, "is_neg", None)
    return callable(asked) and asked() is True


def _device(tensor: _DLTensor) -> Device:
    number = tensor.device.device_type
    if number in _ON_CPU:
        return Device("cpu")
    if number in _ON_CUDA:
        return Device("cuda", tensor.device.device_id)
    raise KernelError(f"from_dlpack: arrays on DLPack device type {number} cannot be used")


def _dtype(tensor: _DLTensor) -> str:
    code, bits, lanes = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
    names = [name for name, number in CODES.items() if number == code]
    name = names[0] if names else ""
    dtype = name if name == "bool" else f"{name}{bits}"
    if lanes != 1 or dtype not in ITEM_BYTES:
        raise KernelError(
            f"from_dlpack: elements of DLPack code {code}, {bits} bits, {lanes} lanes are unknown"
        )
    return dtype


def _dense_strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    dense = _dense_strides(shape)
    return 0 in shape or all(
        n == 1 or s == d for n, s, d in zip(shape, strides, dense, strict=True)
    )
