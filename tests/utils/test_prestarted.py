"""Workers that tests fork from one that has imported them are as those that users start."""

import contextlib
import os
import platform
import signal
import sys
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


@pytest.mark.parametrize("forked", [True, False], ids=["forked", "started"])
def test_a_worker_has_the_folder_variables_and_path_of_when_it_was_started(
    forked, tmp_path, monkeypatch
):
    monkeypatch.setattr("tests.prestarted.WORKERS", ("echo_child",))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with contextlib.nullcontext() if forked else started_anew():
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            monkeypatch.chdir(tmp_path / name)
            monkeypatch.syspath_prepend(str(tmp_path / name))
            child = Child("echo_child", {f"AUTOTUNE_{name}": "1"})
            child.send(("surroundings", None))
            folder, variables, path = child.receive(60)
            child.close()
            assert folder == os.getcwd()
            assert variables == {**os.environ, f"AUTOTUNE_{name}": "1"}
            assert path == sys.path
