"""Which compiler there is, and whether it is still the one that was there before."""

import json
import platform
import stat
import sys

import pytest

from autotune.errors import CompileError, CompilerMissing, TargetError
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder
from autotune.runtime import compile_kernel
from autotune.runtime.compile import toolchain
from autotune.runtime.compile.cpu_flags import cpu_flags
from autotune.runtime.compile.toolchain import find_nvcc, host_toolchain, nvcc_toolchain
from autotune.target import Target
from autotune.task import create
from tests.tuner import doubles


def another_process():
    """Forget what is kept for the life of a process."""
    toolchain._version.cache_clear()
    toolchain._flags.cache_clear()
    toolchain._host_toolchain.cache_clear()


@pytest.fixture(autouse=True)
def nothing_known():
    another_process()
    yield
    another_process()


def program(path, body):
    path.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def wrapper(path, compiler):
    """A program that stays the same when the version of the compiler behind it changes."""
    version = path.parent / "version"
    body = (
        f"if '--version' in sys.argv: print(open({str(version)!r}).read()); sys.exit()\n"
        f"sys.exit(subprocess.call([{compiler!r}, *sys.argv[1:]]))"
    )
    program(path, body)
    return version


def scale(language, factor="2.0f"):
    text = "y[0] = FACTOR * x[0];"
    source = {
        "c": f"void f(const float *x, float *y) {{ {text} }}",
        "cuda": f'extern "C" __global__ void f(const float *x, float *y) {{ {text} }}',
    }[language]
    args = [arg("x", (1,)), arg("y", (1,), role="out")]
    block = {"block": 32} if language == "cuda" else {}
    return SourceKernel("f", source, args, {"FACTOR": factor}, **block).kernel(language)


def cached(language, target, folder):
    return compile_kernel(scale(language), Target(target), out_dir=folder).cached


def test_a_host_compiler_replaced_behind_a_wrapper_compiles_anew(tmp_path, monkeypatch):
    version = wrapper(tmp_path / "mycc", "cc")
    monkeypatch.setenv("CC", str(tmp_path / "mycc"))
    version.write_text("mycc 1")
    assert [cached("c", "c", tmp_path) for _ in range(2)] == [False, True]
    version.write_text("mycc 2")
    another_process()
    assert [cached("c", "c", tmp_path) for _ in range(2)] == [False, True]


@pytest.mark.parametrize("command", ["{0}", "'{0}' -O1", "env '{0}'"])
def test_a_compiler_whose_path_has_blanks_is_found(command, tmp_path, monkeypatch):
    folder = tmp_path / "my compilers"
    folder.mkdir()
    wrapper(folder / "mycc", "cc").write_text("mycc 1")
    monkeypatch.setenv("CC", command.format(folder / "mycc"))
    assert host_toolchain().version == "mycc 1"
    assert compile_kernel(scale("c"), Target("c"), out_dir=tmp_path).artifact


def test_a_compiler_with_a_quote_that_does_not_end_is_none(monkeypatch):
    monkeypatch.setenv("CC", "'my compilers/cc")
    with pytest.raises(CompilerMissing, match="there is no such program on PATH"):
        host_toolchain()


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_an_nvcc_replaced_behind_a_wrapper_compiles_anew(tmp_path, monkeypatch):
    version = wrapper(tmp_path / "nvcc", find_nvcc())
    monkeypatch.setattr(
        "autotune.runtime.compile.toolchain.find_nvcc", lambda: str(tmp_path / "nvcc")
    )
    version.write_text("release 1")
    assert [cached("cuda", "cuda -arch=sm_90", tmp_path) for _ in range(2)] == [False, True]
    version.write_text("release 2")
    another_process()
    assert [cached("cuda", "cuda -arch=sm_90", tmp_path) for _ in range(2)] == [False, True]


def test_flags_are_tried_once_for_each_version_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    log = tmp_path / "log"
    version = wrapper(tmp_path / "mycc", "cc")
    text = (tmp_path / "mycc").read_text()
    note = f"if '--version' not in sys.argv: open({str(log)!r}, 'a').write('tried ')\n"
    (tmp_path / "mycc").write_text(text.replace("if '--version' in", f"{note}if '--version' in"))
    monkeypatch.setenv("CC", str(tmp_path / "mycc"))
    version.write_text("mycc 1")
    first = host_toolchain()
    tried = log.read_text()
    another_process()
    assert host_toolchain() == first
    assert log.read_text() == tried
    version.write_text("mycc 2")
    another_process()
    assert host_toolchain().version == "mycc 2"
    assert len(log.read_text()) == 2 * len(tried)


def test_a_damaged_note_of_flags_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    flags = host_toolchain().flags
    (note,) = (tmp_path / "toolchains").iterdir()
    for damage in ("", "[]", "{}", '{"flags": 7}'):
        note.write_text(damage)
        another_process()
        assert host_toolchain().flags == flags
    assert tuple(json.loads(note.read_text())["flags"]) == flags


MUTE = {
    "print('broken pipe'); sys.exit(3)": "exit status 3, and it says 'broken pipe'",
    "pass": "exit status 0, and it says nothing",
    "time.sleep(60)": "no answer after 0.5 s",
}


@pytest.mark.parametrize("body", MUTE)
def test_a_compiler_that_does_not_tell_its_version_is_none(body, tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "_VERSION_TIMEOUT_S", 0.5 if "sleep" in body else 60)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    nvcc = program(tmp_path / "nvcc", body)
    monkeypatch.setattr(toolchain, "find_nvcc", lambda: str(nvcc))
    with pytest.raises(CompilerMissing, match=rf"nvcc'? --version: {MUTE[body]}"):
        nvcc_toolchain()
    monkeypatch.setattr(toolchain, "_VERSION_TIMEOUT_S", 60)
    program(nvcc, "print('release 1')")
    assert nvcc_toolchain().version == "release 1"


def test_a_file_that_is_no_program_is_no_compiler(tmp_path, monkeypatch):
    text = tmp_path / "mycc"
    text.write_bytes(b"\0\0")
    text.chmod(0o755)
    monkeypatch.setenv("CC", str(text))
    with pytest.raises(CompilerMissing, match=r"cannot be run: .*is it a compiler"):
        host_toolchain()


# ---- the CPU that a target names

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUs of another architecture")


@X86
def test_the_cpu_of_a_target_is_the_one_that_is_compiled_for(tmp_path):
    text = """
    #ifdef __SSE3__
    #error compiled for more than was asked
    #endif
    void f(const float *x, float *y) { y[0] = x[0]; }
    """
    kernel = SourceKernel("f", text, [arg("x", (1,)), arg("y", (1,), role="out")]).kernel("c")
    assert compile_kernel(kernel, Target("llvm -mcpu=x86-64"), out_dir=tmp_path).artifact
    for target in ("llvm", "llvm -mcpu=native"):
        with pytest.raises(CompileError, match="compiled for more than was asked"):
            compile_kernel(kernel, Target(target), out_dir=tmp_path)


@pytest.mark.parametrize("cpu", ["no-such-cpu", "x -o /tmp/x", 5])
def test_a_cpu_that_the_compiler_does_not_know_is_refused_before_any_trial(cpu):
    target = Target({"kind": "llvm", "mcpu": cpu})
    with pytest.raises(TargetError, match=r"-mcpu=.*: .*(knows no|needs the name of a CPU)"):
        LocalBuilder(n_parallel=1).set_task(create(doubles.loop_task().name, (20,), target))


def test_a_cpu_that_can_more_than_this_one_is_refused(tmp_path, monkeypatch):
    body = (
        "if '--version' in sys.argv: print('mycc 1'); sys.exit()\n"
        "print('#define __SSE2__ 1')\n"
        "if not any('native' in word for word in sys.argv): print('#define __AVX999F__ 1')\n"
    )
    monkeypatch.setenv("CC", str(program(tmp_path / "mycc", body)))
    with pytest.raises(TargetError, match="this machine's CPU has no AVX999F, which future has"):
        cpu_flags(host_toolchain(), Target("llvm -mcpu=future"))
