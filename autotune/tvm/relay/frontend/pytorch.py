"""TVM's `relay.frontend.pytorch`: traced models of PyTorch become modules of relay."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Graph, TensorType
from autotune.importers import Call
from autotune.importers import from_pytorch as _from_pytorch
from autotune.tvm.relay.function import IRModule, flattened
from autotune.tvm.relay.variable import Var
from autotune.tvm.runtime.ndarray import NDArray, array
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch

# Takes the inputs of an operator and their dtypes, returns an expression.
Converter = Callable[[list[Any], list[Any]], Any]
_INFOS = 'a list of ("name", shape) or ("name", (shape, "dtype"))'


def from_pytorch(
    script_module: object,
    input_infos: Sequence[Any],
    custom_convert_map: Mapping[str, Converter] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | os.PathLike[str] | None = None,
    preserve_pytorch_scopes: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Read a model of PyTorch, for inference.

    Args:
        script_module: what ``torch.jit.trace`` or ``torch.jit.script`` returns; an ``nn.Module``
            and an exported program are taken as well.
        input_infos: name and shape, or shape and dtype, of each input in order.
        custom_convert_map: converters that go before ours, by names such as ``"aten::roll"``.
        default_dtype: of inputs for which none is given.
        use_parser_friendly_name: whether names of parameters have ``_`` in place of ``.``.
        keep_quantized_weight: accepted; quantised operators are not supported.
        export_renamed_c_graph_path: accepted.
        preserve_pytorch_scopes: accepted: operators know their layers in any case.

    Returns:
        the module, and the numbers of its parameters by name.

    Raises:
        GraphError: the inputs are not described so, the model writes in place, or it cannot be
            imported; operators that are missing are all listed.
    """
    del keep_quantized_weight, export_renamed_c_graph_path, preserve_pytorch_scopes
    check = Check(GraphError, "from_pytorch")
    infos = check.sequence("input_infos", input_infos, _INFOS)
    described = [_described(check, each, default_dtype) for each in infos]
    own = {
        name.replace("::", "."): _adapted(function)
        for name, function in (custom_convert_map or {}).items()
    }
    found = _from_pytorch(
        script_module,
        [_example(kind) for _, kind in described],
        input_names=[name for name, _ in described],
        keep_params=True,
        converters=own,
    )
    if found.writes:
        raise GraphError(
            f"from_pytorch: the model writes {', '.join(sorted(found.writes))} in place, which no "
            "module of relay does; autotune.importers.from_pytorch returns the new numbers, and "
            "autotune.torch.compile writes them"
        )

    def named(name: str) -> str:
        return name.replace(".", "_") if use_parser_friendly_name else name

    variables = {v: Var(named(v.name), v.type) for v in found.graph.inputs}
    outputs = found.graph.substitute({**variables}).outputs
    graph = Graph(tuple(variables.values()), outputs)  # inputs first, in their order
    params = {named(name): array(numbers) for name, numbers in found.params.items()}
    return IRModule.from_expr(graph), params


def _described(check: Check, info: Any, default_dtype: str) -> tuple[str, TensorType]:
    """Return name and type of an input."""
    if not isinstance(info, (tuple, list)) or len(info) != 2 or not isinstance(info[0], str):
        check.refuse("input_infos", _INFOS, info)
    name, shape = info
    dtype = default_dtype
    if isinstance(shape, (tuple, list)) and len(shape) == 2 and isinstance(shape[1], str):
        shape, dtype = shape
    if not isinstance(shape, (tuple, list)):
        check.refuse("input_infos", _INFOS, info)
    names = {"float": "float32", "half": "float16", "double": "float64", "long": "int64",
             "int": "int32"}  # fmt: skip
    return name, TensorType(tuple(int(n) for n in shape), names.get(dtype, dtype))


def _example(kind: TensorType) -> Any:
    """Return a tensor of a type; its numbers do not count."""
    pytorch = torch("from_pytorch", GraphError)
    return pytorch.zeros(kind.shape, dtype=getattr(pytorch, kind.dtype))


def _adapted(function: Converter) -> Callable[..., Any]:
    """Return a converter of TVM as one of ours."""

    def convert(call: Call, *arguments: Any) -> Any:
        types = [getattr(each, "dtype", None) for each in arguments]
        made = function(list(arguments), types)
        several = flattened(made)
        return several[0] if len(several) == 1 else several

    return convert
