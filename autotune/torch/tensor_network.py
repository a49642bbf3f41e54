"""A compiled network as a function of tensors, which it reads in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autotune.errors import KernelError
from autotune.graph import Constant, Graph, Value, Variable
from autotune.importers import IdleError, Output, TorchProgram, View, written_inputs
from autotune.network import CompiledNetwork, InstanceMemory, NetworkInstance
from autotune.runtime.arrays.array import NDArray, array
from autotune.runtime.arrays.memory import Block
from autotune.runtime.arrays.versions import note_written
from autotune.runtime.device import Device
from autotune.runtime.nvidia.libcuda import entered, is_captured, primary_context
from autotune.torch.bounds import IndexChecks
from autotune.torch.versions import Versions, watched
from autotune.utils.lazy_torch import torch

# Bytes; what kernels that read vectors need.
_ALIGNMENT = 64

# Makes a result of the inputs, after a run.
Make = Callable[[Sequence[Any]], Any]


class TensorNetwork:
    """A network of one program of torch on one device.

    Args:
        program: what it computes.
        compile_graph: compiles the graph, of which some outputs may be in the memory of inputs.
        where: the device.

    Attributes:
        program: what it computes.
        network: the compiled network.
    """

    def __init__(
        self,
        program: TorchProgram,
        compile_graph: Callable[[Graph, Mapping[int, int]], CompiledNetwork],
        where: Device,
    ) -> None:
        self.program = program
        self._versions = Versions(watched(program.tensors))  # before they are read
        # Of each tensor among the model's inputs: its number in the graph, and its shape.
        taken = [i for i, each in enumerate(program.inputs) if each is not None]
        self._place = {number: i for i, number in enumerate(taken)}
        # Places of inputs that are written; of those that kernels write, with their outputs.
        self._written = [self._place[i] for i in written_inputs(program.writes)]
        may = self._may_write_over()
        # On a GPU a check would wait for it.
        self._checks = IndexChecks(program.bounds if where.kind == "cpu" else ())
        graph = computed_part(program, self._checks.output)
        self.network = compile_graph(graph, {k: i for i, k in may.items()})
        plan, alone = self.network.plan, not self.network.branches
        self._over = {i: k for i, k in may.items() if alone and plan.may_write_over(i, k)}
        self._torch = pytorch = torch()
        self._where = where
        self._lock = threading.Lock()
        self._instance = self.network.instance(where)
        every = [each for each in program.inputs if each is not None]
        self._numbers = {each: i for i, each in enumerate(every)}
        self._types = [each.type for each in every]
        self._bound = [0] * len(every)
        self._copies: dict[int, Any] = {}
        self._constants = {
            value: pytorch.from_dlpack(array(value.array, where))
            for value in _outputs(program)
            if isinstance(value, Constant)
        }
        # Of results that share memory: the place, the number of that memory, and the view.
        count = len(self._written)
        self._within = [
            (count + i, int(each.within.source), each.within)
            for i, each in enumerate(program.results) if each.within is not None
        ]  # fmt: skip
        outputs = [pytorch.from_dlpack(each) for each in self._instance.outputs]
        if self._checks.output is not None:
            self._checks.watch(outputs.pop().numpy())
        self._plan = self._plan_results(outputs)
        # The stream of the last run, and its handle.
        self._stream: Any = None
        self._handle = -1
        ask = getattr(pytorch._C, "_cuda_getCurrentRawStream", None)
        self._current = ask or (lambda index: pytorch.cuda.current_stream(index).cuda_stream)

    @property
    def is_outdated(self) -> bool:
        """Whether parameters were written since they became constants."""
        return self._versions.changed

    def __call__(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Run on tensors on the network's device; return new tensors.

        On a GPU it is queued on torch's current stream. None is returned if parameters were
        written since they became constants: that is found out while the GPU is at work.

        Raises:
            KernelError: a tensor has no memory, or the stream is captured and parameters were
                written; on a CPU also that an index is out of range.
        """
        with self._lock:
            stream = None
            if self._where.kind != "cpu":
                stream = self._current(self._where.index)
                if is_captured(stream):
                    return self._captured(inputs, stream)
                if stream != self._handle:
                    self._follow(stream)
            if self._over and self._versions.changed:
                return None
            copies = {
                number: copy
                for number, tensor in enumerate(inputs)
                if (copy := self._bind(number, tensor)) is not None
            }
            self._instance.start(stream)
            if not self._over and self._versions.changed:
                return None
            self._checks()
            return self._made(inputs, self._plan, copies)

    def _follow(self, handle: int) -> None:
        """Let torch's current stream wait for what was queued by earlier calls on another one."""
        stream = self._torch.cuda.current_stream(self._where.index)
        if self._stream is not None:
            stream.wait_stream(self._stream)
        self._stream, self._handle = stream, handle

    # ---- inputs

    def _bind(self, number: int, tensor: Any) -> Any:
        """Let the network read a tensor where it is, or a copy where it cannot: return that."""
        pointer, copy = self._readable(tensor), None
        if not pointer:
            if number not in self._copies:
                self._copies[number] = self._like(tensor)
            copy = self._copies[number].copy_(tensor.detach())
            pointer = copy.data_ptr()
        if pointer != self._bound[number]:
            self._instance.read(number, self._at(number, pointer))
            if number in self._over:
                self._instance.write(self._over[number], self._at(number, pointer))
            self._bound[number] = pointer
        return copy

    def _readable(self, tensor: Any) -> int:
        """Return where a tensor is, if kernels can read it there; otherwise 0.

        Raises:
            KernelError: it is in no memory.
        """
        try:
            pointer: int = tensor.data_ptr()
        except RuntimeError as error:
            raise KernelError(
                f"autotune.torch: an input has no memory ({str(error).partition('.')[0]}); "
                "compiled models take plain tensors, not those of vmap and other transforms"
            ) from error
        plain = tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()
        return pointer if plain and not pointer % _ALIGNMENT else 0

    def _like(self, tensor: Any) -> Any:
        return self._torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    def _at(self, number: int, pointer: int, owner: object = None) -> NDArray:
        kind = self._types[number]
        return NDArray(self._where, kind.shape, kind.dtype, Block(pointer, 0, owner))

    # ---- captures

    def _captured(self, inputs: Sequence[Any], stream: int) -> list[Any]:
        """Add a run to the CUDA graph that torch captures, on memory of its own.

        A graph may be replayed at any time, also while calls run; so torch allocates what it
        reads and writes, in the memory of that graph.
        """
        if self._versions.changed:
            raise KernelError(
                "autotune.torch: parameters were written since the last call, and a network is "
                "not compiled while a CUDA graph is captured; call the model once before"
            )
        with entered(primary_context(self._where.index)):
            read = [
                each if self._readable(each) else self._like(each).copy_(each.detach())
                for each in inputs
            ]
            over = {output: read[place] for place, output in self._over.items()}
            plan = self.network.plan
            written = [
                over[i] if i in over else self._allocated(each.shape, each.dtype)
                for i, each in enumerate(plan.outputs)
            ]
            memory = InstanceMemory(
                [self._at(i, each.data_ptr(), each) for i, each in enumerate(read)],
                [self._held(each, own.dtype)
                 for each, own in zip(written, plan.outputs, strict=True)],
                lambda shape, dtype: self._held(self._allocated(shape, dtype), dtype),
            )  # fmt: skip
            instance: NetworkInstance = self.network.instance(self._where, memory)
            instance.add_to_capture(stream)
        copies = {i: each for i, each in enumerate(read) if each is not inputs[i]}
        return self._made(inputs, self._plan_results(iter(written)), copies)

    def _allocated(self, shape: Sequence[int], dtype: str) -> Any:
        device = self._torch.device("cuda", self._where.index)
        return self._torch.empty(tuple(shape), dtype=getattr(self._torch, dtype), device=device)

    def _held(self, tensor: Any, dtype: str) -> NDArray:
        """Return a tensor as an array, which keeps it."""
        block = Block(tensor.data_ptr(), tensor.nbytes, tensor)
        return NDArray(self._where, tuple(tensor.shape), dtype, block)

    # ---- results

    def _may_write_over(self) -> dict[int, int]:
        """Return the inputs whose new numbers may be in their place, with the outputs."""
        outputs, every = computed(self.program), self.program.graph.outputs
        kept = [
            each.number for each in self.program.results
            if each.alias is None and each.within is None
        ]  # fmt: skip
        used = [
            *every[: len(self._written)],
            *(every[i] for i in kept if i is not None),
            *(value for value, _ in self.program.wholes),
        ]
        found = {}
        for place, value in zip(self._written, used, strict=False):
            alone = used.count(value) == 1 and self.program.graph.inputs[place] not in used
            if alone and value in outputs:
                found[place] = outputs.index(value)
        return found

    def _made(
        self, inputs: Sequence[Any], plan: Sequence[Make], copies: Mapping[int, Any]
    ) -> list[Any]:
        """Write inputs back, and return the results.

        Args:
            inputs: of the call.
            plan: of `_plan_results`.
            copies: what was read in the place of inputs.
        """
        count = len(self._written)
        # Results may be of the numbers before they are written.
        every = [make(inputs) for make in plan]
        wholes = every[: len(self.program.wholes)]
        found = every[len(wholes) :]
        for place, whole, view in self._within:
            found[place] = wholes[whole].as_strided(view.size, view.stride, view.offset)
        if count:
            late = [i for i in self._written if i in copies or i not in self._over]
            numbers = dict(zip(self._written, found, strict=False))
            write_back(inputs, late, [copies[i] if i in self._over else numbers[i] for i in late])
            note_written([inputs[i] for i in self._over if i not in copies])
        return found[count:]

    def _plan_results(self, outputs: Iterable[Any]) -> list[Make]:
        """Return what makes after a run what results share, what is written, and each result."""
        written = dict(zip(computed(self.program), outputs, strict=True)) | self._constants

        def result(value: Value, output: Output) -> Make:
            if isinstance(value, Variable):
                return _same(self._numbers[value], output)
            if output.stride is not None:
                return _copy_with_strides(written[value], output.stride)
            return (_constantly if output.lent else _copy_of)(written[value])

        found = [
            result(value, Output(None, stride=stride)) for value, stride in self.program.wholes
        ]
        for number in range(len(self._written)):
            value = self.program.graph.outputs[number]
            if isinstance(value, Variable):  # which may be written itself before it is read
                found.append(_same(self._numbers[value], Output(number)))
            else:
                found.append(_constantly(written[value]))
        for each in self.program.results:
            if each.number is None:
                found.append(_constantly(each.value))
                continue
            value = self.program.graph.outputs[each.number]
            if each.within is not None:
                found.append(_constantly(None))  # it is a view of what is made before
            elif each.alias is not None:
                found.append(self._alias(each.alias))
            else:
                found.append(result(value, each))
        return found

    def _alias(self, view: View) -> Make:
        """Return what makes a result that is a view of an input, or of a parameter."""
        if isinstance(view.source, int):
            number = self._place[view.source]
            return lambda inputs: seen(inputs[number], view)
        tensor = self.program.tensors[view.source]
        return lambda inputs: seen(tensor, view)


def seen(tensor: Any, view: View) -> Any:
    """Return a view of a tensor; of a copy, if it does not lie as the example did."""
    if tensor.stride() != view.of_stride:
        tensor = _with_strides(tensor, view.of_stride)
    offset = tensor.storage_offset() + view.offset
    return tensor.as_strided(view.size, view.stride, offset)


def write_back(inputs: Sequence[Any], places: Sequence[int], numbers: Sequence[Any]) -> None:
    """Write numbers, which are in other memory, to some of the inputs."""
    for place, each in zip(places, numbers, strict=True):
        inputs[place].copy_(each)


def _constantly(value: object) -> Make:
    return lambda inputs: value


def _same(number: int, output: Output) -> Make:
    """Return what makes a result that has the elements of an input."""

    def make(inputs: Sequence[Any]) -> Any:
        given = inputs[number]
        stride = output.stride or given.stride()
        if output.lent and given.stride() == stride:
            return given
        return _with_strides(given, stride)

    return make


def _copy_of(output: Any) -> Make:
    clone = output.clone
    return lambda inputs: clone()


def _copy_with_strides(output: Any, stride: Sequence[int]) -> Make:
    return lambda inputs: _with_strides(output, stride)


def _with_strides(tensor: Any, stride: Sequence[int]) -> Any:
    made = torch().empty_strided(
        tuple(tensor.shape), stride, dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor.detach())


def _outputs(program: TorchProgram) -> dict[Value, None]:
    """Return the outputs of a program's graph that are neither inputs nor views, each once."""
    wanted = list(program.graph.outputs[: len(program.writes)])
    wanted += [
        program.graph.outputs[each.number]
        for each in program.results
        if each.number is not None and each.alias is None and each.within is None
    ]
    wanted += [value for value, _ in program.wholes]
    return dict.fromkeys(each for each in wanted if not isinstance(each, Variable))


def computed(program: TorchProgram) -> tuple[Value, ...]:
    """Return the outputs of a program's graph that are computed, each once."""
    return tuple(each for each in _outputs(program) if not isinstance(each, Constant))


def computed_part(program: TorchProgram, more: Value | None = None) -> Graph:
    """Return the graph of the outputs that are computed, and of one more where one is given.

    Raises:
        IdleError: none is.
    """
    outputs = computed(program)
    if not outputs:
        raise IdleError("PyTorch: the program computes nothing")
    return Graph(program.graph.inputs, outputs if more is None else (*outputs, more))
