"""TVM's ``runtime.vm``: networks that ``relay.vm.compile`` made, run by name of function."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.runtime.device import Device
from autotune.tvm.relay.executor import CompiledFunction, Result
from autotune.tvm.relay.library import GraphExecutorFactoryModule
from autotune.utils.check import Check

__all__ = ["Executable", "VirtualMachine"]

Executable = GraphExecutorFactoryModule


class VirtualMachine:
    """Runs a compiled network, whose extents are constant here.

    Args:
        exe: what ``relay.vm.compile`` returned.
        device: where it runs.
        memory_cfg: accepted.
    """

    def __init__(self, exe: Executable, device: Device, memory_cfg: object = None) -> None:
        del memory_cfg
        expected = "what relay.vm.compile returns"
        Check(GraphError, "VirtualMachine").kind("exe", exe, Executable, expected)
        self._main = CompiledFunction(exe, device)
        self._inputs: tuple[tuple[object, ...], dict[str, object]] = (), {}

    def set_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Keep the inputs of the next `run`, in order or by name."""
        self._only_main("set_input", func_name)
        self._inputs = args, kwargs

    def run(self, *args: object, **kwargs: object) -> Result:
        """Run the main function on inputs, or on those of `set_input`; return its results."""
        if args or kwargs:
            self.set_input("main", *args, **kwargs)
        positional, named = self._inputs
        return self._main(*positional, **named)

    def invoke(self, func_name: str, *args: object, **kwargs: object) -> Result:
        """Run a function, which is ``"main"``."""
        self._only_main("invoke", func_name)
        return self.run(*args, **kwargs)

    @staticmethod
    def _only_main(method: str, name: object) -> None:
        Check(GraphError, method).one_of("func_name", name, ("main",))
