"""What is left of a kernel without comments has the same tokens, and of another kernel others."""

import re
import shutil
import subprocess
from pathlib import Path

import autotune.templates
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernel.comments import without_comments

KERNELS = sorted((Path(autotune.templates.__file__).parent / "kernels").rglob("*.*"))
with_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def preprocessed(text, *options):
    """Return what g++ has between blanks, and how many tabs, which literals keep."""
    command = ["g++", "-x", "c++", "-std=c++14", "-w", "-E", "-P", "-dD", *options, "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    # Blanks around ## mean nothing, and g++ has them where it likes.
    out = re.sub(r" *## *", "##", done.stdout.decode().replace("\\\n", " "))
    return [word for word in out.split() if word != "\\"], out.count("\t")


@with_compiler
def test_kernels_have_the_same_tokens_without_comments():
    for path in KERNELS:
        text = path.read_text("utf-8")
        bare = without_comments(text)
        assert bare != text, path
        assert len(bare.splitlines()) < len(text.splitlines()), path
        assert preprocessed(bare, "-fpreprocessed") == preprocessed(text, "-fpreprocessed"), path
        assert without_comments(bare) == bare, path


PIECES = st.sampled_from([
    '"', "'", "\\", "\\\n", "\\ \n", "\n", " ", "\t", "//", "/*", "*/", "/", "*", "a", "R", "u8",
    "1", "0x1f", "1'000", "'0", "e+", ".", "#define A ", "#", "%:", "'x'", '"s\t t"', '"//"',
    '"/*"', "// c\n", "/* c */", "(", "\r\n", "\\\r\n", "'\\''", '"\\""', "\f", "?",
])  # fmt: skip


@with_compiler
@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_text_has_the_same_tokens_without_comments(text):
    bare = without_comments(text)
    if bare != text:
        assert preprocessed(bare, "-undef") == preprocessed(text, "-undef")


@given(st.lists(PIECES, max_size=20).map("".join))
def test_a_text_without_comments_stays_as_it_is(text):
    bare = without_comments(text)
    assert without_comments(bare) == bare


SAME = [
    ("a = b; // why", "a = b;"),
    ("a /* c */ = /* d */ b;\n\n", "a = b;"),
    ("a\n  = b;", "a = b;"),
    ("a // goes on \\\n here\n= b", "a = b"),
    ("/\\\n/ comment\na", "a"),
    ("a\t+  b   \n", "a + b"),
    ("#define A 1 /* one\n more */\nx", "#define A 1\nx"),
    ("/* c */ #define A 1\nx", "#define A 1\nx"),
    ("#define A \\\n  1\nx", "#define A 1\nx"),
    ('s = "a"; // "', 's = "a";'),
    ("n = 1'000'000; // it's", "n = 1'000'000;"),
    ("n = 0x1'f; /* ' */ m = 'x';", "n = 0x1'f; m = 'x';"),
    ("c = u8'a'; // '", "c = u8'a';"),
    ("c = '\"'; // \"", "c = '\"';"),
    ("#define N 4\n#line 1\nx // c\n", "#define N 4\n#line 1\nx"),
    ('#define N "//" // c\n// d\n#line 1\nx', '#define N "//"\n#line 1\nx'),
    ("a;\r\n// c\r\nb;\r\n", "a; b;"),
]


@pytest.mark.parametrize(("text", "bare"), SAME)
def test_comments_and_layout_are_left_out(text, bare):
    assert without_comments(text) == bare


KEPT = [
    's = "// no comment";',
    's = "/* none */ \\" // none";',
    'c = \'"\'; d = "//";',
    "#include <a//b.h>",
    "#if __has_include(<it's.h>) // c",
    's = R"(a // b)";  // kept too',
    's = LR"x(" // )x";',
    "a ??/\n// b",
    "#if 0\nit isn't // so\n#endif",
    "a /* never ends",
    "n = 1''0; // c",
    "n = 1'; // c",
    "line = __LINE__; // c\n\n",
    "\\ // c",
    "// c \\ \n a",
    "a\r// c\r",
    "// c\f\n a",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_not_surely_a_comment_stays(text):
    assert without_comments(text) == text


DIFFERENT = [
    ("a/**/b", "ab"),
    ("#define F/**/(x)", "#define F(x)"),
    ("S(a  +b)", "S(a+b)"),
    ("#define A 1\nx", "#define A 1 x"),
    ("x\n#define A 1", "x #define A 1"),
    ("x\n%:define A 1", "x %:define A 1"),
    ('s = "a  b"', 's = "a b"'),
    ("c = '\t'", "c = ' '"),
    ("a = b //* c */ d\n;", "a = b / d\n;"),
    ("#define N 4\\\n#line 1\nx", "#define N 4\n#line 1\nx"),
    ("// c \\\n#line 1\nx // d", "\n#line 1\nx"),
    ("a /*\n#line 1\n*/ x", "a\n#line 1\n*/ x"),
    ("a\n#line 1\nx", "a x"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_texts_that_compile_differently_stay_different(one, other):
    assert without_comments(one) != without_comments(other)
