import os
import shutil
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.emulator import build, precompiled
from autotune.emulator.precompiled import INCLUDE
from autotune.errors import CompileError, CompilerCrashed, CompilerMissing, CompileTimeout
from autotune.kernel import SourceKernel, arg
from autotune.runtime import BuildCache, compile_kernel
from autotune.runtime.compile import compilers
from autotune.runtime.compile.compilers import emulated_recipe
from autotune.runtime.compile.elf import sections
from autotune.target import Target
from tests import caches
from tests.caches import COMPILED, make_cache

C = Target("c")
SCALE = """
void scale(const float *x, float *y) {
  for (int i = 0; i < N; i++) y[i] = FACTOR * x[i];
}
"""


def scale(factor="2.0f", n=64, **options):
    args = [arg("x", (n,)), arg("y", (n,), role="out")]
    defines = {"N": n, "FACTOR": factor}
    return SourceKernel("scale", SCALE, args, defines, **options).kernel("c")


def fake_compiler(folder, body):
    """A program called cc that answers --version and otherwise runs `body` (Python)."""
    path = folder / "fakecc"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys, time, signal, subprocess\n"
        f"if '--version' in sys.argv: print('fake 1'); sys.exit()\n"
        f"if any('probe' in a for a in sys.argv): sys.exit(1)\n{body}\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def nothing_compiled(tmp_path, monkeypatch):
    """A cache in which nothing is, not even of another run of these tests."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))


def test_a_kernel_becomes_a_shared_object_with_its_code_size(tmp_path):
    output = compile_kernel(scale(), C, out_dir=tmp_path)
    assert output.artifact.endswith(".so")
    assert Path(output.artifact).read_bytes()[:4] == b"\x7fELF"
    assert output.resources["code_bytes"] > 0


@pytest.mark.usefixtures("nothing_compiled")
def test_the_second_compilation_runs_no_compiler(tmp_path):
    kernel = scale("3.25f")
    first = compile_kernel(kernel, C, out_dir=tmp_path)
    second = compile_kernel(kernel, C, out_dir=tmp_path)
    assert (first.cached, second.cached) == (False, True)
    assert first.artifact != second.artifact
    assert Path(first.artifact).read_bytes() == Path(second.artifact).read_bytes()
    assert first.code_hash == second.code_hash


def test_of_the_cache_of_tests_what_is_compiled_may_stay_and_nothing_else(tmp_path, monkeypatch):
    cached = []
    for run in ("one", "two"):
        monkeypatch.setenv("AUTOTUNE_CACHE_DIR", make_cache(tmp_path / run, tmp_path / "kept"))
        cached.append(compile_kernel(scale(), C, out_dir=tmp_path).cached)
    assert cached == [False, True]
    assert {each.name for each in (tmp_path / "kept").glob("*/*")} == set(COMPILED)


def test_what_other_code_compiled_is_not_found_and_goes_after_a_week(tmp_path, monkeypatch):
    kept, others = tmp_path / "kept", "home"
    (kept / others).mkdir(parents=True)
    cached = []
    for run, code in (("one", "a"), ("two", "b"), ("three", "a")):
        monkeypatch.setattr(caches, "code_digest", lambda code=code: code * 16)
        monkeypatch.setenv("AUTOTUNE_CACHE_DIR", make_cache(tmp_path / run, kept))
        cached.append(compile_kernel(scale(), C, out_dir=tmp_path).cached)
    assert cached == [False, False, True]
    for each in kept.iterdir():
        os.utime(each, (0, 0))
    make_cache(tmp_path / "four", kept)
    assert {each.name for each in kept.iterdir()} == {"code-" + "a" * 16, others}


def test_without_the_cache_nothing_is_looked_up_or_kept(tmp_path):
    kernel, cache = scale("3.5f"), BuildCache(tmp_path / "cache")
    for _ in range(2):
        output = compile_kernel(kernel, C, out_dir=tmp_path, cache=cache, use_cache=False)
        assert not output.cached
    assert not list(cache.folder.glob("*/*"))


@pytest.mark.usefixtures("nothing_compiled")
def test_flags_and_source_are_part_of_the_key(tmp_path):
    compile_kernel(scale("4.0f"), C, out_dir=tmp_path)
    assert not compile_kernel(scale("5.0f"), C, out_dir=tmp_path).cached
    assert not compile_kernel(scale("4.0f", flags=["-O1"]), C, out_dir=tmp_path).cached


@pytest.mark.usefixtures("nothing_compiled")
def test_a_changed_header_of_the_user_compiles_anew(tmp_path):
    header, inner = tmp_path / "factor.h", tmp_path / "inner.h"
    header.write_text('#include "inner.h"\n')
    inner.write_text("#define FROM_HEADER 2.0f\n")
    kernel = scale("FROM_HEADER", flags=[f"-I{tmp_path}"])
    kernel = replace(kernel, source='#include "factor.h"\n' + kernel.source)
    assert not compile_kernel(kernel, C, out_dir=tmp_path).cached
    assert compile_kernel(kernel, C, out_dir=tmp_path).cached
    inner.write_text("#define FROM_HEADER 3.0f\n")
    assert not compile_kernel(kernel, C, out_dir=tmp_path).cached


def test_equal_code_under_different_text_has_one_hash(tmp_path):
    plain = compile_kernel(scale("2.0f"), C, out_dir=tmp_path)
    other = compile_kernel(scale("(1.0f + 1.0f)"), C, out_dir=tmp_path)
    different = compile_kernel(scale("2.5f"), C, out_dir=tmp_path)
    assert plain.code_hash == other.code_hash != different.code_hash


def test_constants_are_code_though_they_lie_elsewhere(tmp_path):
    one, other = (compile_kernel(scale(f), C, out_dir=tmp_path) for f in ("2.5f", "3.5f"))
    texts = [
        [s.content for s in sections(Path(output.artifact).read_bytes()) if s.name == ".text"]
        for output in (one, other)
    ]
    assert texts[0] == texts[1], "the constant should not be in the instructions"
    assert one.code_hash != other.code_hash


def test_calls_of_other_functions_are_other_code(tmp_path):
    def code_hash(function):
        kernel = scale(f"{function}(x[0]) + 0.0f")
        kernel = replace(kernel, source="#include <math.h>\n" + kernel.source)
        return compile_kernel(kernel, C, out_dir=tmp_path).code_hash

    assert code_hash("expf") == code_hash("(expf)") != code_hash("logf")


def test_a_refused_source_raises_the_compilers_words_and_is_remembered(tmp_path):
    kernel, cache = scale("undeclared_name"), BuildCache(tmp_path / "cache")
    texts = []
    for _ in range(2):
        with pytest.raises(CompileError, match=r"kernel 'scale'[\s\S]*undeclared_name") as caught:
            compile_kernel(kernel, C, out_dir=tmp_path, cache=cache)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert not isinstance(caught.value, CompilerCrashed)
    assert len(list(cache.folder.glob("*/*"))) == 1


def test_cuda_text_that_a_c_compiler_refuses_is_named_in_the_first_line(tmp_path):
    text = 'extern "C" __global__ void f(float* x) { x[0] = 1; }'
    kernel = SourceKernel("f", text, [arg("x", (1,), role="out")]).kernel("c")
    with pytest.raises(CompileError, match=r"^.*; the source is CUDA text: its target is 'cuda'"):
        compile_kernel(kernel, C, out_dir=tmp_path)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ("int main() { float *x; cudaMalloc(&x, 4); f<<<1, 1>>>(x); }", "'cudaMalloc'"),
        ("__global__ void g(float *x) { f<<<1, 1>>>(x); }", "'<<<'"),
        ("int x = /* cudaMalloc, <<< */ unknown;", None),
        ("#ifndef AUTOTUNE_EMULATE\nint g() { cudaFree(0); }\n#endif\nint x = unknown;", None),
    ],
)
def test_code_of_the_host_that_the_emulator_refuses_is_named_in_the_first_line(
    beside, named, tmp_path
):
    text = 'extern "C" __global__ void f(float* x) { x[0] = 1; }\n' + beside
    kernel = SourceKernel("f", text, [arg("x", (1,), role="out")]).kernel("cuda")
    with pytest.raises(CompileError) as caught:
        compile_kernel(kernel, Target("cuda -emulate"), out_dir=tmp_path)
    first = str(caught.value).partition("\n")[0]
    told = f"the emulator runs kernels only, and the source has {named}: leave"
    assert (told in first) is (named is not None)
    assert ("emulator" in first) is (named is not None)


def test_a_missing_header_is_looked_for_again(tmp_path):
    kernel = scale("FROM_HEADER", flags=[f"-I{tmp_path}"])
    kernel = replace(kernel, source='#include "later.h"\n' + kernel.source)
    with pytest.raises(CompileError, match=r"later\.h"):
        compile_kernel(kernel, C, out_dir=tmp_path)
    (tmp_path / "later.h").write_text("#define FROM_HEADER 7.0f\n")
    assert compile_kernel(kernel, C, out_dir=tmp_path).artifact
    system = replace(kernel, source="#include <autotune_no_such_header.h>\n")
    cache = BuildCache(tmp_path / "cache")
    with pytest.raises(CompileError, match="autotune_no_such_header"):
        compile_kernel(system, C, out_dir=tmp_path, cache=cache)
    assert not list(cache.folder.glob("*/*"))


def test_a_missing_compiler_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompilerMissing, match="looked for cc, gcc, clang; install one"):
        compile_kernel(scale(), C, out_dir=tmp_path)


def test_a_compiler_that_was_asked_for_is_not_replaced_by_another(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="CC=no-such-compiler: there is no such program"):
        compile_kernel(scale(), C, out_dir=tmp_path)


def test_a_hanging_compiler_is_killed_with_its_children(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    body = (
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\ntime.sleep(600)"
    )
    monkeypatch.setenv("CC", fake_compiler(tmp_path, body))
    cache, timeout_s = BuildCache(tmp_path / "cache"), 0.5
    while not (pids.exists() and pids.read_text().endswith("\n")):  # it had time to hang
        timeout_s *= 2
        with pytest.raises(CompileTimeout, match=r"killed after \d+\.\d s"):
            compile_kernel(scale(), C, out_dir=tmp_path, timeout_s=timeout_s, cache=cache)
    for pid in map(int, pids.read_text().split()):
        assert not _running(pid)
    assert not list(cache.folder.glob("*/*"))


def _running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_compiler_is_no_verdict_on_the_source(tmp_path, monkeypatch):
    body = "os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setenv("CC", fake_compiler(tmp_path, body))
    cache = BuildCache(tmp_path / "cache")
    with pytest.raises(CompilerCrashed, match="exit status -9"):
        compile_kernel(scale(), C, out_dir=tmp_path, cache=cache)
    assert not list(cache.folder.glob("*/*"))


def test_a_part_of_the_compiler_that_was_killed_in_a_shell_is_no_verdict_on_the_source(
    tmp_path, monkeypatch
):
    # So nvcc ends where its front end cicc was killed: it says no more than that.
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "print('Killed'); sys.exit(137)"))
    with pytest.raises(CompilerCrashed, match="exit status 137") as caught:
        compile_kernel(scale(), C, out_dir=tmp_path, cache=BuildCache(tmp_path / "cache"))
    assert caught.value.killed


@pytest.mark.parametrize(
    "words", ["cc1: out of memory", "write error: No space left on device", "died due to signal 9"]
)
def test_a_full_machine_is_no_verdict_on_the_source(tmp_path, monkeypatch, words):
    monkeypatch.setenv("CC", fake_compiler(tmp_path, f"print({words!r}); sys.exit(1)"))
    with pytest.raises(CompilerCrashed, match=words):
        compile_kernel(scale(), C, out_dir=tmp_path, cache=BuildCache(tmp_path / "cache"))


@pytest.mark.parametrize("write", ["pass", "open(sys.argv[sys.argv.index('-o') + 1], 'w')"])
def test_a_compiler_that_writes_nothing_is_no_verdict_and_is_quoted(tmp_path, monkeypatch, write):
    monkeypatch.setenv("CC", fake_compiler(tmp_path, f"{write}\nprint('license expired')"))
    cache = BuildCache(tmp_path / "cache")
    with pytest.raises(
        CompilerCrashed, match=r"success but wrote no \.so;.*says: license expired"
    ):
        compile_kernel(scale(), C, out_dir=tmp_path, cache=cache)
    assert not list(cache.folder.glob("*/*"))


FIRST_LINES = {
    "kernel.c: In function 'f':\nkernel.c:2:3: error: 'x' unknown\nerror: more": "'x' unknown",
    "kernel.c:1:10: fatal error: a.h: No such file": "a.h: No such file",
    'kernel.cu(1): error: identifier "x" is undefined': 'identifier "x" is undefined',
    "nvcc fatal   : Unknown option '-x'": "Unknown option '-x'",
    "ptxas error   : Entry function 'f' uses too much": "Entry function 'f' uses too much",
    "ptxas error   : Entry function 'f' uses too much shared data (0xea60 bytes, 0xc000 max)": (
        "Entry function 'f' uses too much shared data (0xea60 bytes, 0xc000 max); "
        "declare what is over 48 KB as extern __shared__"
    ),
    "nvrtc: error: unrecognized option -x": "unrecognized option -x",
    "/usr/bin/ld: cannot find -lx: No such file\ncollect2: error: ld": "cannot find -lx: No such",
}


@pytest.mark.many_cases
@pytest.mark.parametrize("said", FIRST_LINES)
def test_the_first_line_of_a_refusal_has_the_compilers_first_error(tmp_path, monkeypatch, said):
    monkeypatch.setenv("CC", fake_compiler(tmp_path, f"print({said!r}); sys.exit(1)"))
    with pytest.raises(CompileError) as caught:
        compile_kernel(scale(), C, out_dir=tmp_path, use_cache=False)
    first, _, rest = str(caught.value).partition("\n")
    assert first.startswith(f"kernel 'scale': fakecc failed: {FIRST_LINES[said]}")
    assert said in rest


def test_a_compiler_without_openmp_or_native_still_compiles(tmp_path, monkeypatch):
    body = (
        "if '-fopenmp' in sys.argv or '-march=native' in sys.argv: sys.exit('unsupported')\n"
        "sys.exit(subprocess.call(['cc', *sys.argv[1:]]))"
    )
    monkeypatch.setenv("CC", fake_compiler(tmp_path, body))
    assert compile_kernel(scale("6.0f"), C, out_dir=tmp_path).artifact


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CompilerCrashed, match=f"cannot write {blocked}"):
        compile_kernel(scale(), C, out_dir=blocked)


def test_the_temporary_folder_is_left_empty(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    os.mkdir(tmp_path / "tmp")
    with pytest.raises(CompileError):
        compile_kernel(scale("oops"), C, out_dir=tmp_path / "out", use_cache=False)
    compile_kernel(scale(), C, out_dir=tmp_path / "out", use_cache=False)
    assert not os.listdir(tmp_path / "tmp")


def test_what_the_compiler_says_names_the_line_of_the_users_source(tmp_path):
    args = [arg("x", (4,)), arg("y", (4,), role="out")]
    source = "void f(const float *x, float *y) {\n  nonsense\n}\n"
    kernel = SourceKernel("f", source, args, {"N": 4, "M": 5}).kernel("c")
    with pytest.raises(CompileError, match=r"f\.c:2:3: error: .*\n +2 \|   nonsense\n"):
        compile_kernel(kernel, C, out_dir=tmp_path)


def test_what_one_installation_compiled_for_the_emulator_serves_another(tmp_path, monkeypatch):
    args = [arg("a", (4,)), arg("b", (4,), role="out")]
    source = 'extern "C" __global__ void f(float *a, float *b) { b[0] = a[0] + 7.5f; }'
    kernel, target = SourceKernel("f", source, args).kernel("cuda"), Target("cuda -emulate")
    cache = BuildCache(tmp_path / "cache")
    assert not compile_kernel(kernel, target, out_dir=tmp_path, cache=cache).cached
    shutil.copytree(INCLUDE, tmp_path / "include")
    for module in (build, precompiled, compilers):
        monkeypatch.setattr(module, "INCLUDE", tmp_path / "include")
    assert compile_kernel(kernel, target, out_dir=tmp_path, cache=cache).cached


@pytest.mark.parametrize(("size", "level"), [(1 << 13, "-O0"), (1 << 14, "-O1")])
def test_what_is_emulated_on_much_data_alone_is_optimized(size, level):
    args = [arg("a", (size,)), arg("b", (size,), role="out")]
    source = SourceKernel("f", 'extern "C" __global__ void f(float*, float*) {}', args)
    recipe = emulated_recipe(source.kernel("cuda"), Target("cuda -emulate"))
    assert {"-O0", "-O1"} & set(recipe.identity) == {level}
