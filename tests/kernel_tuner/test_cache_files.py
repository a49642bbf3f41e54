"""Caches as JSON: those that a run left open, those that failed, and appending to them."""

import json

import pytest

from autotune.errors import AutotuneError
from autotune.kernel_tuner import tune_cache
from autotune.kernel_tuner.util import CompilationFailedConfig, close_cache, read_cache

HEAD = {"device_name": "", "kernel_name": "k", "tune_params_keys": ["x"]}
HEAD |= {"tune_params": {"x": [1, 2, 3]}}
CACHE = {"1": {"x": 1, "time": 2.0}, "2": {"x": 2, "time": "CompilationFailedConfig"}}


@pytest.fixture(params=[None, 0, 1], ids=["compact", "lines", "indented"])
def path(request, tmp_path):
    found = tmp_path / "cache.json"
    found.write_text(json.dumps({**HEAD, "cache": CACHE}, indent=request.param) + "\n")
    return found


def test_a_cache_is_read_as_the_json_that_it_is(path):
    before = path.read_bytes()
    held = read_cache(path, open_cache=False)
    assert path.read_bytes() == before
    assert {name: held[name] for name in HEAD} == HEAD
    assert held["cache"]["1"] == CACHE["1"]
    failed = held["cache"]["2"]
    assert failed["time"] == "CompilationFailedConfig"
    assert isinstance(failed["__error__"], CompilationFailedConfig)


def test_a_cache_is_opened_for_appending_and_closed(path):
    read_cache(str(path))
    with path.open("a") as file:
        file.write("\n" + json.dumps({"3": {"x": 3, "time": 1.0}})[1:-1] + ",")
    assert read_cache(path, open_cache=False)["cache"]["3"] == {"x": 3, "time": 1.0}
    results, env = tune_cache(path, quiet=True)
    assert [each["x"] for each in results] == [1, 3]
    assert [each["x"] for each in env["failed"]] == [2]
    close_cache(path)
    assert list(json.loads(path.read_text())["cache"]) == ["1", "2", "3"]
    close_cache(path)
    assert len(json.loads(path.read_text())["cache"]) == 3


def test_a_cache_that_is_open_stays_as_it_is(path):
    read_cache(path)
    before = path.read_bytes()
    assert set(read_cache(path)["cache"]) == {"1", "2"}
    assert path.read_bytes() == before


def test_a_cache_without_entries_may_be_opened(tmp_path):
    path = tmp_path / "cache.json"
    path.write_text(json.dumps({**HEAD, "cache": {}}))
    read_cache(path)
    close_cache(path)
    assert json.loads(path.read_text())["cache"] == {}


@pytest.mark.parametrize("text", ["[1]", "{}", "no json"])
def test_what_is_no_cache_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(AutotuneError, match=r"other\.json"):
        read_cache(path)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["", "no json", '{"cache": {"1": {"x": 1, "ti', None])
def test_what_cannot_be_closed_stays_as_it_is(tmp_path, text):
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AutotuneError, match=r"other\.json"):
        close_cache(path)
    assert not path.exists() if text is None else path.read_text() == text


def test_a_cache_that_ends_within_an_entry_is_not_closed(path):
    read_cache(path)
    torn = path.read_text() + '\n"3": {"x": 3, "ti'
    path.write_text(torn)
    with pytest.raises(AutotuneError, match=r"cache.*ends within an entry"):
        close_cache(path)
    assert path.read_text() == torn
