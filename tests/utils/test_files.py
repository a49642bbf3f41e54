"""Files that users ask for: whole or not at all, and for whom the umask says."""

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
import threading

import pytest

from autotune.utils.files import publish, write_atomically


@pytest.fixture
def umask():
    """Sets the umask, and sets it back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_umask_says_who_may_read_what_a_user_asked_for(tmp_path, umask, mask, mode):
    umask(mask)
    publish(tmp_path / "new" / "report.html", b"text")
    assert mode_of(tmp_path / "new" / "report.html") == mode
    assert mode_of(tmp_path / "new") == 0o777 & ~mask


def test_a_file_that_is_replaced_keeps_its_mode_and_links_lead_to_it(tmp_path):
    path, link = tmp_path / "report.html", tmp_path / "link.html"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    publish(link, b"new")
    assert (path.read_text(), mode_of(path), link.is_symlink()) == ("new", 0o640, True)


def test_a_link_to_itself_is_an_error_of_the_system(tmp_path):
    path = tmp_path / "x.log"
    path.symlink_to(path)
    for write in (publish, write_atomically):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            write(path, b"new")
    assert path.is_symlink()


def test_our_own_files_are_for_this_user_alone_whatever_was_there(tmp_path):
    path = tmp_path / "cache"
    path.write_text("old")
    write_atomically(path, b"new")
    assert mode_of(path) == 0o600


def test_a_pipe_stays_what_it_is_with_the_mode_it_has(tmp_path):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    path.chmod(0o666)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    publish(path, b"text")
    reader.join(20)
    assert got == [b"text"]
    assert (stat.S_ISFIFO(path.stat().st_mode), mode_of(path)) == (True, 0o666)


def test_standard_output_is_a_file_to_write_to_also_where_it_is_a_pipe():
    code = "from pathlib import Path; from autotune.utils.files import publish\n"
    code += "publish(Path('/dev/stdout'), b'text')"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"text"


def test_where_there_is_no_room_the_old_file_stays_and_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            publish(path, bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_is_killed_leaves_nothing_beside_the_file(tmp_path):
    (tmp_path / "x.log").write_text("before")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom autotune.utils.files import publish\n"
        "def pieces():\n    yield b'x' * 100000\n    print('writing', flush=True)\n"
        "    time.sleep(60)\n    yield b'y'\n"
        "publish(Path(sys.argv[1]), pieces())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        writer.kill()
    assert [each.name for each in tmp_path.iterdir()] == ["x.log"]
    assert (tmp_path / "x.log").read_text() == "before"


def killed_at(call, path):
    """Publish a file in a process that is killed after its `link`, or before its `replace`."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom autotune.utils.files import publish\n"
        f"call = os.{call}\n"
        "def end(*args, **options):\n"
        f"    {call == 'link'} and call(*args, **options)\n    os.kill(os.getpid(), 9)\n"
        f"os.{call} = end\n"
    )
    command = [sys.executable, "-c", f"{code}publish(Path(sys.argv[1]), b'killed')", str(path)]
    assert subprocess.run(command, check=False).returncode == -9


def test_a_writer_of_a_new_file_that_is_killed_leaves_the_whole_file_alone(tmp_path):
    killed_at("link", tmp_path / "x.log")
    assert [each.name for each in tmp_path.iterdir()] == ["x.log"]
    assert (tmp_path / "x.log").read_bytes() == b"killed"


def test_what_a_writer_leaves_that_is_killed_as_it_replaces_a_file_goes_with_the_next(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(b"before")
    for _ in range(2):
        killed_at("replace", path)
        assert path.read_bytes() == b"before"
        assert len(list(tmp_path.iterdir())) == 2
    publish(path, b"after")
    assert [each.name for each in tmp_path.iterdir()] == ["x.log"]
    assert path.read_bytes() == b"after"


def test_files_are_replaced_while_another_writer_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.utils.files._LOCK_S", 0.05)
    (tmp_path / "x.log").write_bytes(b"before")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        publish(tmp_path / "x.log", b"after")
    finally:
        os.close(folder)
    assert (tmp_path / "x.log").read_bytes() == b"after"
    assert len(list(tmp_path.iterdir())) == 1


def test_files_are_written_where_what_has_no_name_gets_none(tmp_path, monkeypatch, umask):
    def refuse(*_args, **_options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    publish(tmp_path / "x.log", b"one")
    assert mode_of(tmp_path / "x.log") == 0o644
    (tmp_path / "x.log").chmod(0o640)
    publish(tmp_path / "x.log", [b"t", b"wo"])
    assert (tmp_path / "x.log").read_bytes() == b"two"
    assert mode_of(tmp_path / "x.log") == 0o640
    assert len(list(tmp_path.iterdir())) == 1


def test_files_are_written_where_none_can_be_without_a_name(tmp_path, monkeypatch, umask):
    monkeypatch.setattr("autotune.utils.files._DESCRIPTORS", str(tmp_path / "none"))
    publish(tmp_path / "x.log", b"one")
    publish(tmp_path / "x.log", [b"t", b"wo"])
    assert (tmp_path / "x.log").read_bytes() == b"two"
    assert mode_of(tmp_path / "x.log") == 0o644
    assert len(list(tmp_path.iterdir())) == 1
