"""The example programs run as they are, in an empty folder."""

import shutil
from pathlib import Path

import pytest

from tests.docs.running import ROOT, command, preloaded

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
READS_A_LOG = ("read_a_log.py", "use_the_best.py")
PRINTS = {
    "first_template.py": "best: ",
    "te_template.py": "fn main(A: in float32[64, 64]",
    "many_tasks.py": "best.log has 3 records",
    "import_onnx.py": "the same from the file: True",
    "own_tuner.py": "best: ",
    "own_callback.py": "ended: ",
    "read_a_log.py": " us ('example.scale', 1000)",
    "pytorch_model.py": "autotune.torch.compile: ",
    "use_the_best.py": "right: [0. 2. 4. 6.]",
}


@pytest.fixture(scope="module", autouse=True)
def _preloaded():
    with preloaded():
        yield


def run(name, folder, *args):
    """Runs a program as its docstring says; returns what it prints."""
    return command(" ".join(["python", str(EXAMPLES / name), *args]), folder)


@pytest.fixture(scope="module")
def first_template(tmp_path_factory):
    """What the first example prints, and the folder with the log that it wrote."""
    folder = tmp_path_factory.mktemp("first")
    return run("first_template.py", folder), folder


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_and_shows_what_it_says(name, tmp_path, first_template):
    printed, folder = first_template
    if name == "pytorch_model.py":
        pytest.importorskip("torch")
    if name == "resume.py":
        assert "0 known, 4 in all" in run(name, tmp_path)
        assert "4 known, 6 in all" in run(name, tmp_path, "6")
    elif name == "first_template.py":
        assert PRINTS[name] in printed
    else:
        if name in READS_A_LOG:
            shutil.copy(folder / "scale.log", tmp_path)
        assert PRINTS[name] in run(name, tmp_path)


def test_the_list_of_examples_is_whole():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    programs = [*PROGRAMS, *(path.name for path in EXAMPLES.glob("*.ipynb"))]
    assert len(PROGRAMS) == 10
    assert all(f"[{name}]({name})" in listed for name in programs)


def test_the_notebook_runs_and_holds_no_output(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    client = nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [one.get("text") or one["data"]["text/plain"] for c in cells for one in c.outputs]
    assert "True" in shown[-1]
    assert any("trials   4 " in text for text in shown)
    assert Path(tmp_path / "total.log").exists()
