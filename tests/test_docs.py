"""What the documents say can be typed: their Python runs, and their commands exist.

A block that is no program by itself is marked ``python fragment`` and not run. The others of one
document are run one after the other, as one program, in a process and a folder of their own.
"""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from autotune.cli.main import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# Smaller shapes and networks, fewer trials, and a target that every machine has.
SMALLER = {
    "1024": "16", "300": "4", '"cuda"': '"cuda -emulate"',
    "resnet.get_workload(num_layers=18)": "mlp.get_workload(1, image_shape=(1, 4, 4))",
}  # fmt: skip
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ {4}((?:python -m benchmarks|autotune |make )[^#\n]*)", re.MULTILINE)
_CODE = re.compile(r"`((?:autotune|make) [a-z][^`\n]*)`")


def name(path):
    return str(path.relative_to(ROOT))


def programs():
    """Return the documents that have Python to run, with the blocks that are run."""
    found = {}
    for path in DOCUMENTS:
        blocks = _BLOCK.findall(path.read_text("utf-8"))
        code = [text for language, mark, text in blocks if (language, mark) == ("python", "")]
        if code:
            found[path] = code
    return found


def commands():
    found = []
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        lines = [line for _, _, block in _BLOCK.findall(text) for line in block.splitlines()]
        typed = [line for line in lines if line.startswith(("make ", "autotune "))]
        typed = [line.partition("#")[0] for line in typed]
        every = [*_COMMAND.findall(text), *_CODE.findall(text), *typed]
        found += [(name(path), one.strip()) for one in every]
    return sorted(set(found))


@pytest.mark.parametrize("path", programs(), ids=name)
def test_the_python_of_a_document_runs(path, tmp_path):
    program = "\n".join(programs()[path])
    for written, run in SMALLER.items():
        program = program.replace(written, run)
    done = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_documents_have_python_to_run():
    assert "README.md" in map(name, programs())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_a_block_is_python_that_runs_a_marked_fragment_or_no_python(path):
    marks = {mark for language, mark, _ in _BLOCK.findall(path.read_text("utf-8"))}
    assert marks <= {"", " fragment"}


@pytest.mark.parametrize(("where", "command"), commands())
def test_a_command_of_a_document_exists_with_its_options(where, command):
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
        module = import_module(words[2])
        text = Path(module.__file__).read_text("utf-8")
        assert all(f'"{option}"' in text for option in options), f"{where}: {command}"
