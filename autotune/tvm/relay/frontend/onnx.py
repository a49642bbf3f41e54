"""TVM's `relay.frontend.onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.importers import from_onnx as _from_onnx
from autotune.tvm.relay.function import IRModule
from autotune.tvm.runtime.ndarray import NDArray, array


def from_onnx(
    model: object,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: object = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Read a model."""
    found = _from_onnx(model, shape, dtype)
    params = {name: array(values) for name, values in found.params.items()}
    return IRModule.from_expr(found.graph), params
