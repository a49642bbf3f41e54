"""TVM's graph executor: a network with named inputs, run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.errors import GraphError
from autotune.network import NetworkInstance, load_param_dict
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.device import Device
from autotune.runtime.evaluator import BenchmarkResult
from autotune.runtime.timing import TimeOptions
from autotune.utils.check import Check, is_whole

_WIDTH, _TAIL = 12, 15


class NetworkBenchmark(BenchmarkResult):
    """Times of a network, in seconds, printed as TVM prints them."""

    def __str__(self) -> str:
        names = ("mean (ms)", "median (ms)", "max (ms)", "min (ms)", "std (ms)")
        numbers = (self.mean, self.median, self.max, self.min, self.std)
        head = " ".join(name.center(_WIDTH) for name in names)
        row = " ".join(f"{each * 1e3:.4f}".center(_WIDTH) for each in numbers)
        return f"Execution time summary:\n{head}\n{row}{' ' * _TAIL}"


class GraphModule:
    """A network on a device: ``GraphModule(lib["default"](dev))``."""

    def __init__(self, module: object) -> None:
        if isinstance(module, GraphModule):
            module = module.module
        if not isinstance(module, NetworkInstance):
            raise GraphError(
                f'GraphModule: expected lib["default"](dev) of relay.build, got {module!r}'
            )
        self.module: NetworkInstance = module
        plan = module.network.plan
        self._names = {name: i for i, name in enumerate(plan.input_names)}

    def set_input(
        self, /, key: str | int | None = None, value: object = None, **params: object
    ) -> None:
        """Copy to an input, known by name or number; keywords that are no input are skipped.

        Values of another dtype are converted, as TVM does; that is logged once an input.

        Raises:
            GraphError: there is no such input, or its dtype cannot hold the values: fractions
                for whole numbers, or numbers beyond its range.
            KernelError: the shape is another.
        """
        if key is None and value is not None:
            Check(GraphError, "set_input").refuse("key", "the name or number of an input", key)
        if key is not None:
            self.module.set_input(self._index(key), value)
        self._set(params)

    def set_input_zero_copy(self, key: str | int, value: object) -> None:
        """Let runs read an array in place, without a copy, until another input is set so.

        Raises:
            GraphError: there is no such input, or the array is of another shape, dtype or device.
        """
        self.module.bind_input(self._index(key), value)

    def _set(self, params: Mapping[str, object]) -> None:
        for name, each in params.items():
            if name in self._names:
                self.module.set_input(self._names[name], each)

    def _index(self, key: str | int) -> int:
        index = self._names.get(key, -1) if isinstance(key, str) else key
        if not is_whole(index, 0, len(self.module.inputs) - 1):
            names = ", ".join(self._names)
            raise GraphError(f"Could not find '{key}' in graph's inputs; expected one of {names}")
        return index

    def run(self, /, **input_dict: object) -> None:
        """Begin to run on the inputs, after setting those that are given.

        On a GPU it only queues work; reading an output waits, as in TVM.
        """
        self._set(input_dict)
        self.module.start()

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """Return an output, or copy it to ``out``; the next run overwrites it."""
        last = len(self.module.outputs) - 1
        Check(GraphError, "get_output").whole("index", index, least=0, most=last)
        self.module.wait()
        return self._copied(self.module.outputs[index], out)

    def get_input(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """Return an input, or copy it to ``out``."""
        return self._copied(self.module.inputs[self._index(index)], out)

    @staticmethod
    def _copied(array: NDArray, out: NDArray | None) -> NDArray:
        if out is None:
            return array
        Check(GraphError, "graph executor").kind("out", out, NDArray, "an array of tvm.nd")
        return out.copyfrom(array)

    def get_input_index(self, name: str) -> int:
        """Return the number of an input, -1 if there is none of the name."""
        return self._names.get(Check(GraphError, "get_input_index").text("name", name), -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and dtypes of the inputs by name."""
        own = {name: self.module.inputs[i] for name, i in self._names.items()}
        shapes = {name: each.shape for name, each in own.items()}
        return shapes, {name: each.dtype for name, each in own.items()}

    def get_num_inputs(self) -> int:
        """Return the number of inputs that are no parameters."""
        return len(self.module.inputs)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.module.outputs)

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from what ``save_param_dict`` wrote."""
        self._set(load_param_dict(params_bytes))

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> NetworkBenchmark:
        """Time whole runs; with ``end_to_end`` the copies of inputs and outputs too.

        Args:
            device: where it runs.
            func_name: ``"run"``.
            repeat: how many measurements.
            number: runs in each.
            min_repeat_ms: least milliseconds of one.
            limit_zero_time_iterations: accepted for TVM's scripts.
            end_to_end: whether inputs come from the host and outputs go there each time.
            cooldown_interval_ms: pause between measurements.
            repeats_to_cooldown: after how many.
            kwargs: inputs.
        """
        if device != self.module.device or func_name != "run":
            raise GraphError(
                f"benchmark: expected 'run' on {self.module.device}, got {func_name!r} on {device}"
            )
        check = Check(GraphError, "benchmark")
        check.number("cooldown_interval_ms", cooldown_interval_ms, least=0)
        if min_repeat_ms is not None:
            check.number("min_repeat_ms", min_repeat_ms, least=0)
        self._set(kwargs)
        options = TimeOptions(
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
            cooldown_interval_s=cooldown_interval_ms * 1e-3,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        timed = self.module.time_end_to_end(options) if end_to_end else self.module.time(options)
        return NetworkBenchmark(timed.results, timed.timing)

    def __getitem__(self, key: str) -> Any:
        functions = {"run": self.run, "set_input": self.set_input, "get_output": self.get_output}
        if not isinstance(key, str) or key not in functions:
            raise GraphError(f"graph executor: expected one of {[*functions]}, got {key!r}")
        return functions[key]


def create(
    graph_json_str: object,
    libmod: Any,
    device: Device | list[Device] | None = None,
    ctx: Device | list[Device] | None = None,
) -> GraphModule:
    """Return a network from the three parts that older scripts take apart.

    Args:
        graph_json_str: accepted; the library has the graph.
        libmod: the library of ``relay.build``.
        device: where it runs, alone or in a list; ``ctx`` is the same by TVM's old name.

    Raises:
        GraphError: the library is none of a network, or there is not one device.
    """
    del graph_json_str
    check = Check(GraphError, "create")
    if not hasattr(libmod, "network"):
        check.refuse("libmod", "the library of relay.build", libmod)
    given = ctx if device is None else device
    chosen = given[0] if isinstance(given, list) and len(given) == 1 else given
    if not isinstance(chosen, Device):
        check.refuse("device", "one device, such as tvm.cpu()", given)
    return GraphModule(libmod["default"](chosen))
