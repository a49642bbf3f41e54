"""From a model of PyTorch to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, TensorType, Value, Variable
from autotune.importers.imported import ImportedNetwork
from autotune.importers.pytorch.call import Bound, Converter
from autotune.importers.pytorch.complex_numbers import entering
from autotune.importers.pytorch.program import exported
from autotune.importers.pytorch.tensors import empty_like, is_empty, numbers_of, type_of
from autotune.importers.pytorch.translate import Translation
from autotune.importers.pytorch.writes import (
    View,
    Write,
    stride_of,
    views_of_inputs,
    views_of_results,
    with_inputs,
    writes_of,
    written_inputs,
)
from autotune.utils.check import Check

# What an input of an exported program is.
_PARAMETER, _BUFFER, _CONSTANT, _INPUT = "PARAMETER", "BUFFER", "CONSTANT_TENSOR", "USER_INPUT"


class IdleError(GraphError):
    """A program computes no tensor, so that no network is missed."""


@dataclass(frozen=True)
class TorchProgram:
    """A program of torch, as a graph and as what is around it.

    Attributes:
        graph: what is computed; parameters are constants, or inputs behind those of the model.
        inputs: for each of the model's inputs, in order, the variable of the graph, or None for
            one that is no tensor.
        tensors: parameters and buffers by name, as the model holds them.
        results: for each output of the program the number of the graph's output, or what it is if
            it is no tensor of the graph.
        writes: what the model writes, in the order of the graph's first outputs, whose numbers
            these are.
        structure: how torch puts the outputs together (a tree spec).
        wholes: what fills memory in which several outputs lie, with its strides.
        bounds: of indices, beyond which torch raises errors and kernels do not.
    """

    graph: Graph
    inputs: tuple[Variable | None, ...]
    tensors: Mapping[str, Any]
    results: tuple[Output, ...]
    writes: tuple[Write, ...] = ()
    structure: Any = None
    wholes: tuple[tuple[Value, tuple[int, ...]], ...] = ()
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class Output:
    """An output of a program.

    Attributes:
        number: of the graph's output; None where it is no tensor.
        value: what it is where it is no tensor.
        alias: where it lies, if it is a view of an input or of a parameter.
        within: where it lies, if it shares the memory of one of the program's wholes.
        lent: whether it may lie in memory that is written over at the next run.
        stride: the strides that it must have; None if it may be contiguous.
    """

    number: int | None
    value: object = None
    alias: View | None = None
    lent: bool = False
    stride: tuple[int, ...] | None = None
    within: View | None = None


def from_pytorch(
    model: Any,
    example_inputs: Sequence[Any] | None = None,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    keep_params: bool = False,
    converters: Mapping[str, Converter] | None = None,
) -> ImportedNetwork:
    """Read a model of PyTorch, for inference.

    What the model writes in place, such as caches, are outputs of the graph behind its own
    (``writes``); buffers among that are inputs too, with their numbers in ``state``.

    Shapes are those of the example inputs; a network for other shapes is imported again.

    Args:
        model: an ``nn.Module`` in ``eval`` mode, a ScriptModule (``torch.jit.trace``), or the
            program that ``torch.export.export`` returns.
        example_inputs: a tuple of tensors, or a single one; not needed for an exported program.
        example_kwargs: inputs that the model takes by name.
        input_names: names of the graph's inputs; by default those of the model's arguments.
        keep_params: whether parameters are left as inputs of the graph, with their numbers in
            ``params``, instead of constants.
        converters: what converts calls of operators, by their names, such as ``"aten.roll"`` or
            ``"mine.scale"``; it is called with a `Call` and the operator's arguments.

    Raises:
        GraphError: torch cannot export the model, a shape is known only at run time, or operators
            are not supported: all of them are listed.

    Example::

        network = from_pytorch(resnet18().eval(), torch.zeros(1, 3, 224, 224))
        compiled = autotune.network.compile_network(network.graph, "cuda")
    """
    args = None if example_inputs is None else _several(example_inputs)
    own = dict(converters or {})
    traced = exported(model, args, example_kwargs, own)
    every = {**traced.constants, **traced.state_dict}
    written = {each.name for each in writes_of(traced) if each.input is None}
    buffers = {
        spec.arg.name: spec.target
        for spec in traced.graph_signature.input_specs if spec.target in written
    }  # fmt: skip
    with_inputs(traced, written)
    program = read_program(traced, keep_params, input_names, own, buffers)
    params = {}
    if keep_params:
        used = {each.name for each in program.graph.inputs}
        params = {name: numbers_of(t) for name, t in program.tensors.items() if name in used}
    # The new numbers of what is written are behind the model's results.
    count, outputs = len(program.writes), program.graph.outputs
    graph = Graph(program.graph.inputs, (*outputs[count:], *outputs[:count]))
    own_names = [each and each.name for each in program.inputs]
    writes = {
        str(own_names[i]): len(outputs) - count + number
        for number, i in enumerate(written_inputs(program.writes))
    }  # fmt: skip
    state = {name: numbers_of(every[name]) for name in buffers.values()}
    return ImportedNetwork(graph, params, state=state, writes=writes)


def _several(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)


def read_program(
    program: Any,
    keep_params: bool = False,
    input_names: Sequence[str] | None = None,
    own: Mapping[str, Converter] | None = None,
    buffers: Mapping[str, str] | None = None,
) -> TorchProgram:
    """Translate an exported program.

    ``buffers`` has names for inputs that are no arguments of the model.

    Raises:
        GraphError: as `from_pytorch`.
    """
    names = None
    if input_names is not None:
        names = list(
            Check(GraphError, "from_pytorch").sequence(
                "input_names", input_names, "a list of names"
            )
        )
    return Reader(program, Translation(own or {}), keep_params, names, buffers or {}).read()


class Reader:
    """The reading of one exported program by a translation, which has the values afterwards.

    Programs that are given the same ``constants``, by the identities of tensors, share them.
    """

    def __init__(
        self,
        program: Any,
        translation: Translation,
        keep_params: bool = False,
        names: list[str] | None = None,
        buffers: Mapping[str, str] | None = None,
        constants: MutableMapping[int, Constant] | None = None,
    ) -> None:
        self.program = program
        self.keep_params = keep_params
        self.names = names
        self.buffers = buffers or {}
        self.constants = {} if constants is None else constants
        self.translation = translation
        self.inputs: list[Variable | None] = []
        self.params: list[Variable] = []
        self.tensors: dict[str, Any] = {}

    def read(self) -> TorchProgram:
        """Translate all of it."""
        self.translate()
        return self.finished()

    def translate(self) -> None:
        """Translate the calls."""
        nodes = list(self.program.graph.nodes)
        places = {node.name: node for node in nodes if node.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            self._input(spec, places)
        if self.names is not None and self.names:
            raise GraphError(
                f"from_pytorch: input_names has {len(self.names)} names more than the model has "
                "inputs that are tensors"
            )
        self.translation.run(nodes)

    def _input(self, spec: Any, places: Mapping[str, Any]) -> None:
        kind, node = spec.kind.name, places.get(getattr(spec.arg, "name", ""))
        if kind == _INPUT:
            if node is None or not hasattr(node.meta.get("val"), "dtype"):
                self.inputs.append(None)
                return
            if is_empty(node.meta["val"]):
                self.inputs.append(None)
                self.translation.known[node] = empty_like(node.meta["val"])
                return
            name = self._name(node.name)
            try:
                variable, value = entering(node.meta["val"], name)
            except GraphError as error:
                if not self.translation.goes_on_without(node, str(error)):
                    raise
                self.inputs.append(None)
                return
            self.inputs.append(variable)
            self.translation.values[node] = value
        elif node is not None and kind in (_PARAMETER, _BUFFER, _CONSTANT):
            self._tensor(spec.target, kind, node)

    def _name(self, given: str) -> str:
        if self.names is None or given in self.buffers:
            return self.buffers.get(given, given)
        if not self.names:
            raise GraphError("from_pytorch: input_names needs a name for each input tensor")
        return str(self.names.pop(0))

    def _tensor(self, name: str, kind: str, node: Any) -> None:
        """Say what a tensor of the model is: a parameter, or numbers that are known."""
        state = self.program.state_dict
        tensor = state[name] if name in state else self.program.constants[name]
        self.tensors[name] = tensor
        floats = str(tensor.dtype).startswith(("torch.float", "torch.bfloat"))
        if not floats or kind == _CONSTANT or is_empty(tensor):
            self.translation.known[node] = tensor.detach().cpu()
            return
        type_ = self._type(node, tensor)
        if type_ is None:
            return
        if self.keep_params:
            self.params.append(Variable(type_, name))
            self.translation.values[node] = self.params[-1]
        else:
            self.translation.values[node] = self._constant(tensor, type_, name)

    def _constant(self, tensor: Any, kind: TensorType, name: str) -> Constant:
        """Return a parameter as a constant: the same one for each program that shares them."""
        made = Constant(kind, _reader_of(tensor), name)
        # Those of inference mode do not tell when they are written.
        return made if tensor.is_inference() else self.constants.setdefault(id(tensor), made)

    def _type(self, node: Any, tensor: Any) -> TensorType | None:
        """Return the type of a tensor; None where the translation goes on without it."""
        try:
            return type_of(tensor)
        except GraphError as error:
            if not self.translation.goes_on_without(node, str(error)):
                raise
            return None

    def finished(self) -> TorchProgram:
        """Return the program, of which all calls are translated."""
        nodes = {node.name: node for node in self.program.graph.nodes}
        outputs: list[Value] = []
        results: list[Output] = []
        writes = tuple(writes_of(self.program))
        outputs += [self.translation.value(each.node) for each in writes]
        views = views_of_inputs(self.program)
        wholes, parts = views_of_results(self.program, views, self.translation.has_value)
        for spec in self.program.graph_signature.output_specs[len(outputs) :]:
            node = nodes.get(getattr(spec.arg, "name", ""))
            if node is None:
                results.append(Output(None, getattr(spec.arg, "value", None)))
                continue
            outputs.append(self.translation.value(node))
            alias, within = views.get(node), parts.get(node)
            results.append(
                Output(len(outputs) - 1, None, alias, stride=stride_of(node), within=within)
            )
        if not outputs:
            raise IdleError("PyTorch: the model returns no tensor")
        given = [each for each in self.inputs if each is not None]
        graph = Graph((*given, *self.params), tuple(outputs))
        return TorchProgram(
            graph, tuple(self.inputs), self.tensors, tuple(results), writes,
            self.program.call_spec.out_spec,
            tuple((self.translation.value(w), tuple(w.meta["val"].stride())) for w in wholes),
            tuple(self.translation.bounds),
        )  # fmt: skip


def _reader_of(tensor: Any) -> Callable[[], Any]:
    return lambda: numbers_of(tensor)
