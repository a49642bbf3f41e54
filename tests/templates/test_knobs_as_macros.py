"""Knobs of templates become macros of their texts, in which nothing else may have their names."""

import re

import numpy as np
import pytest

from autotune.kernel import SourceKernel
from autotune.task import create
from tests.templates.test_spaces_are_fast import MANY_CONDITIONS, WORKLOADS

# Transposed convolutions that run by families of 2-D ones that the standard layer does not take.
PHASES = [
    ("conv2d_transpose.cuda", ((1, 200, 128, 128), (200, 6, 2, 2), (3,))),
    ("conv2d_transpose.cuda", ((1, 3, 56, 56), (3, 64, 4, 4), (2,), (1,))),
    ("conv3d.cuda", ((1, 3, 8, 9, 9), (4, 3, 3, 3, 3), (2,), (1,))),
]
TYPES = (
    "int|unsigned|float|double|bool|char|short|long|size_t|void|auto|class|typename|const"
    "|__restrict__"
)
DECLARED = re.compile(rf"\b(?:(?:{TYPES})\b[\s*&]*)+([A-Za-z_]\w*)")
CONSTANTS = re.compile(r"\bconstexpr\s+\w+\s+([^;{]*)")
FURTHER = re.compile(r",\s*([A-Za-z_]\w*)\s*=(?!=)")
COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def names_declared(text):
    """Return the names that a text declares or defines whatever its macros are."""
    plain = COMMENTS.sub("", text).replace("\\\n", " ")
    names, depth, always = set(), 0, []
    for line in plain.splitlines():
        words = line.replace("#", "# ").split()
        directive = words[1] if words[:1] == ["#"] else ""
        depth += directive.startswith("if") - (directive == "endif")
        if directive == "define" and not depth:
            names.add(re.match(r"\w+", words[2]).group())
        if not (directive or depth):
            always.append(line)
    code = "\n".join(always)
    names.update(DECLARED.findall(code))
    for declarators in CONSTANTS.findall(code):
        names.update(FURTHER.findall(declarators))
    return names


def clashing(source):
    """Return the numbers among a kernel's macros whose names its text declares."""
    numbers = {name for name, value in source.defines.items() if not isinstance(value, str)}
    return numbers & names_declared(source.source)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("template <int TILE, class T>\nvoid f(T x) {}", "TILE"),
        ("constexpr int ROWS = M / 2, TILE = 4;", "TILE"),
        ("void f(const float* __restrict__ TILE) {}", "TILE"),
        ("#define TILE 4\n", "TILE"),
    ],
)  # fmt: skip
def test_a_name_that_a_text_declares_is_found(text, name):
    assert clashing(SourceKernel("f", text, defines={name: 3, "M": 2}, args=())) == {name}


@pytest.mark.parametrize(
    "text",
    ["#ifndef TILE\n#define TILE 4\n#endif\n", "int x = TILE;  // int TILE", "return TILE + 1;"],
)
def test_a_macro_that_a_text_only_reads_or_has_a_default_of_does_not_clash(text):
    assert not clashing(SourceKernel("f", text, defines={"TILE": 3}, args=()))


SOURCES = [one for one in [*WORKLOADS, *MANY_CONDITIONS, *PHASES] if not one[0].startswith("te/")]


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args"), SOURCES)
def test_no_text_declares_what_a_knob_or_size_is_called(name, args):
    task = create(name, args, "llvm" if name.endswith("cpu") else "cuda -arch=sm_90")
    drawn = task.config_space.sample(4, np.random.default_rng(0))
    for config in [task.default(), *(task.config_space.get(i) for i in drawn)]:
        source = task.instantiate(config)
        assert not clashing(source), [one.entry for one in source.calls]
