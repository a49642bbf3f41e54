"""What the book says can be typed: its programs run, and its commands exist.

`docs/pages.py` says what the blocks of a page are. The Python of one page is one program, in a
process and a folder of its own; files are saved and commands run there, in the page's order.
"""

import contextlib
import re
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from docs.pages import blocks, run
from tests.docs.fragments import GRANTED, completed
from tests.docs.running import ROOT, Interpreter, command, preloaded

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Smaller shapes and networks, fewer trials, and a target that every machine has.
SMALLER = {
    "README.md": {
        "1024": "16", "300": "1",
        '"cuda"': '"cuda -emulate"',
    },
    "docs/auto_scheduler.md": {"1024": "8", "300": "2", '"cuda"': '"llvm"'},
    "docs/start.md": {"N, K = 512, 64": "N, K = 128, 4", "        24,": "        2,"},
    "docs/first_cuda_template.md": {
        "        6,": "        1,", "(60, 100)": "(20, 36)", "(100, 60)": "(36, 20)",
    },
    "docs/first_te_template.md": {"        24,": "        2,", "(128,)": "(16,)"},
    "docs/results.md": {"64, 128]": "64]", "4, 8, 16, 32, 64": "4, 32"},
    "docs/searching.md": {"            200,": "            2,"},
    "docs/networks.md": {
        "num_measure_trials=6": "num_measure_trials=4", "budget_s=300": "budget_s=1",
    },
    "docs/stencil.md": {"    4,\n": "    1,\n"},
    "docs/several_kernels.md": {"    4,\n": "    1,\n"},
}  # fmt: skip
# What newcomers type first: run always, and of the other pages a few, but where all cases run.
FIRST = ("README.md", "docs/start.md", "docs/first_te_template.md")
MARKS = re.compile(r"|fragment|output|[\w-]+\.(py|cu|c|h|cpp)")
_COMMAND = re.compile(r"^ {4}((?:python -m benchmarks|autotune |make )[^#\n]*)", re.MULTILINE)
_KNOB = re.compile(r"^ +\d+ (\w+): [A-Z]\w+\(", re.MULTILINE)
_CODE = re.compile(r"`((?:autotune|make) [a-z][^`\n]*)`")


@pytest.fixture(scope="module", autouse=True)
def _preloaded():
    with preloaded():
        yield


def name(path):
    return path.relative_to(ROOT).as_posix()


def text_to_run(path):
    text = path.read_text("utf-8")
    for written, smaller in SMALLER.get(name(path), {}).items():
        assert written in text, f"{name(path)} has no {written!r}"
        text = text.replace(written, smaller)
    return completed(name(path), text, ROOT / "tests" / "data")


def programs():
    """Return the pages that are run; a page takes seconds."""
    return [
        pytest.param(path, marks=[pytest.mark.many_cases] * (name(path) not in FIRST))
        for path in PAGES
        if any(b.runs or b.commands for b in blocks(path.read_text("utf-8")))
    ]


def commands():
    found = []
    for path in PAGES:
        text = path.read_text("utf-8")
        lines = [line for block in blocks(text) for line in block.text.splitlines()]
        typed = [line.removeprefix("$ ") for line in lines]
        typed = [
            line.partition("#")[0] for line in typed if line.startswith(("make ", "autotune "))
        ]
        every = [*_COMMAND.findall(text), *_CODE.findall(text), *typed]
        found += [(name(path), one.strip()) for one in every]
    return sorted(set(found))


@pytest.mark.parametrize("path", programs(), ids=name)
def test_the_programs_and_commands_of_a_page_run_and_its_spaces_are_those_printed(path, tmp_path):
    page = {block.start: block for block in blocks(text_to_run(path))}
    with contextlib.closing(Interpreter(tmp_path)) as program:
        shown = run([*page.values()], tmp_path, program.python, lambda c: command(c, tmp_path))
        for block in shown:
            assert block.text.strip(), f"nothing was printed at {block}"
            assert _KNOB.findall(block.text) == _KNOB.findall(page[block.start].text)


def test_the_readme_and_the_first_chapters_have_programs():
    found = {name(path) for (path,), _, _ in programs()}
    assert {"README.md", "docs/start.md", "docs/first_cuda_template.md"} <= found


def test_each_fragment_is_run_or_says_why_not():
    found = {}
    for path in PAGES:
        marks = [b.mark for b in blocks(path.read_text("utf-8")) if b.language == "python"]
        found |= {name(path): marks.count("fragment")} if "fragment" in marks else {}
    assert found == {page: len(granted) for page, granted in GRANTED.items()}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_block_says_what_it_is(path):
    for block in blocks(path.read_text("utf-8")):
        if block.language in ("python", "cuda", "c", "text", "console"):
            assert MARKS.fullmatch(block.mark), (block.language, block.mark)


def run_by_name(name):
    """Return the module that `python -m` runs."""
    module = import_module(name)
    return import_module(f"{name}.__main__") if hasattr(module, "__path__") else module


def text_of(module):
    """Return the text of a benchmark, and of those from which it has functions."""
    names = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
    shared = [import_module(name) for name in sorted(names) if name.startswith("benchmarks.")]
    return "".join(Path(each.__file__).read_text("utf-8") for each in [module, *shared])


@pytest.mark.parametrize(("where", "command"), commands())
def test_a_command_of_a_page_exists_with_its_options(where, command):
    words = command.split()
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), where
    elif words[0] == "autotune":
        names = [word for word in words[1:] if word.isalpha() and word.islower()][:2]
        helped = CliRunner().invoke(main, [*names[:1], "--help"])
        if len(names) > 1 and f"\n  {names[1]}" in helped.output:
            helped = CliRunner().invoke(main, [*names, "--help"])
        assert helped.exit_code == 0, where
        assert all(option in helped.output for option in options), where
    else:
        text = text_of(run_by_name(words[2]))
        assert all(f'"{option}"' in text for option in options), f"{where}: {command}"
