"""A compiled network as a function of tensors, which it reads in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.errors import GraphError, KernelError
from autotune.graph import Constant, Graph, Value, Variable
from autotune.importers import TorchProgram, View
from autotune.network import CompiledNetwork
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device
from autotune.utils.lazy_torch import torch

# Bytes; what kernels that read vectors need.
_ALIGNMENT = 64


class Versions:
    """The state in which tensors were read: where they are, and how often they were written."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tuple(tensors)
        self._versions, self._pointers = self._now()

    def _now(self) -> tuple[list[int], list[int]]:
        # Each call of a network asks this of all parameters: a tenth of a microsecond each.
        tensors = self._tensors
        return [each._version for each in tensors], [each.data_ptr() for each in tensors]

    @property
    def changed(self) -> bool:
        """Whether a tensor was written in place, or has other memory, since then."""
        return self._now() != (self._versions, self._pointers)


def watched(tensors: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the tensors that tell when they are written; those of inference mode do not."""
    return tuple(each for each in tensors.values() if not each.is_inference())


class TensorNetwork:
    """A network of one program of torch on one device.

    Args:
        program: what it computes.
        compile_graph: compiles the graph; called again when parameters have changed.
        where: the device.

    Attributes:
        program: what it computes.
        network: the compiled network.
    """

    def __init__(
        self,
        program: TorchProgram,
        compile_graph: Callable[[Graph], CompiledNetwork],
        where: Device,
    ) -> None:
        self.program = program
        self._versions = Versions(watched(program.tensors))  # before they are read
        self.network = compile_graph(computed_part(program))
        self._torch = torch()
        self._where = where
        self._lock = threading.Lock()
        self._instance = self.network.instance(where)
        self._views = [self._torch.from_dlpack(each) for each in self._instance.outputs]
        # Of each tensor among the model's inputs: its number in the graph, and its shape.
        every = [each for each in program.inputs if each is not None]
        self._numbers = {each: i for i, each in enumerate(every)}
        self._types = [each.type for each in every]
        self._dtypes = [getattr(self._torch, each.dtype) for each in every]
        self._bound = [0] * len(every)
        self._copies: dict[int, Any] = {}
        self._stream: Any = None
        self._results = self._plan_results()

    def __call__(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Run on tensors on the network's device; return new tensors.

        On a GPU it is queued on torch's current stream. None is returned if parameters were
        written since they became constants: that is found out while the GPU is at work.

        Raises:
            KernelError: the stream is being captured.
        """
        with self._lock:
            stream = self._current_stream()
            for number, tensor in enumerate(inputs):
                self._bind(number, tensor)
            self._instance.start(stream)
            if self._versions.changed:
                return None
            if self.network.plan.copies:
                self._instance.wait()
            return [make(inputs) for make in self._results]

    def _current_stream(self) -> Any:
        """Return the stream to run on, after what was queued by earlier calls on another one."""
        if self._where.kind == "cpu":
            return None
        stream = self._torch.cuda.current_stream(self._where.index)
        if self._torch.cuda.is_current_stream_capturing():
            raise KernelError(
                "autotune.torch: a compiled model is a CUDA graph, which CUDA cannot capture in "
                "another one; call it outside of torch.cuda.graph"
            )
        if self._stream is not None and stream != self._stream:
            stream.wait_stream(self._stream)
        self._stream = stream
        return stream

    def _bind(self, number: int, tensor: Any) -> None:
        """Let the network read a tensor where it is, or a copy where it cannot."""
        pointer = tensor.data_ptr()
        if pointer % _ALIGNMENT or not tensor.is_contiguous() or tensor.is_conj():
            tensor = self._copied(number, tensor)
            pointer = tensor.data_ptr()
        if pointer == self._bound[number]:
            return
        kind = self._types[number]
        block = Block(pointer, 0, None)
        self._instance.bind_input(number, NDArray(self._where, kind.shape, kind.dtype, block))
        self._bound[number] = pointer

    def _copied(self, number: int, tensor: Any) -> Any:
        if number not in self._copies:
            self._copies[number] = self._torch.empty(
                tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device
            )
        self._copies[number].copy_(tensor.detach())
        return self._copies[number]

    # ---- results

    def _plan_results(self) -> list[Callable[[Sequence[Any]], Any]]:
        """Return for each result of the program what makes it of the inputs after a run."""
        places = {value: i for i, value in enumerate(computed(self.program))}
        found = []
        for each in self.program.results:
            if each.number is None:
                found.append(_constantly(each.value))
                continue
            value = self.program.graph.outputs[each.number]
            if each.alias is not None:
                found.append(self._alias(each.alias))
            elif isinstance(value, Variable):
                found.append(_copy_of_input(self._numbers[value]))
            else:
                found.append(_copy_of(self._views[places[value]]))
        return found

    def _alias(self, view: View) -> Callable[[Sequence[Any]], Any]:
        """Return what makes a result that is a view of an input, or of a parameter."""
        if isinstance(view.source, Variable):
            number = self._numbers[view.source]
            return lambda inputs: self._seen(inputs[number], view)
        tensor = self.program.tensors[view.source]
        return lambda inputs: self._seen(tensor, view)

    def _seen(self, tensor: Any, view: View) -> Any:
        """Return a view of a tensor; of a copy, if it does not lie as the example did."""
        if tensor.stride() != view.of_stride:
            copy = self._torch.empty_strided(
                tuple(tensor.shape), view.of_stride, dtype=tensor.dtype, device=tensor.device
            )
            tensor = copy.copy_(tensor.detach())
        offset = tensor.storage_offset() + view.offset
        return tensor.as_strided(view.size, view.stride, offset)


def _constantly(value: object) -> Callable[[Sequence[Any]], Any]:
    return lambda inputs: value


def _copy_of_input(number: int) -> Callable[[Sequence[Any]], Any]:
    return lambda inputs: inputs[number].clone()


def _copy_of(view: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda inputs: view.clone()


def computed(program: TorchProgram) -> tuple[Value, ...]:
    """Return the outputs of a program's graph that are computed, each once."""
    wanted = [
        program.graph.outputs[each.number]
        for each in program.results
        if each.number is not None and each.alias is None
    ]
    return tuple(dict.fromkeys(each for each in wanted if not isinstance(each, Variable)))


def computed_part(program: TorchProgram) -> Graph:
    """Return the graph of the outputs that are computed.

    Raises:
        GraphError: none is.
    """
    outputs = computed(program)
    if not outputs or all(isinstance(each, Constant) for each in outputs):
        raise GraphError("PyTorch: the program computes nothing")
    return Graph(program.graph.inputs, outputs)
