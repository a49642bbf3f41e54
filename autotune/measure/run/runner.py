"""Running on this machine, in one replaceable process for each device."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, ClassVar

from autotune.errors import MeasureError
from autotune.measure.check.policy import VerifyPolicy, verify_policy
from autotune.measure.interfaces import Runner, takes_batches, target_of
from autotune.measure.run.device_process import LocalDeviceProcess
from autotune.measure.run.host_gate import HostGate
from autotune.measure.run.one_trial import RunOptions
from autotune.measure.run.pool import RunPlan, RunPool, physical_bytes
from autotune.measure.run.timing import TimingPolicy
from autotune.measure.run.value_files import Array
from autotune.measure.types import (
    BuildResult,
    MeasureInput,
    MeasureResult,
    NamesTrial,
    as_trial,
)
from autotune.runtime.timing import Timing
from autotune.utils.check import Check
from autotune.workload import Workload

_CHECK = Check(MeasureError, "LocalRunner")


class LocalRunner(Runner):
    """Runs candidates on devices of this machine.

    Each device is owned by one process, which is replaced when a kernel crashes it, poisons its
    context or hangs; that costs the one trial. On a CPU each trial has a process of its own, and
    builders are paused while it is timed.

    Args:
        timeout: seconds that loading, timing and checking one candidate may take together.
        number: runs of one sample, by default 4; more where they would take less than 50 us.
        repeat: samples at least, by default 3; candidates near the best get more.
        min_repeat_ms: least duration of a sample, by default 0; `number` grows until it is
            reached. Emulated kernels are timed by one run: it says nothing of a GPU.
        cooldown_interval: seconds a device rests after a trial; never longer than it was timed,
            because what loads a kernel and compares its results does not heat the device.
        enable_cpu_cache_flush: time with cold caches on a CPU.
        module_loader: accepted as None for AutoTVM scripts.
        device: index of the device.
        devices: indices of several devices of this host; they share the work.
        use_graph: time replays of a CUDA graph, without launch overhead; by default that is done
            for kernels so short that launching them would be what is timed.
        flush_l2: time with a cold L2 cache on a GPU.
        verify: which results are compared with the reference: True or ``"all"`` (each; outputs of
            more than 256 MiB as ``"sample"`` says), ``"sample"`` (whatever is or comes near a new
            best and a tenth of the others; records say so), a share of the others from 0 to 1,
            False, or a `VerifyPolicy`.
        ref_input: values of all arguments in place of random ones.
        seed: of the random inputs.
        memory_bytes: memory a CPU kernel may map; by default all the machine has, 0 for no limit.
        exclusive: time and check only while no other program does on the same device; see
            `autotune.measure.exclusive`.
        timing: the finer points of timing; `number`, `repeat` and `min_repeat_ms` override it
            where they are given.
        energy: whether the energy of a run is measured too, for one or two seconds; not of those
            that cannot take the least. See docs/energy.md.
        check_correctness: accepted for AutoTVM scripts; `verify` says what is checked.

    Raises:
        MeasureError: an argument is out of range.
    """

    # Owns a device. Tests put doubles here.
    device_process: ClassVar[type[LocalDeviceProcess]] = LocalDeviceProcess
    can_race = True

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Let no race time past a `run` that says itself what counts as a time."""
        super().__init_subclass__(**kwargs)
        if "run" in vars(cls) and not {"race", "can_race"} & set(vars(cls)):
            cls.can_race = False

    def __init__(
        self,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: None = None,
        *,
        device: int = 0,
        devices: Sequence[int] | None = None,
        use_graph: bool | None = None,
        flush_l2: bool = False,
        verify: VerifyPolicy | bool | str | float = True,
        ref_input: Sequence[Array] | None = None,
        seed: int = 0,
        memory_bytes: int | None = None,
        exclusive: bool = True,
        timing: TimingPolicy | None = None,
        energy: bool = False,
        check_correctness: bool | None = None,
    ) -> None:
        del check_correctness
        _check(timeout, cooldown_interval, seed, memory_bytes, ref_input, module_loader)
        _check_flags(
            enable_cpu_cache_flush=enable_cpu_cache_flush, flush_l2=flush_l2, exclusive=exclusive,
            use_graph=False if use_graph is None else use_graph, energy=energy,
        )  # fmt: skip
        if energy and (flush_l2 or enable_cpu_cache_flush):
            raise MeasureError(
                "LocalRunner: energy=True measures runs behind each other, so it does not go with "
                "flush_l2 or enable_cpu_cache_flush: clearing takes energy too; leave one out"
            )
        self.devices = _choose([device] if devices is None else devices)
        super().__init__(timeout, len(self.devices))
        self.ref_input = ref_input
        self.seed = seed
        self.exclusive = exclusive
        self.memory_bytes = physical_bytes() if memory_bytes is None else memory_bytes
        self.options = RunOptions(
            timeout_s=timeout,
            timing=_policy(timing, number, repeat, min_repeat_ms),
            flush=enable_cpu_cache_flush or flush_l2,
            graph=use_graph,
            verify=verify_policy(verify),
            cooldown_s=cooldown_interval,
            energy=bool(energy),
        )
        self.energy = bool(energy)
        self._gate: HostGate | None = None
        self._pool = self._open_pool()
        # Scripts never close runners; the processes must then end with the runner, or the program.
        weakref.finalize(self, self._pool.end)

    def _open_pool(self) -> RunPool:
        """Return what measures for this runner."""
        return RunPool()

    @property
    def mixes_tasks(self) -> bool:
        """Whether trials of several tasks may be under way at once: unless a script forbids it.

        A subclass with a `set_task` or `run` of its own may rely on what the former was called
        with last.
        """
        own = takes_batches(self, LocalRunner, "run")
        return type(self).set_task is LocalRunner.set_task and not own

    @property
    def host_note(self) -> str:
        """Other load of the host while kernels of the task were timed on it, in words."""
        return "" if self.task is None else self.host_note_of(self.task)

    def host_note_of(self, task: Workload) -> str:
        """Return what else the host was at while kernels of a task were timed on it."""
        return self._pool.host_note(task)

    def share_host(self, gate: HostGate | None) -> None:
        """Time kernels on this host inside ``gate.quiet()``."""
        self._gate = gate or self._gate
        self._pool.share_host(self._gate)

    def start(self) -> None:
        """Start the processes that own the devices for the task, and do not wait for them.

        Its reference is computed meanwhile.

        Raises:
            DeviceError: there is no such device.
        """
        if self.task is not None:
            self._pool.prepare(self.task, self._plan())

    def get_build_kwargs(self) -> dict[str, object]:
        """Return the limits of the device, under AutoTVM's names."""
        if self.task is None or not target_of(self.task).backend.on_gpu:
            return {}
        limits = target_of(self.task).limits
        names = ("max_thread_x", "max_thread_y", "max_thread_z")
        checks = {
            "max_shared_memory_per_block": limits.shared_bytes,
            "max_threads_per_block": limits.threads_per_block,
            **dict(zip(names, limits.block_dim, strict=True)),
        }
        return {"checks": {"gpu": checks}}

    def submit(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        """Queue one candidate for the next device that is free.

        Where a subclass has a `run` of its own, that is called with it instead.
        """
        if takes_batches(self, LocalRunner, "run"):
            return super().submit(measure_input, build_result)
        return self._start(measure_input, build_result)

    def _start(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        return self._pool.submit(self._plan(), measure_input, build_result)

    def run(
        self,
        measure_inputs: Sequence[MeasureInput | NamesTrial],
        build_results: Sequence[BuildResult],
        verbose: int = 1,
    ) -> Sequence[MeasureResult]:
        """Run a batch and wait for it; ``verbose`` is kept for scripts of the auto-scheduler."""
        del verbose
        pairs = zip(measure_inputs, build_results, strict=True)
        # What the `run` of a subclass hands on must not come back to it.
        start = self._start if takes_batches(self, LocalRunner, "run") else self.submit
        return [future.result() for future in [start(as_trial(i), b) for i, b in pairs]]

    def race_devices(self) -> Sequence[int | None]:
        """Return all devices that are at work: a winner must win on each."""
        return self._pool.at_work(self.task, self._plan())

    def race(
        self,
        candidates: Sequence[tuple[MeasureInput, BuildResult]],
        rounds: int,
        least_s: float,
        device: int | None = None,
    ) -> list[Timing]:
        """Time built candidates in turn on one device.

        Raises:
            MeasureError: the race cannot be run; the message says why.
        """
        return self._pool.race(self._plan(), candidates, rounds, least_s, device)

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return self._pool.pids

    def _plan(self) -> RunPlan:
        return RunPlan(
            self.options,
            self.devices,
            self.device_process,
            self.memory_bytes,
            self.seed,
            self.ref_input,
            self.exclusive,
        )

    def close(self) -> None:
        """Kill the processes and remove the reference data; the next `submit` starts new ones.

        Work that is submitted while the processes end is cancelled: a device never has two.
        """
        if self._batcher is not None:
            self._batcher.stop()  # the batch at work ends with the processes
        self._pool.close()
        super().close()


def _policy(
    timing: TimingPolicy | None,
    number: int | None,
    repeat: int | None,
    min_repeat_ms: float | None,
) -> TimingPolicy:
    """Return the policy with whatever is given besides it."""
    if timing is not None:
        _CHECK.kind("timing", timing, TimingPolicy, "a TimingPolicy")
    given: dict[str, Any] = {}
    for name, value in (("number", number), ("repeat", repeat)):
        if value is not None:
            given[name] = _CHECK.whole(name, value, least=1)
    if min_repeat_ms is not None:
        _CHECK.number("min_repeat_ms", min_repeat_ms, least=0)
        given["min_repeat_ms"] = min_repeat_ms
    return replace(timing or TimingPolicy(), **given)


def _choose(devices: object) -> tuple[int, ...]:
    """Return the devices asked for as plain numbers."""
    if isinstance(devices, str) or not isinstance(devices, Iterable):
        _CHECK.refuse("devices", "a list of numbers", devices)
    chosen = tuple(_CHECK.whole("device", device, least=0) for device in devices)
    if not chosen or len(set(chosen)) != len(chosen):
        _CHECK.refuse("devices", "distinct, and one at least", list(chosen))
    return chosen


def _check_flags(**flags: object) -> None:
    for name, value in flags.items():
        _CHECK.flag(name, value)


def _check(
    timeout: float,
    cooldown_interval: float,
    seed: int,
    memory_bytes: int | None,
    ref_input: object,
    module_loader: object,
) -> None:
    _CHECK.seconds("timeout", timeout, endless=True)
    _CHECK.number("cooldown_interval", cooldown_interval, least=0)
    _CHECK.whole("seed", seed, least=0)
    if memory_bytes is not None:
        _CHECK.whole("memory_bytes", memory_bytes, least=0)
    if ref_input is not None:
        _CHECK.sequence("ref_input", ref_input, "a list of arrays")
    if module_loader is not None:
        expected = "None, as it is for remote devices, which do not exist here"
        _CHECK.refuse("module_loader", expected, module_loader)
