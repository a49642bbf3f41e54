"""Models of files, for tvmc."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.errors import GraphError
from autotune.tvm.driver.tvmc.model import TVMCModel
from autotune.tvm.relay.frontend import from_onnx, from_pytorch
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch

_FORMATS = {".onnx": "onnx", ".pth": "pytorch", ".pt": "pytorch"}


def load_model(
    path: str | os.PathLike[str],
    model_format: str | None = None,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    **kwargs: Any,
) -> TVMCModel:
    """Read a model: ``tvmc.load``.

    Args:
        path: a file of ONNX (.onnx), or of ``torch.jit.save`` (.pt, .pth).
        model_format: "onnx" or "pytorch", where the name of the file does not say it.
        shape_dict: extents of inputs by name; for PyTorch, of all of them in order.
        kwargs: further arguments of ``relay.frontend.from_onnx`` or ``from_pytorch``.

    Raises:
        GraphError: the format is another, or the model cannot be read.
    """
    check = Check(GraphError, "tvmc.load")
    place = Path(check.path("path", path))
    kind = model_format or _FORMATS.get(place.suffix, "")
    if kind not in _FORMATS.values():
        expected = "a model in ONNX (.onnx) or of torch.jit (.pt, .pth); export others to ONNX"
        check.refuse("path", expected, model_format or str(place))
    if kind == "onnx":
        return TVMCModel(*from_onnx(str(place), shape_dict, **kwargs))
    if not shape_dict:
        check.refuse("shape_dict", "the shapes of all inputs of a model of PyTorch", shape_dict)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that of torch.jit as such
            model = torch().jit.load(str(place))
    except (ValueError, RuntimeError) as error:
        raise GraphError(f"tvmc.load: {place} is no model of torch.jit.save: {error}") from error
    return TVMCModel(*from_pytorch(model.eval(), list(shape_dict.items()), **kwargs))
