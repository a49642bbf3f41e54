"""What a program of torch writes of what it takes, and which results are views of that.

Torch exports writes as outputs: of the new numbers, which whoever runs the program writes back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from autotune.errors import GraphError
from autotune.utils.lazy_torch import torch


@dataclass(frozen=True)
class Write:
    """A tensor that a program writes.

    Attributes:
        name: of the input, parameter or buffer.
        input: its number among the inputs; None if it is no input.
        node: what computes the new numbers.
    """

    name: str
    input: int | None
    node: Any


@dataclass(frozen=True)
class View:
    """A result that lies in the memory of an input, of a parameter, or of another result.

    Attributes:
        source: number of the input or of the memory that results share, or the name of the
            parameter.
        size, stride: of `torch.Tensor.as_strided`.
        offset: elements from the first one of the source on.
        of_stride: the strides of the source, to which all this applies.
    """

    source: int | str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    of_stride: tuple[int, ...]


def with_inputs(program: Any, names: Container[str]) -> list[str]:
    """Let an exported program take some of its parameters and buffers as inputs.

    Returns:
        their names in the order of these inputs, which are before the others.
    """
    kinds = torch("importers", GraphError).export.graph_signature
    signature = program.graph_signature
    inputs = {}
    for spec in signature.input_specs:
        if spec.target is not None and spec.target in names:
            inputs[spec.target] = spec.arg.name
            spec.kind, spec.target, spec.persistent = kinds.InputKind.USER_INPUT, None, None
    for spec in signature.output_specs:
        if spec.target in inputs:
            spec.kind = kinds.OutputKind.USER_INPUT_MUTATION
            spec.target = inputs[spec.target]
    return list(inputs)


def writes_of(program: Any) -> list[Write]:
    """Return what an exported program writes; these are the first of its outputs, in order."""
    nodes = {node.name: node for node in program.graph.nodes}
    numbers = {name: i for i, name in enumerate(inputs_of(program))}
    return [
        Write(
            str(spec.target),
            numbers[spec.target] if spec.kind.name == "USER_INPUT_MUTATION" else None,
            nodes[spec.arg.name],
        )
        for spec in program.graph_signature.output_specs
        if spec.kind.name.endswith("_MUTATION")
    ]


def written_inputs(writes: Iterable[Write]) -> list[int]:
    """Return the numbers of the inputs that are written."""
    return [each.input for each in writes if each.input is not None]


def views_of_inputs(program: Any) -> dict[Any, View]:
    """Return the outputs of an exported program that no operator writes to memory of their own.

    Raises:
        GraphError: one is a view of an input that is written, and lies in another order by then.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    numbers = {name: i for i, name in enumerate(inputs_of(program))}
    # Of each memory: whose it is, and that tensor as torch traced it.
    owners: dict[int, tuple[int | str, Any]] = {}
    for spec in program.graph_signature.input_specs:
        made: Any = nodes[spec.arg.name].meta.get("val") if hasattr(spec.arg, "name") else None
        if hasattr(made, "dtype"):
            owners[memory_of(made)] = numbers.get(spec.arg.name, spec.target), made
    strides = {source: made.stride() for source, made in owners.values()}
    writes = writes_of(program)
    for each in writes:
        made = each.node.meta["val"]
        owners.setdefault(memory_of(made), (each.name if each.input is None else each.input, made))
    found = {}
    for node in program.graph.output_node().args[0][len(writes) :]:
        made = getattr(node, "meta", {}).get("val")
        if not hasattr(made, "dtype") or memory_of(made) not in owners:
            continue
        source, whole = owners[memory_of(made)]
        if not _has_elements_of(made, whole):
            continue
        if strides[source] != whole.stride():
            raise GraphError("it returns a view of an input that it writes in another layout")
        size, stride = tuple(map(int, made.shape)), tuple(map(int, made.stride()))
        offset = int(made.storage_offset()) - int(whole.storage_offset())
        found[node] = View(source, size, stride, offset, tuple(map(int, whole.stride())))
    return found


def views_of_results(
    program: Any, others: Container[Any], has_value: Callable[[Any], bool]
) -> tuple[list[Any], dict[Any, View]]:
    """Return what fills memory in which several outputs lie, and these as views of it.

    Args:
        program: an exported program.
        others: outputs that lie in other memory, such as that of inputs.
        has_value: tells of a node whether its tensor is computed.
    """
    sharing: dict[int, dict[Any, Any]] = {}
    for node in program.graph.output_node().args[0][len(writes_of(program)) :]:
        made: Any = getattr(node, "meta", {}).get("val")
        if hasattr(made, "dtype") and node not in others and made.numel():
            sharing.setdefault(memory_of(made), {})[node] = made
    sharing = {memory: made for memory, made in sharing.items() if len(made) > 1}
    wholes: dict[int, Any] = {}
    for node in program.graph.nodes if sharing else ():
        made = node.meta.get("val")
        if not hasattr(made, "dtype") or memory_of(made) in wholes or not has_value(node):
            continue
        if memory_of(made) in sharing and _fills_its_memory(made):
            wholes[memory_of(made)] = node
    found: dict[Any, View] = {}
    for number, (memory, whole) in enumerate(wholes.items()):
        own = whole.meta["val"]
        for node, made in sharing[memory].items():
            if _has_elements_of(made, own):
                found[node] = View(
                    number, tuple(map(int, made.shape)), tuple(map(int, made.stride())),
                    int(made.storage_offset()), tuple(map(int, own.stride())),
                )  # fmt: skip
    return list(wholes.values()), found


def _has_elements_of(view: Any, whole: Any) -> bool:
    """Return whether strides alone make a tensor of another one in its memory.

    Parts of complex numbers are other elements; conjugates, and negative views, have other signs.
    """
    kinds = [(each.dtype, each.is_conj(), each.is_neg()) for each in (view, whole)]
    return bool(kinds[0] == kinds[1])


def _fills_its_memory(tensor: Any) -> bool:
    """Return whether a traced tensor has each element of its memory once."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    return elements == tensor.numel() and all(step for step, extent in steps if extent > 1)


def stride_of(node: Any) -> tuple[int, ...] | None:
    """Return the strides of a result, as torch has them; None where it is contiguous.

    What has several elements in one place, as after `expand`, is contiguous too, as a copy is.
    """
    made = node.meta["val"]
    stride = tuple(map(int, made.stride()))
    reach = 0
    for step, extent in sorted(zip(stride, map(int, made.shape), strict=True)):
        if extent > 1 and step <= reach:
            return None
        reach += step * (extent - 1)
    return None if made.is_contiguous() else stride


def memory_of(tensor: Any) -> int:
    """Return what tells the memory of a tensor, also of a traced one, from that of others."""
    return int(tensor.untyped_storage()._cdata)


def inputs_of(program: Any) -> list[str]:
    """Return the names of the inputs of an exported program, in order; "" for one without."""
    specs = program.graph_signature.input_specs
    return [getattr(each.arg, "name", "") for each in specs if each.kind.name == "USER_INPUT"]
