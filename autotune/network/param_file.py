"""Parameters as bytes, in the format of TVM's ``save_param_dict``.

Little endian: a magic number, a reserved one, the number of names, each name with its length, the
number of arrays, and each array with a header of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from autotune.errors import GraphError, KernelError
from autotune.graph import Array
from autotune.runtime.arrays.array import NDArray, array, numpy_dtype
from autotune.utils.check import Check

_LIST, _ARRAY = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
_CPU = 1
# DLPack's numbers of kinds of elements.
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_NAMES = {number: name for name, number in _KINDS.items()}


def save_param_dict(params: Mapping[str, object]) -> bytes:
    """Return parameters as bytes; names are sorted.

    Raises:
        GraphError: they are no dict of names and arrays.
    """
    check = Check(GraphError, "save_param_dict")
    check.kind("params", params, Mapping, "a dict of names and arrays")
    for each in params:
        check.text("name of a parameter", each, "weight")
    names = sorted(params)
    parts = [struct.pack("<QQQ", _LIST, 0, len(names))]
    for name in names:
        text = name.encode()
        parts += [struct.pack("<Q", len(text)), text]
    parts.append(struct.pack("<Q", len(names)))
    parts += [_array_bytes(params[name]) for name in names]
    return b"".join(parts)


def _array_bytes(value: object) -> bytes:
    own = value if isinstance(value, NDArray) else array(value)
    numbers = np.ascontiguousarray(own.numpy())
    kind = own.dtype.rstrip("0123456789")
    bits = 8 if kind == "bool" else int(own.dtype.removeprefix(kind))
    head = struct.pack("<QQiiiBBH", _ARRAY, 0, _CPU, 0, numbers.ndim, _KINDS[kind], bits, 1)
    shape = struct.pack(f"<{numbers.ndim}q", *numbers.shape)
    return head + shape + struct.pack("<q", numbers.nbytes) + numbers.tobytes()


def load_param_dict(data: bytes | bytearray) -> dict[str, NDArray]:
    """Read what `save_param_dict` wrote, here or in TVM.

    Raises:
        GraphError: it is something else, or cut off.
    """
    expected = "the bytes that save_param_dict wrote"
    check = Check(GraphError, "load_param_dict")
    check.kind("data", data, (bytes, bytearray, memoryview), expected)
    reader = _Reader(bytes(data))
    try:
        return _read(reader)
    except (ValueError, KernelError, struct.error) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"load_param_dict: expected {expected}, got others: {error}") from error


def _read(reader: _Reader) -> dict[str, NDArray]:
    magic, _ = reader.take("<QQ")
    if magic != _LIST:
        raise GraphError("load_param_dict: expected what save_param_dict wrote, got other bytes")
    names = []
    for _ in range(reader.take("<Q")[0]):
        names.append(reader.bytes(reader.take("<Q")[0]).decode())
    (count,) = reader.take("<Q")
    if count != len(names):
        raise GraphError(f"load_param_dict: expected {len(names)} arrays, got {count}")
    return {name: array(reader.array()) for name in names}


class _Reader:
    """Takes one field after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def bytes(self, size: int) -> bytes:
        """Return the next bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise GraphError(
                f"load_param_dict: expected {size} bytes at {self.at}, got {len(self.data)} in all"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def take(self, form: str) -> tuple[int, ...]:
        """Return the next numbers."""
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def array(self) -> Array:
        """Return the next array."""
        magic, _, _, _, ndim, code, bits, lanes = self.take("<QQiiiBBH")
        if magic != _ARRAY or code not in _NAMES or lanes != 1:
            raise GraphError(f"load_param_dict: expected an array at {self.at}, got other bytes")
        kind = _NAMES[code]
        shape = self.take(f"<{ndim}q")
        dtype = numpy_dtype("bool" if kind == "bool" else f"{kind}{bits}")
        (size,) = self.take("<q")
        return np.frombuffer(self.bytes(size), dtype).reshape(shape)
