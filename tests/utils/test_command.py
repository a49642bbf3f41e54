import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.utils import environment
from autotune.utils.command import run
from autotune.utils.files import write_atomically


def python(text):
    return [sys.executable, "-c", text]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_output_errors_and_status_come_back():
    completed = run(python("import sys; print('out', flush=True); sys.exit('err')"))
    assert completed.returncode == 1
    assert completed.output == "out\nerr\n"
    assert not completed.timed_out


def test_input_is_empty():
    assert run(["cat"]).output == ""


def test_variables_are_set_beside_the_others():
    text = "import os; print(os.environ['ADDED'], 'PATH' in os.environ)"
    assert run(python(text), variables={"ADDED": "x"}).output == "x True\n"


def test_death_by_a_signal_is_told():
    completed = run(python("import os; os.kill(os.getpid(), 11)"))
    assert completed.returncode == -signal.SIGSEGV


def test_a_missing_program_is_an_error():
    with pytest.raises(FileNotFoundError):
        run(["no-such-program-anywhere"])


def test_seconds_for_which_we_were_suspended_do_not_count(tmp_path):
    """As after Ctrl-Z, or `docker pause`: what was waited for stood still, too."""
    pipe, timeout_s = tmp_path / "pipe", 3
    os.mkfifo(pipe)
    text = f"""
from autotune.utils.command import run
print(run(["cat", {str(pipe)!r}], {timeout_s}).timed_out)
"""
    ours = subprocess.Popen(python(text), stdout=subprocess.PIPE, start_new_session=True)
    try:
        with pipe.open("w"):  # as soon as the command runs, which ends when this is closed
            os.killpg(ours.pid, signal.SIGSTOP)
            time.sleep(1.2 * timeout_s)
        os.killpg(ours.pid, signal.SIGCONT)
        assert ours.communicate(timeout=60)[0] == b"False\n"
    finally:
        ours.kill()
        ours.wait()


def test_a_timeout_kills_the_whole_tree_and_keeps_what_was_said():
    text = "for i in 1 2 3; do sh -c 'echo $$; exec sleep 600' & done; wait"
    timeout_s, pids = 0.25, []
    while len(pids) < 3:  # they had time to say it
        timeout_s *= 2
        completed = run(["sh", "-c", text], timeout_s=timeout_s)
        assert completed.timed_out
        pids = [int(line) for line in completed.output.splitlines()]
    assert len(pids) == 3
    deadline = time.monotonic() + 5  # a killed process takes a moment to be gone
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pids))


ORPHANS = """
import os, sys, time
from autotune.utils.child import adopt
from autotune.utils.command import end_children
adopt()
reader, writer = os.pipe()
if os.fork() == 0:
    # Each leaves a child of a session of its own behind, which is ours from then on.
    for _ in range(20):
        if os.fork():
            os._exit(0)
        os.setsid()
    os.write(writer, b"x")
    time.sleep(60)
os.read(reader, 1)
end_children()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("all ended")
"""


def test_children_that_become_ours_while_others_are_ended_are_ended_too():
    assert run(python(ORPHANS), timeout_s=30).output == "all ended\n"


def test_a_command_stays_in_the_process_group_of_its_caller():
    completed = run(python("import os; print(os.getpgrp())"))
    assert int(completed.output) == os.getpgrp()


def test_a_link_stays_and_what_is_no_file_is_written_as_it_is(tmp_path):
    (tmp_path / "folder").mkdir()
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(tmp_path / "folder" / "file")
    for content in (b"one", b"two"):
        write_atomically(link, content)
        assert (tmp_path / "folder" / "file").read_bytes() == content
    assert link.is_symlink()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"three")
    assert os.read(reader, 100) == b"three"
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", b"four")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file"]
    blocked = path / "below-a-file"
    write_atomically(blocked, b"x", missing_ok=True)
    with pytest.raises(OSError, match=r"below-a-file|Not a directory|exists"):
        write_atomically(blocked, b"x")


def test_the_cache_folder_is_the_users_choice_or_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    assert environment.cache_dir() == tmp_path
    monkeypatch.delenv("AUTOTUNE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert environment.cache_dir() == Path("/somewhere/autotune")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert environment.cache_dir() == Path.home() / ".cache" / "autotune"
