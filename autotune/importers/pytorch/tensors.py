"""Tensors of PyTorch as types and numbers of autotune."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, TensorType
from autotune.utils.lazy_torch import torch

# Types of elements that both have, under autotune's names.
_NAMES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "bool",
)  # fmt: skip
_BY_TEXT = {f"torch.{name}": name for name in _NAMES}


def dtype_name(dtype: object) -> str:
    """Return autotune's name of a dtype of torch.

    Raises:
        GraphError: autotune has no such dtype.
    """
    name = _BY_TEXT.get(str(dtype))
    if name is None:
        raise GraphError(
            f"PyTorch: tensors of {dtype} are not supported; convert them to one of "
            f"{', '.join(_NAMES)}"
        )
    return name


def type_of(tensor: Any) -> TensorType:
    """Return the type of a tensor, which may be without numbers.

    Raises:
        GraphError: an extent is known only at run time or is 0, or there is no such dtype.
    """
    extents = tuple(int(n) if type(n) is int or _is_known(n) else -1 for n in tensor.shape)
    if -1 in extents:
        raise GraphError(
            f"PyTorch: a tensor of shape {tuple(map(str, tensor.shape))} has an extent that is "
            "known only at run time; export the model for one shape, without dynamic_shapes"
        )
    if 0 in extents:
        raise GraphError(f"PyTorch: a tensor of shape {extents} has no elements")
    return TensorType(extents, dtype_name(tensor.dtype))


def is_empty(tensor: Any) -> bool:
    """Return whether something is a tensor without elements."""
    return any(type(extent) is int and extent == 0 for extent in getattr(tensor, "shape", ()))


def empty_like(tensor: Any) -> Any:
    """Return the tensor without elements of a shape and a dtype, in memory of the host."""
    shape = tuple(int(extent) for extent in tensor.shape)
    return torch("importers", GraphError).empty(shape, dtype=tensor.dtype)


def _is_known(extent: Any) -> bool:
    """Return whether an extent is a symbol of torch that stands for one number."""
    node = getattr(extent, "node", None)
    return node is not None and bool(getattr(node, "is_constant", lambda: False)())


def numbers_of(tensor: Any) -> Array:
    """Return a copy of the numbers of a tensor, in memory of the host."""
    on_host = tensor.detach().to("cpu", copy=True).contiguous()
    if str(tensor.dtype) == "torch.bfloat16":
        bits: Array = on_host.view(torch("importers", GraphError).int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return np.asarray(on_host.numpy())
