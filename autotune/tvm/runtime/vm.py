"""TVM's ``runtime.vm``: networks that ``relay.vm.compile`` made, run by name of function."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.device import Device
from autotune.tvm.contrib.graph_executor import NetworkBenchmark
from autotune.tvm.relay.executor import CompiledFunction, Result
from autotune.tvm.relay.library import GraphExecutorFactoryModule
from autotune.utils.check import Check

__all__ = ["Executable", "VirtualMachine"]

# What `Executable.save` returns beside the library, in which everything is.
_CODE = b"autotune: all is in the library"


class Executable(GraphExecutorFactoryModule):
    """A network that ``relay.vm.compile`` made."""

    def save(self) -> tuple[bytearray, Executable]:
        """Return code and library, as TVM writes them to two files; the library has everything."""
        return bytearray(_CODE), self

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: GraphExecutorFactoryModule) -> Executable:
        """Return the network of a library that was read, and of the code that was saved with it.

        Raises:
            GraphError: the code is TVM's, or the library none of a network.
        """
        check = Check(GraphError, "load_exec")
        if bytecode != _CODE:
            check.refuse("bytecode", "what Executable.save returned here", bytecode)
        check.kind("lib", lib, GraphExecutorFactoryModule, "what load_module read of a network")
        return Executable(lib.network, lib.ir_mod, lib.libmod_name)


class VirtualMachine:
    """Runs a compiled network, whose extents are constant here.

    Args:
        exe: what ``relay.vm.compile`` returned, or ``tvm.runtime.load_module`` read.
        device: where it runs, alone or first in a list, as TVM names the host behind it.
        memory_cfg: accepted.
    """

    def __init__(
        self,
        exe: GraphExecutorFactoryModule,
        device: Device | list[Device],
        memory_cfg: object = None,
    ) -> None:
        del memory_cfg
        check = Check(GraphError, "VirtualMachine")
        check.kind("exe", exe, GraphExecutorFactoryModule, "what relay.vm.compile returns")
        chosen = device[0] if isinstance(device, list) and device else device
        if not isinstance(chosen, Device):
            check.refuse("device", "a device, such as tvm.cpu()", device)
        self._main = CompiledFunction(exe, chosen)
        self._results: list[NDArray] = []
        self._into: tuple[NDArray, ...] = ()

    def set_input(self, /, func_name: str, *args: object, **kwargs: object) -> None:
        """Copy the inputs of the next `run`, in order or by name.

        Raises:
            GraphError: an input is missing, unknown, or given twice.
        """
        self._only_main("set_input", func_name)
        self._main.set_inputs(args, kwargs)

    def set_one_input(self, /, func_name: str, *args: object, **kwargs: object) -> None:
        """Copy one input, and leave the others: its name or number, and the array.

        Raises:
            GraphError: there is no such input, or more than one.
        """
        self._only_main("set_one_input", func_name)
        given = [(args[0], args[1])] if len(args) == 2 else []
        given += kwargs.items()
        if len(given) != 1 or len(args) not in (0, 2):
            raise GraphError(
                "set_one_input: expected a name and an array, such as ('x', array) or x=array, "
                f"got {len(args)} arguments in order and {len(kwargs)} by name"
            )
        ((key, value),) = given
        if not isinstance(key, str | int):
            Check(GraphError, "set_one_input").refuse("key", "the name or number of an input", key)
        self._main.module.set_input(key, value)

    def set_outputs(self, /, func_name: str, *args: NDArray) -> None:
        """Name the arrays that the next run writes its results to.

        Raises:
            GraphError: there are not as many as results, or they are no arrays of the runtime.
        """
        self._only_main("set_outputs", func_name)
        for each in args:
            Check(GraphError, "set_outputs").kind("args", each, NDArray, "arrays of tvm.nd")
        expected = self._main.module.get_num_outputs()
        if len(args) != expected:
            raise GraphError(f"set_outputs: expected {expected} arrays, got {len(args)}")
        self._into = args

    def run(self, /, *args: object, **kwargs: object) -> Result:
        """Run the main function on inputs, or on those of `set_input`; return its results."""
        if args or kwargs:
            self.set_input("main", *args, **kwargs)
        found = self._main.run()
        self._results = found if isinstance(found, list) else [found]
        into, self._into = self._into, ()
        if into:
            self._results = [
                out.copyfrom(each) for out, each in zip(into, self._results, strict=True)
            ]
        return self._results[0] if len(self._results) == 1 else self._results

    def invoke(self, /, func_name: str, *args: object, **kwargs: object) -> Result:
        """Run a function, which is ``"main"``."""
        self._only_main("invoke", func_name)
        return self.run(*args, **kwargs)

    def invoke_stateful(self, /, func_name: str, *args: object, **kwargs: object) -> None:
        """Run a function, whose results `get_outputs` returns."""
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[NDArray]:
        """Return the results of the last run; later runs do not change them.

        Raises:
            GraphError: nothing has been run.
        """
        if not self._results:
            raise GraphError("get_outputs: expected a run before it, as invoke_stateful(...)")
        return list(self._results)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the number of an input, -1 if there is none of the name."""
        self._only_main("get_input_index", func_name)
        return self._main.module.get_input_index(input_name)

    def benchmark(
        self,
        device: Device,
        /,
        *args: object,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> NetworkBenchmark:
        """Time whole runs on inputs, or on those that are set; see `GraphModule.benchmark`.

        Args:
            device: where it runs.
            args: inputs in order.
            func_name: ``"main"``.
            repeat: how many measurements.
            number: runs in each.
            min_repeat_ms: least milliseconds of one.
            limit_zero_time_iterations: accepted for TVM's scripts.
            end_to_end: whether inputs come from the host and outputs go there each time.
            cooldown_interval_ms: pause between measurements.
            repeats_to_cooldown: after how many.
            kwargs: inputs by name.
        """
        self._only_main("benchmark", func_name)
        if args or kwargs:
            self.set_input("main", *args, **kwargs)
        return self._main.module.benchmark(
            device,
            repeat=repeat,
            number=number,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            end_to_end=end_to_end,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )

    @staticmethod
    def _only_main(method: str, name: object) -> None:
        Check(GraphError, method).one_of("func_name", name, ("main",))
