"""TVM's `relay.frontend.onnx`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from autotune.errors import GraphError
from autotune.importers import from_onnx as _from_onnx
from autotune.tvm.relay.function import IRModule
from autotune.tvm.runtime.ndarray import NDArray, array


def from_onnx(
    model: str | os.PathLike[str] | bytes | object,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: object = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Read a model in ONNX as a module of relay; see `autotune.importers.from_onnx`.

    Args:
        model: what ``onnx.load`` returns; or, which TVM does not take, a path or a file's bytes.
        shape: extents of inputs by name.
        dtype: dtypes of inputs by name. One for all says nothing, as in TVM: the model has them.
        opset: accepted for TVM's scripts; the versions of operators are those of the model.
        freeze_params: whether weights are constants of the module; else they are its parameters,
            and in the dict that is returned.
        convert_config: accepted for TVM's scripts.
        export_node_renamed_model_path: not supported, as no node is renamed.

    Returns:
        The module, whose inputs have the model's names, and its parameters.

    Raises:
        GraphError: the model cannot be read, or has operators that are not supported.
    """
    del opset, convert_config
    if export_node_renamed_model_path is not None:
        raise GraphError(
            "from_onnx: export_node_renamed_model_path is not supported; nodes keep their names"
        )
    dtypes = None if dtype is None or isinstance(dtype, str) else dtype
    found = _from_onnx(model, shape, dtypes, freeze=freeze_params)
    params = {name: array(values) for name, values in found.params.items()}
    return IRModule.from_expr(found.graph), params
