"""The folder of locks on devices."""

import errno
import os
import shutil

import pytest

from autotune.measure import exclusive
from autotune.measure.exclusive import folder
from autotune.measure.exclusive.devices import device_lock
from autotune.measure.exclusive.folder import NoLocks, lock_folder
from autotune.target import Target
from tests.measure.forked_locks import (
    Forked,
    another,
    holds,
    taken_by_others,
)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to(path.parent), "is no folder"),
        (lambda path: path.write_text(""), "is no folder"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "lets everybody remove"),
        (lambda path: (path.mkdir(), os.chown(path, 4711, -1)), "belongs to user 4711"),
        (lambda path: (path.mkdir(), os.mkfifo(path / "cpu")), "is no plain file"),
        (lambda path: (path.mkdir(), (path / "cpu").symlink_to("/etc/passwd")), "cannot be open"),
    ],
    ids=["a link", "a file", "open", "another user's", "a pipe", "a linked file"],
)
def test_a_folder_that_is_not_fit_is_not_used_and_trials_go_on(
    own_folder, monkeypatch, caplog, make, why
):
    monkeypatch.setattr(folder, "_MOST_S", 0.05)
    try:
        make(own_folder)
    except OSError as error:  # root of a container knows the users that it was given only
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
        pytest.skip("only root gives a folder to another user")
    with caplog.at_level("WARNING", "autotvm"):
        assert device_lock(Target("c")) is None
        assert device_lock(Target("c")) is None
        with exclusive("c"):
            pass
    (said,) = (record.getMessage() for record in caplog.records)
    assert why in said
    assert "AUTOTUNE_DEVICE_LOCKS" in said


def test_all_users_share_the_folder_and_what_is_in_it(own_folder):
    if os.getuid():
        pytest.skip("only root can be another user")
    for part in own_folder.parents:
        if not part.stat().st_mode & 0o001:
            part.chmod(part.stat().st_mode | 0o011)
    own_folder.parent.chmod(0o777)

    def another_user(say):
        os.umask(0o077)
        os.setuid(4711)
        holds(device_lock(Target("c")), forever=True)(say)

    first = Forked(another_user)
    assert first.line() == "holds"
    assert own_folder.stat().st_uid == 4711
    lock = device_lock(Target("c"))
    assert taken_by_others(lock)
    first.kill()
    first.wait()
    assert not taken_by_others(lock)


def test_what_is_removed_is_made_again_and_still_excludes(lock):
    with another(lock):
        for name in os.listdir(lock.folder):
            os.unlink(os.path.join(lock.folder, name))
    with another(lock):
        waiting = Forked(holds(lock, forever=True))
        assert waiting.line() == "waits"
        for name in os.listdir(lock.folder):
            os.unlink(os.path.join(lock.folder, name))
    assert waiting.line() == "holds"
    assert taken_by_others(lock)
    waiting.kill()
    waiting.wait()
    shutil.rmtree(lock.folder)
    assert not taken_by_others(lock)


def test_a_folder_that_cannot_be_made_is_said(monkeypatch):
    monkeypatch.setenv("AUTOTUNE_DEVICE_LOCKS", "/proc/autotune")
    with pytest.raises(NoLocks, match="/proc/autotune cannot be made"):
        lock_folder()
