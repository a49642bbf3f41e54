"""Any model of PyTorch as one kind of program: ATen operators without effects, of fixed shapes."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

from autotune.errors import GraphError
from autotune.importers.pytorch import converters
from autotune.importers.pytorch.call import Converter, converter_of
from autotune.importers.pytorch.composites import few_composites_overridden
from autotune.importers.pytorch.decompositions import decompositions
from autotune.importers.pytorch.flex import flexible_attention
from autotune.importers.pytorch.script import module_of_script
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch

assert converters  # what they know is not taken apart


def exported(
    model: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None = None,
    own: Mapping[str, Converter] | None = None,
    dynamic_shapes: Any = None,
) -> Any:
    """Return a model as an exported program of operators that converters know, as far as possible.

    Args:
        model: an ``nn.Module``, a ScriptModule, or what ``torch.export.export`` returns.
        args: example inputs; not needed for an exported program.
        kwargs: those that are passed by name.
        own: converters of the caller, by names of operators, which are not taken apart either.
        dynamic_shapes: which sizes are to be symbols, as ``torch.export.export`` takes it.

    Raises:
        GraphError: it is none of these, example inputs are missing, or torch cannot export it.
    """
    pytorch = torch("from_pytorch", GraphError)
    check = Check(GraphError, "from_pytorch")
    if isinstance(model, pytorch.export.ExportedProgram):
        return _taken_apart(model, own)
    if isinstance(model, pytorch.jit.ScriptFunction | pytorch.jit.ScriptModule):
        model = module_of_script(model)
    if not isinstance(model, pytorch.nn.Module):
        check.refuse(
            "model", "an nn.Module, a ScriptModule, or what torch.export.export returns", model
        )
    if args is None:
        check.refuse("example_inputs", "given: a tuple of tensors", args)
    if model.training:
        raise GraphError(
            "from_pytorch: the model is in training mode, in which dropout drops and batch norms "
            "count; call model.eval() first"
        )
    try:
        with pytorch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given, named = _apart(pytorch, model, tuple(args), dict(kwargs or {}))
            program = pytorch.export.export(
                model, given, named, dynamic_shapes=dynamic_shapes, strict=False
            )
    except GraphError:
        raise
    except Exception as error:  # whatever the model raises while torch traces it
        raise GraphError(
            f"from_pytorch: torch.export cannot export {type(model).__name__}: "
            f"{type(error).__name__}: {_reason(error)}"
        ) from error
    return _taken_apart(program, own)


def _reason(error: Exception) -> str:
    """Return the first line of an error; where it says nothing, the line that raised it."""
    first = str(error).strip().partition("\n")[0]
    (*_, last) = traceback.extract_tb(error.__traceback__)
    return first or f"{last.filename}:{last.lineno}: {last.line}"


def _apart(pytorch: Any, model: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return example inputs of which no two, and no parameter, are in the same memory.

    torch would else trace two inputs as one, as they happen to be for this example. Strides stay.
    """
    taken = {each.untyped_storage()._cdata for each in (*model.parameters(), *model.buffers())}

    def own(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage._cdata not in taken:
            taken.add(storage._cdata)
            return tensor
        copy = pytorch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return copy.set_(
            storage.clone(), tensor.storage_offset(), tensor.shape, tensor.stride()
        ).requires_grad_(tensor.requires_grad)

    made: tuple[Any, Any] = pytorch.utils._pytree.tree_map_only(
        pytorch.Tensor, own, (args, kwargs)
    )
    return made


def _taken_apart(program: Any, own: Mapping[str, Converter] | None) -> Any:
    """Return a program with operators taken apart that no converter knows."""
    pytorch = torch("from_pytorch", GraphError)
    with few_composites_overridden():
        table = pytorch.export.default_decompositions()
        table.update(decompositions())
        for known in [each for each in table if converter_of(each, own) is not None]:
            del table[known]
        try:
            with pytorch.no_grad(), warnings.catch_warnings(), flexible_attention(program):
                warnings.simplefilter("ignore")
                made = program.run_decompositions(table)
        except Exception as error:  # whatever torch raises
            raise GraphError(
                "from_pytorch: torch cannot take the program apart: "
                f"{type(error).__name__}: {_reason(error)}"
            ) from error
    _drop_tokens(pytorch, made)
    return made


def _drop_tokens(pytorch: Any, program: Any) -> None:
    """Replace calls that torch orders by tokens with plain ones, in the same order.

    ``token, *results = with_effects(token, operator, ...)`` becomes ``operator(...)``.
    """
    graph = program.graph
    ordered = getattr(pytorch.ops.higher_order, "with_effects", None)
    for node in [each for each in graph.nodes if each.target is ordered]:
        _replace_ordered(graph, node)
    tokens = _without_tokens(graph.output_node(), program.graph_signature)
    for node in reversed(graph.nodes):
        made = node.args[0] if node.target is getitem else node
        if not node.users and (node.name in tokens or made.target is ordered):
            graph.erase_node(node)
    program.graph_module.recompile()


def _replace_ordered(graph: Any, node: Any) -> None:
    """Call what a call with a token calls; the token is left as it is."""
    _, function, *args = node.args
    made = node.meta["val"][1:]
    with graph.inserting_before(node):
        plain = graph.call_function(function, tuple(args), node.kwargs)
    alone = len(function._schema.returns) == 1
    plain.meta = node.meta | {"val": made[0] if alone else made or None}
    for user in list(node.users):
        _, number = user.args
        if number and alone:
            user.replace_all_uses_with(plain)
        elif number:
            user.args = (plain, number - 1)


def _without_tokens(output: Any, signature: Any) -> set[str]:
    """Take tokens out of a signature; return the names of those that were inputs."""
    kept = [
        (made, spec)
        for made, spec in zip(output.args[0], signature.output_specs, strict=True)
        if spec.kind.name != "TOKEN"
    ]
    output.args = (tuple(made for made, _ in kept),)
    signature.output_specs = [spec for _, spec in kept]
    tokens = {spec.arg.name for spec in signature.input_specs if spec.kind.name == "TOKEN"}
    signature.input_specs = [each for each in signature.input_specs if each.arg.name not in tokens]
    return tokens
