"""A model of torch compiled for its example inputs."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from autotune.errors import KernelError
from autotune.importers import exported, read_program, with_inputs, writes_of, written_inputs
from autotune.network import CompiledNetwork
from autotune.torch.aliasing import NoAliasing
from autotune.torch.call_signature import CallSignature
from autotune.torch.compiling import Compiling, compile_lock
from autotune.torch.tensor_network import TensorNetwork
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch


class CompiledModel:
    """A function of tensors with the signature of the model; made by `compile`.

    It is for inference: its results have no gradients. Inputs and buffers that the model writes,
    such as caches, are written. Parameters are constants. When they are written (an optimiser's
    step, ``load_state_dict``), the next call compiles the network again, of which all kernels are
    there already. Writing through ``parameter.data`` is not seen, nor are other tensors or numbers
    that are put into the place of the model's. A copy has parameters and buffers of its own.
    """

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], how: Compiling
    ) -> None:
        self._signature = CallSignature(model, args, kwargs)
        self._where = self._signature.where
        with compile_lock():
            self._program = exported(model, args, kwargs)
        written = {each.name for each in writes_of(self._program) if each.input is None}
        self._names = with_inputs(self._program, written)
        self._how = how
        self._lock = threading.Lock()
        self._run = self._compiled()

    def _compiled(self) -> TensorNetwork:
        with compile_lock():
            program = read_program(self._program)
        # Buffers that are written are inputs of the network, before those of a call.
        every = {**self._program.constants, **self._program.state_dict}
        self._held = [every[name] for name in self._names]
        taken = [i for i, each in enumerate(program.inputs) if each is not None]
        self._written = [taken.index(i) for i in written_inputs(program.writes)]
        # With the strides that it is for: threads may call with others.
        self._apart: tuple[list[Any], NoAliasing | None] = [], None
        made = TensorNetwork(program, partial(self._how.compile, where=self._where), self._where)
        alone = program.structure is None or program.structure.is_leaf()
        self._put_together = itemgetter(0) if alone else self._unflattened
        return made

    def _unflattened(self, results: list[Any]) -> Any:
        return torch().utils._pytree.tree_unflatten(results, self._run.program.structure)

    def __copy__(self) -> CompiledModel:
        """Return itself: it has no state but the parameters."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModel:
        """Return one with copies of the parameters, from kernels that exist already."""
        made = CompiledModel.__new__(CompiledModel)
        made.__dict__ = self.__dict__ | {
            "_program": copy.deepcopy(self._program, memo), "_lock": threading.Lock()
        }  # fmt: skip
        made._run = made._compiled()
        return made

    def __reduce__(self) -> str:
        """Refuse to be pickled: kernels belong to this process."""
        raise KernelError(
            "autotune.torch: a compiled model cannot be pickled; save the model, and compile it "
            "where it is loaded, with the log of its tuning"
        )

    @property
    def network(self) -> CompiledNetwork:
        """The compiled network, for `autotune.network.report` and others."""
        return self._run.network

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on tensors like those that it was compiled for.

        Raises:
            KernelError: shapes, dtypes, devices, the structure or other arguments differ.
        """
        tensors = self._signature.tensors(args, kwargs)
        if self._run.program.writes:
            with torch().no_grad():
                return self._writing([*self._held, *tensors])
        return self._computed(tensors)

    def _writing(self, tensors: Sequence[Any]) -> Any:
        """Run what writes some of the tensors."""
        strides = [each.stride() for each in tensors]
        known, apart = self._apart
        if apart is None or strides != known:
            apart = NoAliasing(tensors, self._written, self._run.program.tensors.values())
            self._apart = strides, apart
        if not apart(tensors):
            raise KernelError(
                "compiled model: an input or buffer that the model writes shares memory with "
                "another one or a parameter, or has several elements in one place; pass a copy"
            )
        return self._computed(tensors)

    def _computed(self, tensors: Sequence[Any]) -> Any:
        results = self._run(tensors)
        while results is None:
            results = self._renewed(tensors)
        return self._put_together(results)

    def _renewed(self, tensors: Sequence[Any]) -> list[Any] | None:
        """Return the results with the parameters as they are now."""
        with self._lock:
            results = self._run(tensors)
            if results is None:
                self._run = self._compiled()
                results = self._run(tensors)
        return results


def compile(
    model: Any,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    tune: float = 0,
    log: str | os.PathLike[str] | None = None,
) -> CompiledModel:
    """Compile a model for the device, the shapes and the dtypes of example inputs.

    Args:
        model: an ``nn.Module`` in ``eval`` mode, a ScriptModule, or an exported program.
        example_inputs: a tensor, or a tuple of them, on a CPU or a CUDA GPU.
        example_kwargs: those that are passed by name.
        tune: seconds for tuning.
        log: the log of tuning; its records are used by later calls with and without ``tune``.

    Raises:
        GraphError: the model cannot be imported; operators that are missing are all listed.
        KernelError: torch is missing, or an argument is invalid.

    Example::

        fast = autotune.torch.compile(model.cuda().eval(), image, tune=60, log="model.log")
        labels = fast(image).argmax(1)
    """
    pytorch = torch()
    named: Any = {} if example_kwargs is None else example_kwargs
    if not isinstance(named, Mapping):
        expected = "a dict of the inputs that are passed by name; several others are one tuple"
        Check(KernelError, "autotune.torch.compile").refuse(
            "example_kwargs", expected, type(named).__name__
        )
    several = isinstance(example_inputs, (tuple, list))
    args = tuple(example_inputs) if several else (example_inputs,)
    with pytorch.no_grad():
        return CompiledModel(model, args, dict(named), Compiling(tune, log))
