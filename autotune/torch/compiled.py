"""A model of torch compiled for its example inputs."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from autotune.errors import GraphError, KernelError
from autotune.importers import exported, read_program
from autotune.network import CompiledNetwork
from autotune.torch.compiling import Compiling, device_of
from autotune.torch.tensor_network import TensorNetwork
from autotune.utils.lazy_torch import torch


class CompiledModel:
    """A function of tensors with the signature of the model; made by `compile`.

    It is for inference: its results have no gradients. Parameters are constants. When they are
    written (an optimiser's step, ``load_state_dict``), the next call compiles the network again,
    of which all kernels are there already. Writing through ``parameter.data`` is not seen, nor are
    other tensors or numbers that are put into the place of the model's.
    """

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], how: Compiling
    ) -> None:
        self._program = exported(model, args, kwargs)
        self._how = how
        self._tree = torch().utils._pytree
        self._lock = threading.Lock()
        leaves = self._tree.tree_leaves((tuple(args), dict(kwargs)))
        tensors = [each for each in leaves if isinstance(each, torch().Tensor)]
        if not tensors:
            raise KernelError("autotune.torch.compile: example_inputs must have a tensor")
        self._where = device_of(tensors[0])
        self._types = [(tuple(t.shape), t.dtype, t.device) for t in tensors]
        self._run = self._compiled()

    def _compiled(self) -> TensorNetwork:
        program = read_program(self._program)
        if program.mutated:
            raise GraphError(
                f"autotune.torch.compile: the model writes {', '.join(sorted(program.mutated))} "
                "in place, which a network cannot do; return the new values instead"
            )
        return TensorNetwork(program, partial(self._how.compile, where=self._where), self._where)

    @property
    def network(self) -> CompiledNetwork:
        """The compiled network, for `autotune.network.report` and others."""
        return self._run.network

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on tensors like those that it was compiled for.

        Raises:
            KernelError: shapes, dtypes or devices are others.
        """
        leaves = self._tree.tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch().Tensor)]
        self._check(tensors)
        results = self._run(tensors)
        while results is None:
            results = self._renewed(tensors)
        return self._tree.tree_unflatten(results, self._run.program.structure)

    def _renewed(self, tensors: Sequence[Any]) -> list[Any] | None:
        """Return the results with the parameters as they are now."""
        with self._lock:
            results = self._run(tensors)
            if results is None:
                self._run = self._compiled()
                results = self._run(tensors)
        return results

    def _check(self, tensors: Sequence[Any]) -> None:
        found = [(tuple(t.shape), t.dtype, t.device) for t in tensors]
        if found == self._types:
            return
        for number, (given, expected) in enumerate(zip(found, self._types, strict=False)):
            if given != expected:
                raise KernelError(
                    f"compiled model: input {number} must be {_text(expected)}, as the example "
                    f"was, got {_text(given)}; compile it for these shapes too, or use "
                    "torch.compile(model, backend='autotune')"
                )
        raise KernelError(f"compiled model: expected {len(self._types)} tensors, got {len(found)}")


def _text(kind: tuple[Any, ...]) -> str:
    shape, dtype, where = kind
    return f"{dtype} {tuple(shape)} on {where}"


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
    several = isinstance(example_inputs, (tuple, list))
    args = tuple(example_inputs) if several else (example_inputs,)
    with pytorch.no_grad():
        return CompiledModel(model, args, dict(example_kwargs or {}), Compiling(tune, log))
