"""A temporary folder that is full: trials wait for room, and are never said to have failed."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SPACE = 6
# A file system of one's own, without being root: the mount is seen by this process alone.
MOUNT = "mount -t tmpfs -o size=24m none {folder} && exec "

SCRIPT = """
    import contextlib, os, sys, tempfile, threading
    from concurrent.futures import Future, InvalidStateError
    from autotune.errors import MeasureError
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import GridSearchTuner
    from autotune.tuner.callback import log_to_file
    import autotune.task as at
    import tests.measure.kernels

    log, freed = sys.argv[1], float(sys.argv[2])
    ballast = os.path.join(tempfile.gettempdir(), "ballast")

    def fill(tuner, inputs, results):
        if filled.is_set():
            return
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        filled.set()
        if freed:
            threading.Timer(freed, os.unlink, [ballast]).start()

    class Builder(LocalBuilder):
        # Builds all but the first only when the folder is full.
        first = True

        def submit(self, measure_input):
            if self.first:
                self.first = False
                return super().submit(measure_input)
            held = Future()
            submit = lambda: super(Builder, self).submit(measure_input).result()
            threading.Thread(target=self.build_later, args=(submit, held), daemon=True).start()
            return held

        def build_later(self, submit, held):
            filled.wait()
            with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                try:
                    held.set_result(submit())
                except BaseException as error:
                    held.set_exception(error)

    filled = threading.Event()
    task = at.create("measure_test.scale", (64, 6), target="c")
    option = measure_option(
        Builder(n_parallel=1, cache=False), LocalRunner(number=1, cooldown_interval=0)
    )
    try:
        GridSearchTuner(task).tune(
            6, option, callbacks=[log_to_file(log), fill], resume=log, finalists=0
        )
    except MeasureError as error:
        print(error)
    assert filled.is_set()
"""


def run(folder, freed):
    disk, log = folder / "disk", folder / "log.json"
    disk.mkdir(exist_ok=True)
    inner = MOUNT.format(folder=disk) + '"$@"'
    command = ["unshare", "-rm", "sh", "-c", inner, "sh", "env", f"TMPDIR={disk}", sys.executable]
    command += ["-c", textwrap.dedent(SCRIPT), str(log), str(freed)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    records = [json.loads(line) for line in lines if not line.startswith("#")]
    assert all(record["result"][1] == 0 for record in records)
    return sorted(record["config"]["index"] for record in records), done.stdout.strip()


@pytest.fixture(autouse=True, scope="module")
def own_mounts(tmp_path_factory):
    probe = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        MOUNT.format(folder=tmp_path_factory.mktemp("m")) + "true",
    ]
    try:
        subprocess.run(probe, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no file system can be mounted here")


def test_trials_wait_until_there_is_room_again(tmp_path):
    assert run(tmp_path, freed=1.0) == (list(range(SPACE)), "")


def test_a_disk_that_stays_full_ends_the_run_in_one_line_and_resume_goes_on(tmp_path):
    indices, told = run(tmp_path, freed=0)
    assert indices == [0]
    assert "temporary files cannot be written in" in told
    assert "No space left on device; free space there or set TMPDIR" in told
    assert "\n" not in told
    # The next start finds room: its file system is a new one, filled once more for a while.
    assert run(tmp_path, freed=0.5) == (list(range(SPACE)), "")
