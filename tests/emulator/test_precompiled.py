"""The header of the emulator, precompiled: when it is made, and that nothing depends on it."""

import json
import shutil

import pytest

from autotune.emulator import compile_emulated, precompiled
from autotune.emulator.build import common_flags, cxx_compiler
from autotune.emulator.precompiled import HEADER
from autotune.errors import CompileError
from autotune.kernel import SourceKernel, arg
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.command import run

KERNEL = SourceKernel(
    "twice",
    'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }',
    [arg("x", (32,), role="inout")],
    block=32,
).kernel("cuda")
WRONG = SourceKernel(
    "twice",
    'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= y; }',
    [arg("x", (32,), role="inout")],
    block=32,
).kernel("cuda")
FLAGS = ["-std=c++17", "-O0", "-shared", "-fPIC", *common_flags()]
TARGET = Target("cuda -emulate")


def asked():
    return precompiled.precompiled([cxx_compiler()], FLAGS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache that has one."""
    if "Free Software Foundation" not in run([cxx_compiler(), "--version"]).output:
        pytest.skip("the C++ compiler is not GCC")
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(cache))
        precompiled._compiled.clear()
        assert [asked() for _ in range(2)] == [[], []]
        (flag,) = asked()
    return cache, flag


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of its folder, in a cache of this test."""
    cache, flag = made
    shutil.copytree(cache, tmp_path / "cache")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    precompiled._compiled.clear()
    precompiled._looked_at.clear()
    (found,) = (tmp_path / "cache" / "emulator").glob(f"*/{HEADER}.gch")
    assert flag.endswith(found.parent.name)
    yield found.parent
    precompiled._looked_at.clear()


def read_it(folder, tmp_path):
    """Return whether the compiler reads it in place of the header."""
    (tmp_path / "x.cc").write_text(f'#include "{HEADER}"\n')
    argv = [cxx_compiler(), *asked(), *FLAGS, "-H", "-fsyntax-only", str(tmp_path / "x.cc")]
    return f"! {folder}/{HEADER}.gch" in run(argv).output


def test_a_new_process_finds_it_and_the_compiler_reads_it(folder, tmp_path):
    assert read_it(folder, tmp_path)


def test_what_is_compiled_with_it_is_the_same(folder, tmp_path):
    with_it = compile_emulated(KERNEL, tmp_path / "twice.so").read_bytes()
    shutil.rmtree(folder)
    precompiled._looked_at.clear()
    assert asked() == []
    assert compile_emulated(KERNEL, tmp_path / "twice.so").read_bytes() == with_it


def cut_short(folder):
    path = folder / f"{HEADER}.gch"
    path.write_bytes(path.read_bytes()[: 1 << 20])


def damaged(folder):
    path = folder / f"{HEADER}.gch"
    content = path.read_bytes()
    path.write_bytes(content[: 1 << 20] + bytes(len(content) - (1 << 20)))


def another_kind(folder):
    (folder / f"{HEADER}.gch").write_bytes(b"CPCH")


def others_may_write(folder):
    (folder / f"{HEADER}.gch").chmod(0o666)


def header_changed(folder):
    path = folder / "facts.json"
    facts = json.loads(path.read_text())
    assert len(facts["read"]) > 20
    facts["read"][-1][1] += 1
    path.write_text(json.dumps(facts))


def header_gone(folder):
    path = folder / "facts.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "read": [["/no/such/file.h", 0, 0]]}))


def facts_gone(folder):
    (folder / "facts.json").unlink()


HARMS = [cut_short, damaged, another_kind, others_may_write, header_changed, header_gone]


@pytest.mark.parametrize("harm", [*HARMS, facts_gone])
def test_one_that_may_not_fit_is_not_given_to_the_compiler(folder, harm):
    harm(folder)
    assert asked() == []
    again = (another_kind, others_may_write)  # of another compiler, or of somebody else
    assert folder.exists() == (harm in again)


def test_a_kernel_that_fails_with_it_is_compiled_without(folder, tmp_path):
    assert asked()  # looked at once, before
    damaged(folder)
    assert asked()
    assert compile_emulated(KERNEL, tmp_path / "twice.so").exists()


def test_an_error_is_told_as_without_it(folder, tmp_path):
    said = []
    for _ in range(2):
        with pytest.raises(CompileError, match=r"y.* was not declared") as found:
            compile_emulated(WRONG, tmp_path / "twice.so")
        said.append(str(found.value))
        shutil.rmtree(folder, ignore_errors=True)
    assert said[0] == said[1]
    assert str(folder) not in said[0]


def test_builds_for_the_emulator_use_one_of_their_own_and_name_it_nowhere(folder, tmp_path):
    before = precompiled._compiled.total()
    refused = None
    for _ in range(2):
        with pytest.raises(CompileError, match=r"y.* was not declared") as found:
            compile_kernel(WRONG, TARGET, out_dir=tmp_path, use_cache=False)
        assert refused in (None, str(found.value))
        refused = str(found.value)
    assert precompiled._compiled.total() == before + 2
    assert "gch" not in refused
    assert "cache/emulator" not in refused


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path, monkeypatch):
    (tmp_path / "emulator").write_text("a file where the folder would be")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    precompiled._compiled.clear()
    assert [asked() for _ in range(4)] == [[]] * 4


def test_it_is_not_begun_where_the_kernel_has_no_time_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    precompiled._compiled.clear()
    asked_in = [precompiled.precompiled([cxx_compiler()], FLAGS, s) for s in (9, 9, 1)]
    assert asked_in == [[]] * 3
    assert not (tmp_path / "emulator").exists()


def test_one_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho x >>'{slow}.calls'\nexec sleep 20\n")
    slow.chmod(0o700)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(precompiled, "_PART", 0.05)
    asked_in = [precompiled.precompiled([str(slow)], FLAGS, 4.0) for _ in range(5)]
    assert asked_in == [[]] * 5
    assert (tmp_path / "slow.calls").read_text() == "x\n"


def test_only_as_many_are_kept_as_compilers_need(tmp_path):
    for i in range(12):
        (tmp_path / f"{i}").mkdir()
    precompiled._forget_old(tmp_path)
    assert len(list(tmp_path.iterdir())) == 8
