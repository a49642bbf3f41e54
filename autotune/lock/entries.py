"""An entry of a lock file: what is pinned of a kernel, and how it is determined."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.driver import as_built, kernel_of, source_hash
from autotune.errors import AutotuneError
from autotune.kernel import Kernel
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record import best_of_each
from autotune.record.database import row_of
from autotune.record.frame import choices_of
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.compile.elf import code_hash
from autotune.runtime.compile.toolchain import host_cpu, host_toolchain, nvcc_toolchain
from autotune.target import Target, cuda_device
from autotune.task import ConfigEntity, Task
from autotune.task.workload import Workload
from autotune.utils.quantities import counted
from autotune.utils.scratch import temporary_folder

# Hexadecimal digits of a hash that people are shown.
SHOWN = 12


@dataclass(frozen=True)
class Locked:
    """One pinned kernel.

    Attributes:
        measure_input, result: the record that it was chosen by.
        device: name of the device on which it was locked.
        device_class: what it is pinned for, see `device_class_of`.
        text_sha256: of the kernel's text and of how it is launched, see `text_hashes`.
        code_sha256: of the instructions and constants of the cubin or shared object.
        compiler: which compiler made that, as it names itself.
    """

    measure_input: MeasureInput
    result: MeasureResult
    device: str
    device_class: str
    text_sha256: str
    code_sha256: str
    compiler: str

    @property
    def task(self) -> Task:
        """The task."""
        return Task.of(self.measure_input.task)

    @property
    def workload(self) -> Workload:
        """The task's name and arguments."""
        return self.task.workload

    @property
    def config(self) -> ConfigEntity:
        """The configuration."""
        return ConfigEntity.of(self.measure_input.config)

    @property
    def title(self) -> str:
        """The workload on one line."""
        return f"{self.task.name}{tuple(self.task.args)}"

    @property
    def row(self) -> dict[str, Any]:
        """Its row in the lock file."""
        result = self.result
        return {
            "task": self.task.name,
            "args": repr(tuple(self.task.args)),
            "target": str(self.measure_input.target),
            "device": self.device,
            "device_class": self.device_class,
            "config": {name: str(value) for name, value in choices_of(self.config).items()},
            "text_sha256": self.text_sha256,
            "code_sha256": self.code_sha256,
            "compiler": self.compiler,
            "microseconds": result.seconds * 1e6,
            "evidence": _evidence(result),
            "record": row_of(self.measure_input, result),
        }


def _evidence(result: MeasureResult) -> str:
    known, said = result.evidence, []
    if known.race is not None and known.race.candidates[1:]:
        said.append(f"winner of a race of {len(known.race.candidates)}")
    if known.samples:
        said.append(f"median of {counted(known.samples, 'sample')}")
    if known.ci95:
        low, high = (f"{1e6 * seconds:.4g}" for seconds in known.ci95)
        said.append(f"95% within {low} to {high} us")
    said.append("answer checked" if known.verified else "answer not checked")
    return ", ".join(said)


def lock_records(
    records: Iterable[Pair], timeout_s: float = 600.0
) -> tuple[list[Locked], list[str]]:
    """Build the best record of each workload and target, and return what is to be pinned.

    Args:
        records: of templates that are imported; with the winners of races.
        timeout_s: seconds the compiler may take for one kernel.

    Returns:
        the entries, in an order that does not depend on that of the records; and one line for
        each record that cannot be pinned, which says why.
    """
    locked, problems = [], []
    for inp, result in best_of_each(records):
        if not isinstance(inp.task, Task):
            problems.append(f"{inp.task.name}: no template makes it, so nothing can be pinned")
            continue
        try:
            locked.append(_locked(inp, result, timeout_s))
        except AutotuneError as error:
            line = str(error).strip().partition("\n")[0]
            problems.append(f"{inp.task.name}{tuple(inp.task.args)}: {line}")
    return sorted(locked, key=lambda each: (each.title, str(each.measure_input.target))), problems


def _locked(inp: MeasureInput, result: MeasureResult, timeout_s: float) -> Locked:
    made = Task.of(inp.task).realise(inp.config).what
    kernel = kernel_of(made, inp.target)
    return Locked(
        measure_input=inp,
        result=result,
        device=device_name(inp.target),
        device_class=device_class_of(inp.target),
        text_sha256=text_hashes(kernel)[0],
        code_sha256=machine_code(kernel, inp.target, timeout_s),
        compiler=compiler_of(inp.target),
    )


def text_hashes(kernel: Kernel) -> tuple[str, str]:
    """Return the hash of a kernel's text and flags, its arguments, launches and workspaces.

    The first, which locks hold, does not count comments and layout; the second, of older locks,
    does.
    """
    facts = (kernel.source, kernel.flags, kernel.args, kernel.calls, kernel.workspace)
    exact = hashlib.sha256(repr(facts).encode("utf-8", "replace")).hexdigest()
    return source_hash(kernel, None), exact


def machine_code(kernel: Kernel, target: Target, timeout_s: float) -> str:
    """Build a kernel, and return the hash of its machine code.

    Raises:
        CompileError: it cannot be built.
    """
    with temporary_folder("lock") as folder:
        built = as_built(kernel, target)
        output = compile_kernel(built, target, timeout_s=timeout_s, out_dir=folder)
        return code_hash(Path(output.artifact).read_bytes())


def compiler_of(target: Target) -> str:
    """Return how the compiler of a target names itself, on one line."""
    on_gpu = target.backend.on_gpu and not target.emulate
    toolchain = nvcc_toolchain() if on_gpu else host_toolchain(cxx=target.emulate)
    lines = [line.strip() for line in toolchain.version.splitlines() if line.strip()]
    named = [line for line in lines if "release" in line] or lines
    return named[0] if named else toolchain.command[0]


def device_class_of(target: Target) -> str:
    """Return for which devices a time and machine code mean something.

    Of CUDA that is the architecture, ``"cuda sm_90"``; machine code for the CPU is made for this
    very kind of CPU, of which a digest is in the name.
    """
    if target.backend.on_gpu and not target.emulate:
        return f"cuda {target.arch}"
    return f"cpu {platform.machine()} {host_cpu()}"


def device_name(target: Target) -> str:
    """Return the name of the device here on which kernels of a target run."""
    if target.backend.on_gpu and not target.emulate:
        facts = cuda_device(0)
        return facts.name if facts else "no device"
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
