"""Headers in the folder of a source file are found, as compilers find what is named in quotes."""

from dataclasses import replace

import numpy as np
import pytest

import autotune
from autotune.driver import kernel_hash
from autotune.errors import KernelError
from autotune.kernel.local_headers import header_flags
from autotune.kernel_tuner import run_kernel
from autotune.target import Target

TEXTS = {
    "cuda -emulate": 'extern "C" __global__ void f(float* y) { y[threadIdx.x] = TIMES; }\n',
    "llvm": "void f(float* y) { for (int i = 0; i < 4; ++i) y[i] = TIMES; }\n",
}
LONG = f'#include "{"a" * 5000}.h"\n'


def written(folder, target, times=3):
    """Write a source with headers, one of which includes another; return its path."""
    (folder / "more").mkdir(parents=True)
    (folder / "times.h").write_text('#include "more/number.h"\n#define TIMES NUMBER\n')
    (folder / "more" / "number.h").write_text(f"#define NUMBER {times}\n")
    source = folder / ("f.cu" if "cuda" in target else "f.c")
    source.write_text(f'#include "times.h"\n{TEXTS[target]}')
    return source


def kernel(source, target):
    launch = {"block": 4} if "cuda" in target else {}
    args = [autotune.arg("y", (4,), role="out")]
    return autotune.SourceKernel("f", source, args, **launch)


@pytest.mark.parametrize("target", TEXTS)
@pytest.mark.parametrize("name", ["plain", "with space é"])
def test_a_kernel_in_a_file_includes_headers_beside_it(tmp_path, monkeypatch, target, name):
    source = written(tmp_path / name, target)
    monkeypatch.chdir(tmp_path)
    function = autotune.build(kernel(source.relative_to(tmp_path), target), target=target)
    y = np.zeros(4, "float32")
    function(y)
    assert y.tolist() == [3] * 4


def test_the_hash_of_a_kernel_knows_the_headers_and_not_their_folder(tmp_path):
    here, there, other = (
        kernel_hash(kernel(written(tmp_path / name, "llvm", times), "llvm"), Target("llvm"))
        for name, times in (("a", 3), ("b", 3), ("c", 4))
    )
    assert here == there != other


def test_headers_beside_the_file_come_before_those_of_flags(tmp_path):
    source = written(tmp_path / "own", "llvm")
    written(tmp_path / "other", "llvm", 5)
    given = replace(kernel(source, "llvm"), flags=[f"-I{tmp_path / 'other'}"])
    y = np.zeros(4, "float32")
    autotune.build(given, target="llvm")(y)
    assert y.tolist() == [3] * 4


def test_flags_are_given_only_where_a_header_is_beside_the_file(tmp_path):
    (tmp_path / "here.h").touch()
    path = tmp_path / "f.c"
    assert header_flags(path, '#include "here.h"\n') == (f"-I{tmp_path}",)
    assert header_flags(path, '  #  include "here.h" // twice\n') == (f"-I{tmp_path}",)
    for text in ('#include "gone.h"', "#include <here.h>", '// #include "here.h"', "", LONG):
        assert header_flags(path, text) == ()


def test_the_first_of_several_files_of_kernel_tuner_includes_the_others(tmp_path, monkeypatch):
    source = written(tmp_path / "kernels", "cuda -emulate")
    monkeypatch.chdir(tmp_path)
    files = [str(path.relative_to(tmp_path)) for path in (source, source.with_name("times.h"))]
    with Target("cuda -emulate"):
        found = run_kernel("f", files, 4, [np.zeros(4, "float32")], {"block_size_x": 4})
    assert found[0].tolist() == [3] * 4


def test_a_template_of_jinja_includes_files_beside_it(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    (tmp_path / "part.c").write_text("float part(float x) { return x * {{ FACTOR }}; }")
    path = tmp_path / "f.c.j2"
    path.write_text('{% include "part.c" %}\nvoid f(float* y) { y[0] = part(2); }')
    monkeypatch.chdir(tmp_path)
    args = [autotune.arg("y", (1,), role="out")]
    for source in (path, "f.c.j2"):
        found = autotune.SourceKernel("f", source, args, {"FACTOR": 3})
        assert "float part(float x) { return x * 3; }\nvoid f" in found.text()
    with pytest.raises(KernelError, match="the Jinja2 source failed: 'FACTOR' is undefined"):
        autotune.SourceKernel("f", path, args).text()
    path.write_text('{% include "gone.c" %}')
    with pytest.raises(KernelError, match=r"source failed: TemplateNotFound: 'gone\.c'"):
        autotune.SourceKernel("f", path, args).text()
    path.write_text("{% if %}")
    with pytest.raises(KernelError, match="failed: TemplateSyntaxError: Expected an expression"):
        autotune.SourceKernel("f", path, args).text()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{{ 1 // 0 }}", "ZeroDivisionError"), ('{% include "f.c.j2" %}', "RecursionError"),
        ('{% include "latin.c" %}', "UnicodeDecodeError"),
        ('{% include "../f.c.j2" %}', r"TemplateNotFound: \.\./f"),
    ],
)  # fmt: skip
def test_what_fails_in_a_template_or_what_it_includes_is_an_error_of_the_kernel(
    tmp_path, text, error
):
    pytest.importorskip("jinja2")
    (tmp_path / "latin.c").write_bytes(b"// \xfc")
    (tmp_path / "f.c.j2").write_text(text)
    source = autotune.SourceKernel("f", tmp_path / "f.c.j2", [autotune.arg("y", (1,))])
    with pytest.raises(KernelError, match=f"the Jinja2 source failed: {error}"):
        source.text()


def test_a_file_of_cxx_is_compiled_as_such_for_the_cpu(tmp_path):
    path = tmp_path / "f.cpp"
    path.write_text(
        "#include <algorithm>\n"
        "void f(const float* x, float* y) {\n"
        "  std::transform(x, x + 4, y, [](float v) { return 2 * v; });\n}\n"
    )
    args = [autotune.arg("x", (4,)), autotune.arg("y", (4,), role="out")]
    source = autotune.SourceKernel("f", path, args)
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    autotune.build(source, target="llvm")(x, y)
    assert y.tolist() == [0, 2, 4, 6]
    assert source.kernel("cuda").flags == ()
    assert autotune.SourceKernel("f", path.read_text(), args).kernel("c").flags == ()
