"""A header that the user edits compiles anew, however the compiler was led to it."""

import os

import pytest

from autotune.kernel import SourceKernel, arg
from autotune.runtime import compile_kernel
from autotune.runtime.compile.toolchain import find_nvcc
from autotune.runtime.compile.user_headers import anchor_paths, header_contents, user_headers
from autotune.target import Target
from autotune.utils.compiler_flags import Flag, expand_flag_files, parse_flags

SOURCE = """
#include "lib/a.h"
extern "C" __global__ void f(float *y) { y[threadIdx.x] = VALUE; }
"""
C_SOURCE = '#include "lib/a.h"\nvoid f(float *y) { y[0] = VALUE; }\n'


@pytest.fixture
def project(tmp_path):
    """A folder whose header includes the one beside it, which holds the value."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "lib" / "b.h").write_text("#define VALUE 1.0f\n")
    return tmp_path


def kernel(source, language, flags):
    block = {"block": 32} if language == "cuda" else {}
    args = [arg("y", (32,), role="out")]
    return SourceKernel("f", source, args, flags=flags, **block).kernel(language)


def hashes(one, target, header, folder):
    """Compile before and after an edit of the header; return both digests of the code."""
    outputs = [compile_kernel(one, Target(target), out_dir=folder)]
    header.write_text("#define VALUE 2.5f\n")
    outputs.append(compile_kernel(one, Target(target), out_dir=folder))
    assert not outputs[1].cached
    again = compile_kernel(one, Target(target), out_dir=folder)
    assert again.cached
    return [output.code_hash for output in (*outputs, again)]


C_FLAGS = ["-I{0}", "-I {0}", "-isystem{0}", "-isystem {0}", "-iquote {0}", "-idirafter{0}",
           "--include-directory={0}"]  # fmt: skip


@pytest.mark.parametrize("spelled", C_FLAGS)
def test_a_header_beside_an_included_one_counts(spelled, project):
    one = kernel(C_SOURCE, "c", [word.format(project) for word in spelled.split()])
    first, second, third = hashes(one, "c", project / "lib" / "b.h", project)
    assert first != second == third


NVCC_FLAGS = [
    "-I{0}", "-I {0}", "-I={0}", "--include-path={0}", "--include-path {0}", "-isystem={0}",
    "-isystem {0}", "--system-include={0}", "-I/nowhere,{0}",
]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
@pytest.mark.parametrize("spelled", NVCC_FLAGS)
def test_each_spelling_of_nvcc_is_understood(spelled, project):
    one = kernel(SOURCE, "cuda", [word.format(project) for word in spelled.split()])
    first, second, third = hashes(one, "cuda -arch=sm_90", project / "lib" / "b.h", project)
    assert first != second == third


@pytest.mark.many_cases
@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
@pytest.mark.parametrize("spelled", ["-include={0}", "-include {0}", "--pre-include={0}"])
def test_a_header_that_is_read_first_counts(spelled, project):
    source = SOURCE.replace('#include "lib/a.h"', "")
    flags = [word.format(project / "lib" / "a.h") for word in spelled.split()]
    one = kernel(source, "cuda", flags)
    first, second, _ = hashes(one, "cuda -arch=sm_90", project / "lib" / "b.h", project)
    assert first != second


def test_a_header_found_by_a_variable_counts(project, monkeypatch):
    monkeypatch.setenv("CPATH", f"/nowhere{os.pathsep}{project}")
    first, second, _ = hashes(kernel(C_SOURCE, "c", []), "c", project / "lib" / "b.h", project)
    assert first != second


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_a_header_found_by_the_flags_in_a_variable_counts(project, monkeypatch):
    project = project.rename(project.with_name("my headers"))
    monkeypatch.setenv("NVCC_APPEND_FLAGS", f'-I "{project}"')
    one = kernel(SOURCE, "cuda", [])
    first, second, _ = hashes(one, "cuda -arch=sm_90", project / "lib" / "b.h", project)
    assert first != second


@pytest.mark.parametrize(
    ("source", "flag"),
    [
        ('#define HEADER "lib/a.h"\n#include HEADER\n', ""),
        ("#define HEADER <lib/a.h>\n#include HEADER\n", ""),
        ("#include HEADER\n", '-DHEADER="lib/a.h"'),
    ],
)
def test_a_header_named_by_a_macro_counts(source, flag, project):
    source += "void f(float *y) { y[0] = VALUE; }\n"
    one = kernel(source, "c", [f"-I{project}", *filter(None, [flag])])
    first, second, third = hashes(one, "c", project / "lib" / "b.h", project)
    assert first != second == third


def test_an_edited_file_of_flags_compiles_anew(project):
    flags = project / "flags"
    one = kernel("void f(float *y) { y[0] = VALUE; }\n", "c", [f"@{project}/flags"])
    found = []
    for value in ("1.0f", "2.5f"):
        flags.write_text(f"-O1 '-DVALUE={value}'")
        found.append(compile_kernel(one, Target("c"), out_dir=project).code_hash)
        assert header_contents("", tuple(one.flags))[1] == ["-O1", f"-DVALUE={value}"]
    assert found[0] != found[1]


def test_a_file_of_flags_that_names_itself_ends(tmp_path):
    path = tmp_path / "flags"
    path.write_text(f"-O1 '@{path}'")
    assert list(expand_flag_files([f"@{path}"]))[:2] == ["-O1", "-O1"]
    assert list(expand_flag_files(["@/nowhere", "-O2"])) == ["@/nowhere", "-O2"]
    assert list(expand_flag_files(["--options-file", "/nowhere", "-O2"]))[-1] == "-O2"


def test_the_hash_of_a_kernel_sees_headers_that_are_named_in_full_or_relative(
    project, monkeypatch
):
    monkeypatch.chdir(project)
    header = project / "lib" / "b.h"
    ways = [(f'#include "{header}"\n', ()), ("", ("-include", "lib/b.h")), (C_SOURCE, ("-I.",))]
    before = [header_contents(*way)[0] for way in ways]
    header.write_text("#define VALUE 2.5f\n")
    after = [header_contents(*way)[0] for way in ways]
    assert all(old and old != new for old, new in zip(before, after, strict=True))


def test_relative_folders_are_those_of_the_caller(project, monkeypatch):
    monkeypatch.chdir(project)
    one = kernel(C_SOURCE, "c", ["-I."])
    first, second, _ = hashes(one, "c", project / "lib" / "b.h", project)
    assert first != second
    elsewhere = project / "elsewhere"
    (elsewhere / "lib").mkdir(parents=True)
    (elsewhere / "lib" / "a.h").write_text("#define VALUE 4.0f\n")
    monkeypatch.chdir(elsewhere)
    assert compile_kernel(one, Target("c"), out_dir=project).code_hash != second


def test_flags_become_absolute_where_they_name_a_folder_or_a_file_that_is_there(
    project, monkeypatch
):
    monkeypatch.chdir(project)
    flags = ("-Ilib", "-I", "lib", "-isystem=lib", "-include", "lib/a.h", "-include", "c.h", "-O1")
    lib = project / "lib"
    assert anchor_paths(flags) == (
        f"-I{lib}", "-I", f"{lib}", f"-isystem={lib}", "-include", f"{lib}/a.h",
        "-include", "c.h", "-O1",
    )  # fmt: skip


def test_a_header_that_starts_to_hide_another_counts(project):
    first = project / "first"
    first.mkdir()
    one = kernel(C_SOURCE, "c", [f"-I{first}", f"-I{project}"])
    before = compile_kernel(one, Target("c"), out_dir=project)
    (first / "lib").mkdir()
    (first / "lib" / "a.h").write_text("#define VALUE 9.0f\n")
    after = compile_kernel(one, Target("c"), out_dir=project)
    assert before.code_hash != after.code_hash


def test_headers_that_include_each_other_by_detours_are_listed_once(project):
    (project / "lib" / "a.h").write_text('#include "../lib/b.h"\n')
    (project / "lib" / "b.h").write_text('#include "../lib/a.h"\n#include <missing.h>\n')
    found = user_headers(C_SOURCE, (f"-I{project}",))
    assert {os.path.basename(path) for path, _ in found} == {"a.h", "b.h"}
    assert len({os.path.realpath(path) for path, _ in found}) == 2
    assert len(found) <= 4


def test_a_folder_or_a_pipe_named_like_a_header_is_none(project):
    os.mkfifo(project / "pipe.h")
    assert user_headers('#include "lib"\n#include "pipe.h"\n', (f"-I{project}",)) == []


def test_text_moved_from_one_header_to_another_counts(project):
    flags = (f"-I{project}",)
    a, b = project / "lib" / "a.h", project / "lib" / "b.h"
    before = user_headers(C_SOURCE, flags)
    a.write_text(a.read_text() + b.read_text())
    b.write_text("")
    assert user_headers(C_SOURCE, flags) != before


def test_a_variable_that_changes_what_compilers_do_compiles_anew(project, monkeypatch):
    one = kernel(C_SOURCE, "c", [f"-I{project}"])
    compile_kernel(one, Target("c"), out_dir=project)
    assert compile_kernel(one, Target("c"), out_dir=project).cached
    monkeypatch.setenv("LIBRARY_PATH", str(project))
    assert not compile_kernel(one, Target("c"), out_dir=project).cached


def test_each_way_to_write_a_flag_is_read_and_written_back():
    words = ("-I/a", "-I", "/b", "-I=/c", "--std=x", "--std", "y", "-lineinfo", "--stdx", "-D")
    flags = list(parse_flags(words, ("-I", "-D", "--std")))
    assert flags == [
        Flag("-I", "", "/a"), Flag("-I", " ", "/b"), Flag("-I", "=", "/c"),
        Flag("--std", "=", "x"), Flag("--std", " ", "y"), Flag("-lineinfo"), Flag("--stdx"),
        Flag("-D", " ", ""),
    ]  # fmt: skip
    assert tuple(word for flag in flags[:-1] for word in flag.words) == words[:-1]
