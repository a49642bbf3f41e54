"""The time of a network kernel by kernel, with a lower bound for each."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from autotune.errors import AutotuneError, GraphError
from autotune.network.compiled import NetworkInstance
from autotune.network.plan import PlanStep
from autotune.runtime.roofline import Ceilings, ceilings_of
from autotune.utils.check import Check

_WIDEST = 44


@dataclass(frozen=True)
class StepReport:
    """One kernel of a network.

    Attributes:
        name: of the function.
        kernel: where the kernel comes from.
        seconds: of one run within the network, a median.
        share: of the sum of all.
        floor_s: what it takes at least for its arithmetic, and for its bytes if none is in a
            cache; None where that is unknown.
    """

    name: str
    kernel: str
    seconds: float
    share: float
    floor_s: float | None


@dataclass(frozen=True)
class NetworkReport:
    """All kernels of a network in the order of running; printed, it is a table.

    Attributes:
        steps: the kernels.
        seconds: the sum of their times.
    """

    steps: tuple[StepReport, ...]
    seconds: float

    def __str__(self) -> str:
        head = f"{'function':{_WIDEST}} {'us':>9} {'share':>6} {'floor':>8}  kernel"
        rows = [head]
        for each in self.steps:
            floor = "" if each.floor_s is None else f"{each.floor_s * 1e6:.1f}"
            rows.append(
                f"{each.name[:_WIDEST]:{_WIDEST}} {each.seconds * 1e6:9.1f} {each.share:6.1%} "
                f"{floor:>8}  {each.kernel}"
            )
        return "\n".join([*rows, f"{'sum':{_WIDEST}} {self.seconds * 1e6:9.1f}"])


def report(instance: NetworkInstance, rounds: int = 11, floors: bool = True) -> NetworkReport:
    """Time each kernel of a network between its neighbours.

    Args:
        instance: the network; it runs on what is in its inputs.
        rounds: how often.
        floors: whether to tell what each kernel takes at least; the device's rates are measured
            for it, once for each machine.
    """
    check = Check(GraphError, "report")
    check.kind("instance", instance, NetworkInstance, "an instance of a network")
    check.whole("rounds", rounds, least=1)
    instance.run()
    samples = [instance.step_seconds() for _ in range(rounds)]
    medians = [statistics.median(each) for each in zip(*samples, strict=True)]
    total = sum(medians)
    ceilings = _ceilings(instance) if floors else None
    network = instance.network
    rows = [
        StepReport(
            network.modules[step.kernel].name,
            step.unit.choice.provenance if step.unit is not None else "from a file",
            seconds,
            seconds / total if total else 0.0,
            _floor_s(step, ceilings),
        )
        for step, seconds in zip(network.plan.steps, medians, strict=True)
    ]
    return NetworkReport(tuple(rows), total)


def _ceilings(instance: NetworkInstance) -> Ceilings | None:
    try:
        return ceilings_of(instance.device)
    except AutotuneError:
        return None


def _floor_s(step: PlanStep, ceilings: Ceilings | None) -> float | None:
    if ceilings is None or step.function is None:
        return None
    dtype, flop = step.places[-1].dtype, step.function.flop
    if flop and dtype not in ceilings.flops:
        return None
    return ceilings.floor_s(flop, sum(place.bytes for place in step.places), dtype)
