"""Temporary files where no code may be loaded from (noexec), as on hardened hosts."""

import subprocess
import sys
import textwrap

import pytest

from tests.forked import ROOT

MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o noexec none "$0" && exec "$@"']
SCRIPT = """
import sys
import autotune
from autotune import te

A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")

@autotune.template("tests/noexec")
def add():
    return te.create_schedule(B.op), [A, B]

try:
    if sys.argv[1] == "build":
        autotune.build(te.create_schedule(B.op), [A, B], target="c").executable
    else:
        task = autotune.create("tests/noexec", (), sys.argv[1])
        option = autotune.measure_option("local", "local")
        autotune.tuner.GridSearchTuner(task).tune(1, option)
except autotune.AutotuneError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(autouse=True, scope="module")
def own_mounts(tmp_path_factory):
    try:
        subprocess.run([*MOUNT, str(tmp_path_factory.mktemp("m")), "true"], check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no file system can be mounted here")


@pytest.mark.parametrize("what", ["build", "c"])
def test_a_folder_that_no_code_is_loaded_from_is_said_with_what_to_do(what, tmp_path):
    command = [*MOUNT, str(tmp_path), "env", f"TMPDIR={tmp_path}", sys.executable]
    command += ["-c", textwrap.dedent(SCRIPT), what]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    first = done.stdout.partition("\n")[0]
    assert first.endswith(
        "cannot be loaded: the file system of the temporary files is mounted noexec; set TMPDIR "
        "to a folder from which programs may run"
    ), done.stdout
    assert "attempts" not in done.stdout
