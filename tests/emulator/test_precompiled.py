"""The header of the emulator, precompiled: when it is made, and that nothing depends on it."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated, precompiled
from autotune.emulator.build import common_flags, cxx_compiler, emulated
from autotune.emulator.check_flags import CHECK_FLAGS
from autotune.emulator.precompiled import HEADER, OBJECT
from autotune.errors import CompileError, DeviceError
from autotune.kernel import SourceKernel, arg
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.command import Completed, run

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
RACING = SourceKernel(
    "racing",
    """extern "C" __global__ void racing(float* x) {
    __shared__ float last[1];
    last[0] = threadIdx.x;
    x[threadIdx.x] = last[0];
    }""",
    [arg("x", (32,), role="inout")],
    block=32,
).kernel("cuda")
THROWING = SourceKernel(
    "twice",
    "inline void refuse() { throw 1; }\n"
    'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }',
    [arg("x", (32,), role="inout")],
    block=32,
).kernel("cuda")
ALLOCATING = SourceKernel(
    "twice",
    'extern "C" __global__ void twice(float* x) { delete new float; x[threadIdx.x] *= 2; }',
    [arg("x", (32,), role="inout")],
    block=32,
).kernel("cuda")
FLAGS = ["-std=c++17", "-O0", "-shared", "-fPIC", *common_flags()]
TARGET = Target("cuda -emulate")


@pytest.fixture(scope="module", autouse=True)
def as_in_a_program():
    """Not as in other tests, which have it made for the first kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precompiled, "_WITHOUT", 2)
        yield


def asked():
    return precompiled.precompiled([cxx_compiler()], FLAGS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A cache that has one: a copy of what other tests use, as it takes seconds to make."""
    if "Free Software Foundation" not in run([cxx_compiler(), "--version"]).output:
        pytest.skip("the C++ compiler is not GCC")
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precompiled, "_WITHOUT", 0)
        flag, *_ = asked()
        found = Path(flag.removeprefix("-I"))
        shutil.copytree(found, cache / "emulator" / found.name)
        patch.setenv("AUTOTUNE_CACHE_DIR", str(cache))
        precompiled._looked_at.clear()
        flag, *_ = asked()
        assert flag == f"-I{cache / 'emulator' / found.name}"
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


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_kernels_of_all_architectures_read_the_same_one(folder, tmp_path, arch):
    unit, path = emulated(KERNEL, arch), tmp_path / "x.cc"
    path.write_text(f"{unit.source}\nstatic_assert(__CUDA_ARCH__ == {arch[3:5]}0);\n")
    argv = [cxx_compiler(), *asked(), *FLAGS, *unit.flags, "-H", "-fsyntax-only", str(path)]
    said = run(argv)
    assert said.returncode == 0, said.output
    assert f"! {folder}/{HEADER}.gch" in said.output


def test_a_kernel_to_which_the_emulator_is_linked_computes_the_same_and_has_the_same_faults(
    folder, tmp_path, monkeypatch
):
    said = []
    for name in ("linked", "whole"):
        twice = EmulatedKernel(compile_emulated(KERNEL, tmp_path / f"{name}.so"), KERNEL)
        racing = EmulatedKernel(compile_emulated(RACING, tmp_path / f"{name}_.so"), RACING)
        x = np.arange(32, dtype="float32")
        twice.run([x])
        np.testing.assert_array_equal(x, 2 * np.arange(32))
        with pytest.raises(DeviceError, match=r"race on shared memory.* at racing\.cu:") as found:
            racing.run([x])
        said.append(str(found.value))
        x = np.arange(32, dtype="float32")
        twice.run([x])  # that the other is stopped is no matter of this one
        monkeypatch.setattr(precompiled, "_looked_at", {folder: False})
    assert said[0] == said[1]


def test_optimised_kernels_may_be_linked_as_well(folder, tmp_path):
    unit, path = emulated(RACING), tmp_path / "racing.cpp"
    path.write_text(unit.source)
    flags = ["-O1" if flag == "-O0" else flag for flag in [*asked(), *FLAGS]]
    done = run([cxx_compiler(), *flags, *unit.flags, str(path), "-o", str(tmp_path / "out.so")])
    assert done.returncode == 0, done.output


def test_a_kernel_without_the_cxx_library_is_not_linked_with_it(folder, tmp_path):
    library = compile_emulated(KERNEL, tmp_path / "kernel.so")
    needed = run(["readelf", "-d", str(library)]).output
    assert "NEEDED" in needed
    assert "libstdc++" not in needed  # to read its symbols takes longer than to compile the kernel


def test_the_emulator_is_made_once_for_kernels_of_all_flags(folder, tmp_path, monkeypatch):
    began = []

    def counted(argv, *rest, **more):
        began.append(argv)
        return run(argv, *rest, **more)

    monkeypatch.setattr(precompiled, "run", counted)
    monkeypatch.setattr(precompiled, "_WITHOUT", 0)
    flags = ["-O1" if flag == "-O0" else flag for flag in FLAGS if flag not in CHECK_FLAGS]
    found = precompiled.precompiled([cxx_compiler()], flags)
    assert not any("-c" in argv for argv in began)
    (other,) = (Path(flag) for flag in found if flag.endswith(OBJECT))
    assert other.parent != folder
    assert other.read_bytes() == (folder / OBJECT).read_bytes()
    shared = json.loads((folder / "facts.json").read_text())["object"]
    shutil.rmtree(other.parent)
    object_damaged(folder)
    precompiled._looked_at.clear()
    assert not precompiled._copied(folder.parent, shared, tmp_path / OBJECT)


def test_it_is_linked_as_the_compiler_does_where_that_takes_no_libraries_of_c_alone(
    folder, tmp_path, monkeypatch
):
    def refusing(argv, *rest, **more):
        return Completed(1, "") if "-nodefaultlibs" in argv else run(argv, *rest, **more)

    assert "-nodefaultlibs" in asked()
    precompiled._looked_at.clear()
    monkeypatch.setattr(precompiled, "run", refusing)
    quick = precompiled._quick_link([cxx_compiler()], folder / OBJECT, str(tmp_path), 9.0)
    facts = json.loads((folder / "facts.json").read_text())
    (folder / "facts.json").write_text(json.dumps({**facts, "link": quick}))
    assert asked()[-1] == str(folder / OBJECT)


@pytest.mark.parametrize("kernel", [THROWING, ALLOCATING], ids=["throws", "needs_the_cxx_library"])
def test_text_that_the_emulator_cannot_be_linked_to_is_compiled_with_it(folder, tmp_path, kernel):
    twice = EmulatedKernel(compile_emulated(kernel, tmp_path / "twice.so"), kernel)
    twice.run([x := np.ones(32, "float32")])
    assert x.sum() == 64


def cut_short(folder):
    path = folder / f"{HEADER}.gch"
    path.write_bytes(path.read_bytes()[: 1 << 20])


def damaged(folder):
    path = folder / f"{HEADER}.gch"
    content = path.read_bytes()
    path.write_bytes(content[: 1 << 20] + bytes(len(content) - (1 << 20)))


def object_damaged(folder):
    path = folder / OBJECT
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def object_gone(folder):
    (folder / OBJECT).unlink()


def others_may_write_the_object(folder):
    (folder / OBJECT).chmod(0o666)


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


HARMS = [
    cut_short, damaged, another_kind, others_may_write, header_changed, header_gone,
    object_damaged, object_gone, others_may_write_the_object,
]  # fmt: skip


@pytest.mark.parametrize("harm", [*HARMS, facts_gone])
def test_one_that_may_not_fit_is_not_given_to_the_compiler(folder, harm):
    harm(folder)
    assert asked() == []
    # Of another compiler, or of somebody else, or not one of ours.
    stay = (another_kind, others_may_write, others_may_write_the_object, object_gone)
    assert folder.exists() == (harm in stay)


@pytest.mark.parametrize("part", [HEADER + ".gch", OBJECT])
def test_one_of_which_a_part_is_gone_is_made_again(folder, monkeypatch, part):
    def compiled(argv, *_, **__):
        if "-MF" in argv:
            Path(argv[argv.index("-MF") + 1]).write_text("header.h.gch:")
        Path(argv[argv.index("-o") + 1]).write_bytes(b"gpch")
        return Completed(0, "")

    assert asked()
    (folder / part).unlink()
    monkeypatch.setattr(precompiled, "run", compiled)
    assert [asked() for _ in range(2)] == [[], []]
    assert str(folder / OBJECT) in asked()


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


def test_builds_for_the_emulator_use_the_same_one_and_name_it_nowhere(
    folder, tmp_path, monkeypatch
):
    monkeypatch.delenv("CXX", raising=False)
    before = precompiled._compiled.total()
    refused = None
    for _ in range(2):
        with pytest.raises(CompileError, match=r"y.* was not declared") as found:
            compile_kernel(WRONG, TARGET, out_dir=tmp_path, use_cache=False)
        assert refused in (None, str(found.value))
        refused = str(found.value)
    assert precompiled._compiled.total() == before
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


def test_what_a_killed_process_left_is_removed_and_what_is_being_made_is_kept(tmp_path):
    left, making, begun = (tmp_path / name for name in ("a-new-x", "b-new-y", "c-new-z"))
    for each in (left, making, begun, *(tmp_path / f"{i}" for i in range(8))):
        each.mkdir()
    for each in (left, making):
        os.utime(each, (0, 0))
    with precompiled._turn(tmp_path / "b") as own:
        assert own
        precompiled._forget_old(tmp_path)
    assert making.exists()
    assert begun.exists()  # perhaps by another host, whose locks are not seen here
    assert not left.exists()
    assert sum(p.is_dir() for p in tmp_path.iterdir()) == 10
