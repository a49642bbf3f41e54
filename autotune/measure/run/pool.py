"""The devices of one runner, and the state of each workload that is measured on them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from autotune.errors import MeasureError
from autotune.measure.check.naive import PlainLoops
from autotune.measure.check.policy import NONE
from autotune.measure.check.verify import Oracle
from autotune.measure.exclusive.devices import device_lock
from autotune.measure.interfaces import runs_on_host, target_of
from autotune.measure.process.pending import forward
from autotune.measure.run.device_process import LocalDeviceProcess
from autotune.measure.run.devices import AnyDevices, Devices
from autotune.measure.run.energy import require_meter
from autotune.measure.run.host_gate import HostGate
from autotune.measure.run.host_load import HostMeter
from autotune.measure.run.jobs import RaceJob, WorkerSetup
from autotune.measure.run.one_trial import RunOptions, job_of, run_trial
from autotune.measure.run.replies import Raced, why_not
from autotune.measure.run.value_files import Array
from autotune.measure.run.workload_state import WorkloadState
from autotune.measure.types import BuildResult, MeasureInput, MeasureResult
from autotune.runtime.timing import Timing
from autotune.target import Target, device_class
from autotune.workload import Workload

# A race times many candidates many times; each gets this much of what one trial may take.
_RACE_SHARE = 3.0
# Workloads of which anything is kept, and the part of the host's memory that files with their
# arguments and references may take, which is memory on many machines.
_MOST_WORKLOADS, _MEMORY_PART = 512, 8

BuiltTrial = tuple[MeasureInput, BuildResult]


@dataclass(frozen=True)
class RunPlan:
    """Options of a runner; the fields are its arguments.

    Attributes:
        options: of every trial.
        devices: indices of devices.
        device_process: class of what owns a device.
        memory_bytes: a kernel on the host may map, 0 for no limit.
        seed, ref_input: of the values of arguments.
        exclusive: whether other programs are held off while something is timed.
    """

    options: RunOptions
    devices: tuple[int, ...]
    device_process: type[LocalDeviceProcess]
    memory_bytes: int
    seed: int = 0
    ref_input: Sequence[Array] | None = field(default=None, repr=False, compare=False)
    exclusive: bool = True


class RunPool:
    """Measures trials of any workloads, in any order.

    Devices of a kind are started when a workload needs them, and the state of a workload is
    created with its first trial. Both are kept until `close`; a later trial starts them again.
    """

    def __init__(self) -> None:
        # When files with arguments and references take more, those of workloads without pending
        # trials are removed.
        self._most_bytes = physical_bytes() // _MEMORY_PART
        self._lock = threading.RLock()
        self._devices: dict[object, AnyDevices] = {}
        # The one that was used last is last.
        self._states: dict[Workload, WorkloadState] = {}
        # What was asked for last, found without a look at what a workload consists of.
        self._last: tuple[WorkloadState, AnyDevices] | None = None
        self._outdated: list[WorkloadState] = []
        self._meters: OrderedDict[Workload, HostMeter] = OrderedDict()
        self._loops = PlainLoops()
        self._gate: HostGate | None = None
        self._closing = self._over = False

    def share_host(self, gate: HostGate | None) -> None:
        """Time kernels on this host inside ``gate.quiet()``, and compute in ``gate.work()``."""
        self._gate = gate

    def prepare(self, workload: Workload, plan: RunPlan) -> None:
        """Let what takes time to get ready for a workload begin, and wait for none of it.

        Raises:
            DeviceError: there is no such device.
            MeasureError: the workload has no target, or another runs on the host alone.
        """
        self._ready(workload, plan)

    def _ready(self, workload: Workload, plan: RunPlan) -> tuple[WorkloadState, AnyDevices]:
        with self._lock:
            if self._closing:
                raise MeasureError(f"{workload.name}: the runner is being closed")
            if self._last is not None and self._last[0].workload is workload:
                return self._last
            devices = self._devices_for(target_of(workload), plan)
            state = self._states.pop(workload, None)
            if state is not None and not state.holds_for(workload):
                self._outdated.append(state)
                state = None
            self._states[workload] = state or self._met(workload, plan, devices)
            state = self._states[workload]
            self._last = state, devices
            return self._last

    def _devices_for(self, target: Target, plan: RunPlan) -> AnyDevices:
        """Return the devices on which kernels for a target run."""
        on_host = runs_on_host(target)
        if on_host not in self._devices:
            _refuse_mixed(target, plan.devices)
            setups = [_setup(target, device, plan) for device in plan.devices]
            for setup in setups:
                plan.device_process.require(setup)
                if plan.options.energy:
                    require_meter(target, setup.device)
            gate, kind = self._gate if on_host else None, plan.device_process
            self._devices[on_host] = Devices(
                setups,
                lambda setup, folder: kind(setup, gate, folder),
                plan.options.cooldown_s,
            )
        return self._devices[on_host]

    def _met(self, workload: Workload, plan: RunPlan, devices: AnyDevices) -> WorkloadState:
        """Return the state of a workload that is new."""
        oracle = Oracle(plan.seed, plan.ref_input, plan.options.verify, self._loops)
        run = partial(self._run, devices, plan.options)
        state = WorkloadState(workload, oracle, len(plan.devices), run, self._work)
        self._meters[workload] = state.host
        if plan.options.verify == NONE:
            state.ready.set_result(None)
        else:
            state.look_ahead()
        while len(self._meters) > _MOST_WORKLOADS:
            self._meters.popitem(last=False)
        return state

    def _work(self) -> AbstractContextManager[object]:
        return self._gate.work() if self._gate is not None else nullcontext()

    def submit(
        self, plan: RunPlan, inp: MeasureInput, built: BuildResult
    ) -> Future[MeasureResult]:
        """Queue one candidate for the next device that is free."""
        with self._lock:
            if self._closing:
                return _give_up()
            state, _ = self._ready(inp.task, plan)
        return state.sharing.submit(inp, built)

    def _run(
        self,
        devices: AnyDevices,
        options: RunOptions,
        state: WorkloadState,
        inp: MeasureInput,
        built: BuildResult,
    ) -> Future[MeasureResult]:
        """Queue a trial, as soon as no device has to wait for its reference."""
        with self._lock:
            state.under_way += 1

        work = partial(run_trial, state, options, inp, built)

        def queued() -> Future[MeasureResult]:
            future: Future[MeasureResult] = devices.queue.put(work)
            # Also of what was given up while it ran.
            future.add_done_callback(partial(self._end_trial, state))
            return future

        if state.ready.done():
            return queued()
        promised: Future[MeasureResult] = Future()
        state.ready.add_done_callback(lambda _: forward(queued(), promised))
        return promised

    def _end_trial(self, state: WorkloadState, _: object = None) -> None:
        with self._lock:
            state.under_way -= 1
            self._make_room()

    def _make_room(self) -> None:
        """Free the least recently used data while they take too much space."""
        idle = [one for one in self._states.values() if not one.under_way]
        if not idle:
            return
        left = sum(one.bytes for one in self._states.values())
        for one in idle:
            if left <= self._most_bytes:
                break
            taken = one.bytes
            left -= taken if one.release() else 0
        for one in idle[: max(0, len(self._states) - _MOST_WORKLOADS)]:
            if one.release():
                self._last = None
                del self._states[one.workload]

    def race(
        self,
        plan: RunPlan,
        candidates: Sequence[BuiltTrial],
        rounds: int,
        least_s: float,
        device: int | None,
    ) -> list[Timing]:
        """Time candidates of one workload in turn; see `LocalRunner.race`."""
        with self._lock:
            state, devices = self._ready(candidates[0][0].task, plan)
            state.under_way += 1
        try:
            runs = tuple(job_of(state, plan.options, *pair) for pair in candidates)
            timeout_s = plan.options.timeout_s * _RACE_SHARE * len(runs)
            job = RaceJob(runs, rounds, least_s, timeout_s, seed=len(runs))
            reply = devices.queue.put(lambda process: process.run(job), device).result()
        except CancelledError:
            raise MeasureError("the race was cut off: its runner was closed") from None
        finally:
            self._end_trial(state)
        if not isinstance(reply, Raced):
            raise MeasureError(f"the race of {len(runs)} candidates failed: {why_not(reply)}")
        state.host.add(reply.host, reply.timings)
        return list(reply.timings)

    def at_work(self, workload: Workload | None, plan: RunPlan) -> tuple[int, ...]:
        """Return the devices that measure a workload; without those that could not be started."""
        if workload is None:
            return plan.devices
        return self._ready(workload, plan)[1].at_work or plan.devices

    def host_note(self, workload: Workload) -> str:
        """Other load of the host while kernels of a workload were timed on it, in words."""
        meter = self._meters.get(workload)
        return "" if meter is None else meter.note

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return [pid for devices in list(self._devices.values()) for pid in devices.pids]

    def close(self) -> None:
        """Kill all processes, drop what waits, and remove all files.

        What is submitted meanwhile is given up: a device never has two processes.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
            devices = list(self._devices.values())
            states = [*self._states.values(), *self._outdated]
            loops, self._loops = self._loops, PlainLoops()
        try:
            for one in devices:
                one.close()
            loops.end()
            for each in states:
                each.close()
        finally:
            with self._lock:
                self._devices.clear()
                self._states.clear()
                self._last = None
                self._outdated.clear()
                self._closing = self._over

    def end(self) -> None:
        """Close for good: what is submitted from now on is given up, and starts nothing."""
        self._over = True
        self.close()


def _setup(target: Target, device: int, plan: RunPlan) -> WorkerSetup:
    isolated = runs_on_host(target)
    if isolated and device != 0:
        raise MeasureError(
            f"LocalRunner: target {target} runs on the CPU, which is device 0; got device {device}"
        )
    return WorkerSetup(
        str(target),
        device,
        isolated,
        plan.memory_bytes if isolated else 0,
        lock=device_lock(target, device) if plan.exclusive else None,
    )


def _refuse_mixed(target: Target, devices: Sequence[int]) -> None:
    """Refuse devices whose times cannot be compared.

    Raises:
        MeasureError: they are of several classes.
    """
    classes: dict[str, int] = {}
    for index in devices if len(devices) > 1 else ():
        if (known := device_class(target, index)) is not None:
            classes.setdefault(known, index)
    if len(classes) > 1:
        named = ", ".join(f"{index} is a {key}" for key, index in classes.items())
        raise MeasureError(
            f"LocalRunner: devices must be of one class, and {named}: what is fast on one need "
            "not be on the other. Give each class a runner of its own, see tune_classes"
        )


def _give_up() -> Future[MeasureResult]:
    future: Future[MeasureResult] = Future()
    future.cancel()
    return future


def physical_bytes() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
