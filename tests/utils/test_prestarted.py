"""Workers that tests fork from one that has imported them are as those that users start."""

import contextlib
import os
import platform
import signal
from pathlib import Path

import pytest

from autotune.measure.build.pool import BARE
from autotune.utils.children import Child, ChildDied
from tests.prestarted import started_anew


@pytest.mark.parametrize("forked", [True, False], ids=["forked", "started"])
def test_a_worker_is_our_child_in_a_group_of_its_own_and_ends_as_it_is_told(
    forked, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with contextlib.nullcontext() if forked else started_anew():
        worker = Child("autotune.measure.build.worker", bare=BARE)
    worker.send({})
    assert worker.receive(60) == {}
    process = Path(f"/proc/{worker.pid}")
    parent, group, session = process.joinpath("stat").read_text().rpartition(")")[2].split()[1:4]
    assert (int(parent), int(group), int(session)) == (os.getpid(), worker.pid, worker.pid)
    assert process.joinpath("cwd").resolve() == tmp_path.resolve()
    is_forked = "tests.prestarted" in process.joinpath("cmdline").read_text()
    assert is_forked == (forked and platform.machine() == "x86_64")
    os.kill(worker.pid, signal.SIGTERM)
    with pytest.raises(ChildDied, match="killed by SIGTERM"):
        worker.receive(60)
    worker.close()
    assert not process.exists()
