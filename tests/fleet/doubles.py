"""Stand-ins for compilers and devices: what comes of a trial is written in its source."""

import errno
import itertools
import os
import re
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

from autotune.fleet.capabilities import AgentFacts, DeviceFacts
from autotune.measure.run.replies import Failed, Ran
from autotune.measure.types import BuildResult, MeasureErrorNo
from autotune.runtime import Descriptor, summarize

_numbers = itertools.count()
CPU = DeviceFacts("cpu:0", "0123", Descriptor("cpu", "Some CPU", "x86_64_x2", 2))
FACTS = AgentFacts("a1", "one", "host", 1, "1.0", "0123", "", "gcc", (CPU,), 1)


def define_of(source, name):
    """Returns what a macro of a source stands for."""
    return int(re.search(rf"#define {name} (\d+)", source)[1])


def expected_error(knob):
    """Returns the error number of the trial with this knob."""
    if knob % 7 == 3:
        return MeasureErrorNo.COMPILE_HOST
    return MeasureErrorNo.WRONG_ANSWER if knob % 5 == 2 else MeasureErrorNo.NO_ERROR


class Pool:
    """In place of `BuildPool`."""

    pids = ()
    full = False

    def __init__(self, size, tmp_dir):
        self.folder = tempfile.mkdtemp(prefix="autotune-test-")

    def put(self, job, timeout_s, future, reference):
        time.sleep(0.002)
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        knob = define_of(job.kernel.source, "KNOB")
        if expected_error(knob) == MeasureErrorNo.COMPILE_HOST:
            future.set_result(BuildResult("", job.kernel, {}, 2, f"knob {knob} is refused"))
            return
        path = Path(self.folder) / f"{next(_numbers)}.so"
        path.write_bytes(b"machine code " * 500 + str(knob).encode())
        future.set_result(BuildResult(str(path), job.kernel, code_hash=str(knob)))

    def pause(self):
        pass

    def resume(self):
        pass

    def paused_s(self):
        return 0.0

    def close(self):
        for path in Path(self.folder).glob("*"):
            path.unlink()
        os.rmdir(self.folder)


class Company:
    """So many devices, each of which runs its nth trial only while all others run theirs.

    Args:
        devices: how many; each is of a process of its own.
        folder: where they see each other, until there is a file ``over``.
    """

    def __init__(self, devices, folder):
        self.devices, self.folder, self.begun = int(devices), Path(folder), 0

    def meet(self):
        """Returns when all have begun as many trials; says whether they have."""
        self.begun += 1
        (self.folder / f"{os.getpid()}.{self.begun}").touch()
        end = time.monotonic() + 60
        while len([*self.folder.glob(f"*.{self.begun}")]) < self.devices:
            if time.monotonic() > end or (self.folder / "over").exists():
                return False
            time.sleep(0.002)
        return True


class LocalDeviceProcess:
    """In place of `LocalDeviceProcess`."""

    lies, seconds, company = False, 0.004, None

    def __init__(self, greeting, gate, folder):
        self.device, self.pid, self.busy_s, self.waited_s = greeting.device, None, 0.0, 0.0

    def start(self):
        pass

    def end(self):
        pass

    def close(self):
        pass

    def run(self, job):
        time.sleep(self.seconds)
        if self.company is not None and not self.company.meet():
            return Failed(MeasureErrorNo.RUNTIME_DEVICE, "the others do not run")
        for path in (job.artifact, *job.inputs, *(check.path for check in job.checks)):
            assert Path(path).stat().st_size, f"{path} is not here"
        knob = define_of(job.kernel.source, "KNOB")
        assert Path(job.artifact).read_bytes().endswith(b" " + str(knob).encode())
        if self.lies:
            return Failed(MeasureErrorNo.RUNTIME_DEVICE, "the driver is broken")
        if expected_error(knob):
            return Failed(MeasureErrorNo.WRONG_ANSWER, f"knob {knob} is wrong")
        return Ran(summarize([1e-5 * (1 + knob)] * 3, 1), verified=bool(job.checks))


def stand_in(kind):
    """Let agents of this process use them; ``"meets 4 folder"`` is one of a `Company`."""
    import autotune.fleet.executors as executors

    kind, *company = kind.split(" ", 2)
    LocalDeviceProcess.lies, LocalDeviceProcess.seconds = (
        kind == "liar",
        0.15 if kind == "slow" else 0.004,
    )
    if kind == "meets":
        LocalDeviceProcess.company = Company(*company)
    if kind == "mute":
        executors.DeviceExecutor.put = lambda self, ask, job: Future()
    Pool.full = kind == "full"
    executors.LocalDeviceProcess, executors.BuildPool = LocalDeviceProcess, Pool
