"""TVM's debug executor: a network whose runs print the time of each kernel."""

from __future__ import annotations

import statistics
from typing import Any

from autotune.errors import GraphError
from autotune.network import NetworkReport, report
from autotune.runtime.device import Device
from autotune.tvm.contrib import graph_executor
from autotune.tvm.contrib.graph_executor import GraphModule
from autotune.utils.check import Check

__all__ = ["GraphModuleDebug", "create"]


class GraphModuleDebug(GraphModule):
    """A network that can be timed kernel by kernel; what it computes is the same.

    Kernels are those that run: functions of fused operators, not single operators.

    Args:
        module: ``lib["debug_create"]("default", dev)`` or ``lib["default"](dev)``.
        device, graph_json_str, dump_root: accepted for TVM's scripts; no files are written.
    """

    def __init__(
        self,
        module: object,
        device: object = None,
        graph_json_str: object = None,
        dump_root: object = None,
    ) -> None:
        del device, graph_json_str, dump_root
        super().__init__(module)

    def run(  # type: ignore[override]
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 1,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        sort_by_time: bool = True,
        **input_dict: object,
    ) -> None:
        """Run, and print a table of the kernels.

        Args:
            number, repeat: how often; their product is the number of runs.
            min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown:
                accepted for TVM's scripts.
            sort_by_time: whether the slowest kernels come first.
            input_dict: inputs.
        """
        del min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown
        super().run(**input_dict)
        print(self.debug_get_output_table(number * repeat, sort_by_time))

    def debug_get_output_table(self, rounds: int = 10, sort_by_time: bool = True) -> str:
        """Return the table that `run` prints."""
        found = report(self.module, rounds, floors=False)
        if sort_by_time:
            steps = sorted(found.steps, key=lambda step: -step.seconds)
            found = NetworkReport(tuple(steps), found.seconds)
        return str(found)

    def profile(self, collectors: object = None, **input_dict: object) -> NetworkReport:
        """Run, and return the times of the kernels, which print as a table.

        Args:
            collectors: none; there are no others than of time.
            input_dict: inputs.

        Raises:
            GraphError: collectors were given.
        """
        if collectors:
            Check(GraphError, "profile").refuse("collectors", "None: times alone", collectors)
        super().run(**input_dict)
        return report(self.module, floors=False)

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[float]:
        """Return the median seconds of each kernel, in the order of running; see `run`."""
        del min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown
        rounds = Check(GraphError, "run_individual").whole("number", number * repeat, least=1)
        self.module.run()
        samples = [self.module.step_seconds() for _ in range(rounds)]
        return [statistics.median(each) for each in zip(*samples, strict=True)]

    def exit(self) -> None:
        """Do nothing: no files were written."""


def create(
    graph_json_str: object,
    libmod: Any,
    device: Device | list[Device] | None = None,
    dump_root: object = None,
    ctx: Device | list[Device] | None = None,
) -> GraphModuleDebug:
    """Return a network from the parts that scripts take apart.

    Args:
        graph_json_str: accepted; the library has the graph.
        libmod: the library of ``relay.build``.
        device: where it runs; ``ctx`` is the same by TVM's old name.
        dump_root: accepted; no files are written.
    """
    del dump_root
    return GraphModuleDebug(graph_executor.create(graph_json_str, libmod, device, ctx))
