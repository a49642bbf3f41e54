import os
import re
import tempfile
from pathlib import Path

import pytest

from autotune.utils import environment
from autotune.utils.files import write_atomically


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """A user without a home and without a name, as containers run them."""
    for name in ("AUTOTUNE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_uid):
        raise KeyError("uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment._temporary_cache.cache_clear()
    yield tmp_path
    environment._temporary_cache.cache_clear()


def test_the_cache_is_where_the_user_says_else_at_home(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", "/chosen")
    assert environment.cache_dir() == Path("/chosen")
    monkeypatch.delenv("AUTOTUNE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert environment.cache_dir() == Path("/xdg/autotune")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert environment.cache_dir() == tmp_path / ".cache" / "autotune"
    monkeypatch.setattr("sys.platform", "darwin")
    assert environment.cache_dir() == tmp_path / "Library" / "Caches" / "autotune"


def test_without_a_home_the_cache_is_a_folder_of_ones_own(nobody):
    folder = environment.cache_dir()
    assert folder == nobody / f"autotune-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert environment.cache_dir() == folder


def test_a_folder_that_others_can_write_to_is_not_used(nobody):
    planted = nobody / f"autotune-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    folder = environment.cache_dir()
    assert folder != planted
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_of_anothers_making_is_not_followed(nobody):
    (nobody / f"autotune-{os.getuid()}").symlink_to(nobody / "elsewhere")
    assert environment.cache_dir().name != f"autotune-{os.getuid()}"


@pytest.fixture
def chosen(nobody, monkeypatch):
    """The folder that this user chose for the cache."""
    folder = nobody / "chosen"
    folder.mkdir()
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(folder))
    return folder


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_chosen_cache_that_others_can_write_to_is_refused(nobody, chosen, mode):
    chosen.chmod(mode)
    assert environment.cache_dir() == nobody / f"autotune-{os.getuid()}"
    assert re.search(
        rf"cache in {chosen} is not used, because others may write to it \(mode {mode:o}\)",
        environment.refused_cache(),
    )
    chosen.chmod(0o755)
    assert environment.cache_dir() == chosen
    assert environment.refused_cache() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user_is_refused(nobody, chosen):
    chosen.chmod(0o700)
    os.chown(chosen, 12345, -1)
    assert environment.cache_dir() == nobody / f"autotune-{os.getuid()}"
    assert "it belongs to user 12345, not to you" in environment.refused_cache()


@pytest.mark.parametrize("place", ["file/cache", "x" * 300])
def test_a_cache_that_cannot_be_looked_into_is_refused(nobody, monkeypatch, place):
    (nobody / "file").touch()
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(nobody / place))
    assert environment.cache_dir() == nobody / f"autotune-{os.getuid()}"
    assert "because it cannot be looked into" in environment.refused_cache()


def test_a_cache_that_is_missing_is_made_for_this_user_alone(nobody, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(nobody / "deep" / "inside"))
    before = os.umask(0o002)
    try:
        write_atomically(environment.cache_dir() / "build" / "entry", b"")
    finally:
        os.umask(before)
    assert environment.refused_cache() == ""
    for folder in ("deep", "deep/inside", "deep/inside/build"):
        assert (nobody / folder).stat().st_mode & 0o777 == 0o700
