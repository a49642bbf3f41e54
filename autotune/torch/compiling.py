"""How a graph of torch becomes a compiled network: target, tuning, log."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from autotune.errors import KernelError
from autotune.graph import Graph
from autotune.network import (
    CompiledNetwork,
    History,
    SharedKernels,
    compile_network,
    tune_network,
)
from autotune.runtime.device import Device
from autotune.utils.check import Check
from autotune.utils.lazy_torch import torch

logger = logging.getLogger("autotune")

_NAMES = ("tune", "log")
# Of torch's devices that kernels run on.
_KINDS = {"cpu": "cpu", "cuda": "cuda"}


@dataclass(frozen=True)
class Compiling:
    """How graphs are compiled.

    Attributes:
        tune: seconds for tuning each network; 0 for none.
        log: of tuning; where it has records they are used, with and without ``tune``.

    Raises:
        KernelError: an argument is invalid, or there is no log to tune into.
    """

    tune: float = 0.0
    log: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check = Check(KernelError, "autotune.torch")
        check.number("tune", self.tune, least=0)
        if self.log is not None:
            check.path("log", self.log)
        if self.tune and self.log is None:
            check.refuse("log", "a path where tune is given: it keeps what was found", self.log)

    @staticmethod
    def of(options: Mapping[str, Any] | None) -> Compiling:
        """Return what the options of `torch.compile` say.

        Raises:
            KernelError: there is no such option, or its value is invalid.
        """
        given = dict(options or {})
        for name in given:
            Check(KernelError, "torch.compile(backend='autotune')").one_of("option", name, _NAMES)
        return Compiling(**given)

    def compile(
        self,
        graph: Graph,
        over: Mapping[int, int] | None = None,
        *,
        where: Device,
        shared: SharedKernels | None = None,
    ) -> CompiledNetwork:
        """Compile a graph for a device; tune it first where that is asked for.

        Args:
            graph: the graph.
            over: outputs that may be in the memory of an input; see `compile_network`.
            where: the device.
            shared: kernels of the model's networks; untuned ones are taken from it and added.
        """
        target = where.target
        if self.tune and self.log is not None:
            made = tune_network(
                graph, None, target, budget_s=self.tune, log=self.log, on_round=None
            )
            if not over:
                return made
        if self.log is None:
            return compile_network(graph, target, over=over, shared=shared)
        if not os.path.exists(self.log):
            logger.warning(
                "autotune.torch: there is no log %s; the model runs untuned. Check the path, or "
                "give tune= seconds to tune it into that log", self.log,
            )  # fmt: skip
            return compile_network(graph, target, over=over)
        history = History(self.log)
        return compile_network(
            graph, target, history.pipeline(graph, target), choose=history.choose,
            branches=history.branches(graph, target), over=over,
        )  # fmt: skip


def compile_lock() -> AbstractContextManager[Any]:
    """Return the lock of dynamo, to be held while torch exports a model.

    Meanwhile torch replaces methods of all modules, which dynamo would see in another thread.
    """
    found = torch()._dynamo.convert_frame
    lock: AbstractContextManager[Any] = getattr(found, "compile_lock", nullcontext())
    return lock


def device_of(tensor: Any) -> Device:
    """Return the device of a tensor.

    Raises:
        KernelError: no kernels run there.
    """
    kind = _KINDS.get(tensor.device.type)
    if kind is None:
        raise KernelError(
            f"autotune.torch: tensors must be on a CPU or a CUDA GPU, got {tensor.device}"
        )
    return Device(kind, tensor.device.index or 0)  # type: ignore[arg-type]
