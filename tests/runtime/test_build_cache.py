import os

import pytest

from autotune.runtime.compile.build_cache import BuildCache, CacheEntry
from tests.forked import Script, forkserver_with


def key(i):
    return f"{i:02x}" * 32


@pytest.fixture
def cache(tmp_path):
    return BuildCache(tmp_path / "build", max_bytes=100_000)


def test_an_entry_comes_back_as_it_was_put(cache):
    entry = CacheEntry(b"\x00\n{bytes}\n", "", "said", {"k": {"registers": 7}}, "abc")
    cache.put(key(1), entry)
    assert cache.get(key(1)) == entry
    assert cache.get(key(2)) is None


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"not json\nxx", None])
def test_a_damaged_entry_is_no_entry(cache, damage):
    cache.put(key(1), CacheEntry(b"code"))
    path = cache.folder / key(1)[:2] / key(1)
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert cache.get(key(1)) is None
    cache.put(key(1), CacheEntry(b"code"))
    assert cache.get(key(1)) == CacheEntry(b"code")


ENTRY = CacheEntry(bytes(range(256)) * 4, "", "said", {"k": {"registers": 7}}, "abc", 1024)
DAMAGES = {
    "a bit of the code": lambda whole: whole[:-300] + bytes([whole[-300] ^ 64]) + whole[-299:],
    "a zeroed tail": lambda whole: whole[:-512] + bytes(512),
    "a number in the head": lambda whole: whole.replace(b'"registers": 7', b'"registers": 8'),
    "a longer file": lambda whole: whole + b"x",
    "a shorter file": lambda whole: whole[:-1],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_that_keeps_the_form_is_noticed(cache, damage):
    cache.put(key(1), ENTRY)
    path = cache.folder / key(1)[:2] / key(1)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cache.get(key(1)) is None
    cache.put(key(1), ENTRY)
    assert cache.get(key(1)) == ENTRY


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_an_entry_that_others_may_have_changed_is_no_entry(cache, mode):
    cache.put(key(1), ENTRY)
    path = cache.folder / key(1)[:2] / key(1)
    path.chmod(mode)
    assert cache.get(key(1)) is None
    cache.put(key(1), ENTRY)
    assert cache.get(key(1)) == ENTRY


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_an_entry_that_another_user_wrote_is_no_entry(cache):
    cache.put(key(1), ENTRY)
    os.chown(cache.folder / key(1)[:2] / key(1), 12345, -1)
    assert cache.get(key(1)) is None


def test_the_folder_stays_within_its_bound(cache):
    for i in range(64):
        cache.put(key(i), CacheEntry(os.urandom(5_000)))
    total = sum(p.stat().st_size for p in cache.folder.glob("*/*"))
    assert 0 < total <= cache.max_bytes


def test_what_was_used_last_is_evicted_last(cache):
    for i in range(15):
        cache.put(key(i), CacheEntry(b"x" * 6_000))
        path = cache.folder / key(i)[:2] / key(i)
        os.utime(path, (1000 + i, 1000 + i))
    assert cache.get(key(0))
    cache.put(key(90), CacheEntry(b"x" * 20_000))
    cache.evict()
    assert cache.get(key(0))
    assert cache.get(key(90))
    assert cache.get(key(1)) is None


def test_an_entry_larger_than_the_bound_is_not_kept(cache):
    cache.put(key(1), CacheEntry(b"x" * 200_000))
    assert cache.get(key(1)) is None


@pytest.mark.parametrize("folder", ["file/build", "x" * 300])
def test_a_folder_that_cannot_be_written_or_looked_into_is_no_error(folder, tmp_path):
    (tmp_path / "file").write_text("")
    cache = BuildCache(tmp_path / folder)
    cache.put(key(1), CacheEntry(b"code"))
    assert cache.get(key(1)) is None


def test_many_processes_share_a_folder_without_seeing_half_an_entry(tmp_path):
    program = """
import sys
from pathlib import Path
from autotune.runtime.compile.build_cache import BuildCache, CacheEntry
cache, seed = BuildCache(Path(sys.argv[1]), max_bytes=60_000), int(sys.argv[2])
for i in range(150):
    key = f"{(i * 7 + seed) % 24:02x}" * 32
    found = cache.get(key)
    assert found is None or found.artifact == key.encode() * 50, "torn entry"
    cache.put(key, CacheEntry(key.encode() * 50))
"""
    with forkserver_with(["autotune.runtime.compile.build_cache"]):
        children = [Script(program, tmp_path / "build", i) for i in range(4)]
        assert [child.wait(60) for child in children] == [0] * 4
    for child in children:
        child.stdout.close()
    names = [p.name for p in (tmp_path / "build").glob("*/*")]
    assert names
    assert not [name for name in names if name.startswith(".")]
