"""Numbers of tensors in a model, also those that are in files beside it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array

# The dtypes of ONNX by number, and the field that elements are in where they are not raw bytes.
_DTYPES: dict[int, tuple[str, str]] = {
    1: ("float32", "float_data"), 2: ("uint8", "int32_data"), 3: ("int8", "int32_data"),
    4: ("uint16", "int32_data"), 5: ("int16", "int32_data"), 6: ("int32", "int32_data"),
    7: ("int64", "int64_data"), 9: ("bool", "int32_data"), 10: ("float16", "int32_data"),
    11: ("float64", "double_data"), 12: ("uint32", "uint64_data"), 13: ("uint64", "uint64_data"),
    16: ("bfloat16", "int32_data"),
}  # fmt: skip
# Those of weights alone, which `DequantizeLinear` makes floats of: numpy's dtype, and its bits.
_NARROW: dict[int, tuple[Any, int]] = {
    17: (ml_dtypes.float8_e4m3fn, 8), 18: (ml_dtypes.float8_e4m3fnuz, 8),
    19: (ml_dtypes.float8_e5m2, 8), 20: (ml_dtypes.float8_e5m2fnuz, 8),
    21: (ml_dtypes.uint4, 4), 22: (ml_dtypes.int4, 4),
}  # fmt: skip
_UNKNOWN = {
    8: "text", 14: "complex64", 15: "complex128", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2",
    26: "int2",
}  # fmt: skip


def dtype_of(number: int, what: str) -> str:
    """Return the name of a dtype.

    Raises:
        GraphError: there is none of that number here.
    """
    if number not in _DTYPES:
        raise GraphError(
            f"{what}: dtype must be one of {', '.join(name for name, _ in _DTYPES.values())}, got "
            f"{_name_of(number)}"
        )
    return _DTYPES[number][0]


def _name_of(number: int) -> str:
    if number in _NARROW:
        return str(np.dtype(_NARROW[number][0]).name)
    return _UNKNOWN.get(number, f"number {number}")


def is_narrow(array: Array) -> bool:
    """Return whether numbers are of a dtype that weights alone may have."""
    return any(array.dtype == kind for kind, _ in _NARROW.values())


def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return numpy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


@dataclass(frozen=True)
class TensorReader:
    """Reads tensors of a model.

    Attributes:
        folder: the folder of the model, from which external data may be read; None where the
            model is no file.
    """

    folder: Path | None

    def read(self, tensor: Any, name: str = "") -> Array:
        """Return the numbers of a protobuf of a tensor.

        Raises:
            GraphError: its dtype is unknown, or numbers are missing.
        """
        what, shape = f"tensor {name or tensor.name!r}", tuple(tensor.dims)
        if min(shape, default=0) < 0:
            raise GraphError(f"{what}: extents must be at least 0, got {shape}")
        count = math.prod(shape)
        if tensor.data_type in _NARROW:
            kind, bits = _NARROW[tensor.data_type]
            raw = self._bytes(tensor, what, "uint8", -(-count * bits // 8))
            steps = _unpacked(np.frombuffer(raw, "uint8"), bits, count)
            return np.asarray(steps.view(kind).reshape(shape))
        dtype = dtype_of(tensor.data_type, what)
        raw = self._bytes(tensor, what, dtype, count * numpy_type(dtype).itemsize)
        little = numpy_type(dtype).newbyteorder("<") if dtype != "bfloat16" else numpy_type(dtype)
        return np.frombuffer(raw, little).astype(numpy_type(dtype), copy=False).reshape(shape)

    def _bytes(self, tensor: Any, what: str, dtype: str, expected: int) -> bytes:
        """Return the bytes of a tensor, wherever they are."""
        if tensor.data_location == 1:
            raw = self._external(tensor, what, expected)
        elif tensor.HasField("raw_data"):
            raw = tensor.raw_data
        else:
            raw = self._listed(tensor, dtype)
        if len(raw) != expected:
            shape = [*tensor.dims]
            raise GraphError(
                f"{what}: expected {expected} bytes for {dtype}{shape}, got {len(raw)}"
            )
        return raw

    @staticmethod
    def _listed(tensor: Any, dtype: str) -> bytes:
        """Return the bytes of numbers that are in a field of numbers."""
        if tensor.data_type in _NARROW:
            return np.asarray(tensor.int32_data, "int64").astype("uint8").tobytes()
        numbers = getattr(tensor, _DTYPES[tensor.data_type][1])
        if dtype in ("float16", "bfloat16"):  # their bits
            return np.asarray(numbers, "int64").astype("<u2").tobytes()
        kind = numpy_type(dtype)
        return np.asarray(numbers, "float64" if kind.kind == "f" else None).astype(kind).tobytes()

    def _external(self, tensor: Any, what: str, size: int) -> bytes:
        """Return the bytes of a tensor from the file that it names."""
        given = {entry.key: entry.value for entry in tensor.external_data}
        path = self._inside(given.get("location", ""), what)
        try:
            offset = int(given.get("offset") or 0)
            length = int(given.get("length") or size)
        except ValueError:
            raise GraphError(
                f"{what}: offset and length must be whole numbers, got {given}"
            ) from None
        if offset < 0 or length != size:
            raise GraphError(f"{what}: expected {size} bytes from 0 or more on, got {given}")
        try:
            left = path.stat().st_size - offset
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(min(size, max(left, 0)))
        except OSError as error:
            raise GraphError(f"{what}: its data in {path} cannot be read: {error}") from error

    def _inside(self, location: str, what: str) -> Path:
        """Return the path of a file, which must be in the folder of the model or below.

        A model from elsewhere could otherwise name any file, and put its bytes into its weights.
        Links are followed first: what counts is where the file is.
        """
        if self.folder is None:
            raise GraphError(
                f"{what}: its data is in the file {location!r}; pass the path of the model, or "
                "load the data first: onnx.load_external_data_for_model(model, folder)"
            )
        folder = Path(os.path.realpath(self.folder))
        path = folder if "\0" in location else Path(os.path.realpath(folder / location))
        if not path.is_relative_to(folder) or path == folder:
            raise GraphError(
                f"{what}: external data must be a file in the folder of the model, {folder}, got "
                f"{location!r}"
            )
        if path.exists() and not path.is_file():
            raise GraphError(f"{what}: external data must be a plain file, got {path}")
        return path


def _unpacked(raw: Array, bits: int, count: int) -> Array:
    """Return numbers of 4 bits, two in a byte, the lower one first, as bytes with their signs."""
    if bits == 8:
        return raw
    return np.stack([raw & 15, raw >> 4], 1).reshape(-1)[:count]
