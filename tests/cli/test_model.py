"""`autotune model`: what it shows of a model, and the file that it writes."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.network import load_network

onnx = pytest.importorskip("onnx")


@pytest.fixture
def path(tmp_path):
    """The file of a small model, whose input has an open extent."""
    helper = onnx.helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Mul", ["m", "scale"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", 1, ["batch", 4]),
        helper.make_tensor_value_info("scale", 1, []),
    ]
    outputs = [helper.make_tensor_value_info("y", 1, ["batch", 3])]
    weights = [helper.make_tensor("w", 1, [4, 3], range(12))]
    graph = helper.make_graph(nodes, "small", inputs, outputs, weights)
    onnx.save(helper.make_model(graph), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def invoke(*args):
    return CliRunner().invoke(main, ["model", *map(str, args)])


def test_show_lists_inputs_outputs_and_operators(path):
    said = invoke("show", path, "-s", "batch=2", "-v", "scale=0.5")
    assert said.exit_code == 0, said.output
    for text in ("float32[2, 4]", "float32[2, 3]", "nn.dense", "multiply", "MB of weights"):
        assert text in said.output


@pytest.mark.parametrize(("options", "message"), [
    ((), "--shape x=1,4)"),
    (("-s", "batch"), "--shape: expected NAME=..., got 'batch'"),
    (("-s", "batch=two"), "--shape batch: expected 1,3,224,224, got 'two'"),
    (("-s", "batch=2", "-v", "scale=big"), "--value scale: expected a number, got 'big'"),
    (("-s", "rows=2"), "shapes must name inputs of the model"),
])  # fmt: skip
def test_wrong_options_are_one_message(path, options, message):
    said = invoke("show", path, *options)
    assert said.exit_code == 1
    assert message in said.output


def test_tune_writes_a_file_that_runs_alone(path, tmp_path):
    out, log = tmp_path / "small.network", tmp_path / "small.log"
    options = ("-s", "x=2,4", "-v", "scale=0.5", "-t", "c", "-b", "2", "--log", log, "-o", out)
    said = invoke("tune", path, *options)
    assert said.exit_code == 0, said.output
    assert "in " + str(out) in said.output.replace("\n", "")
    x = np.ones((2, 4), "float32")
    (result,) = load_network(out).instance()(x)
    expected = x @ np.arange(12, dtype="float32").reshape(4, 3) / 2
    np.testing.assert_allclose(result.numpy(), expected)


def test_tune_names_its_files_after_the_model(path, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    said = invoke("tune", path, "-s", "x=2,4", "-v", "scale=0.5", "-t", "c", "-b", "0.1")
    assert said.exit_code == 0, said.output
    assert sorted(p.name for p in Path.cwd().iterdir()) == ["small.log", "small.network"]


@pytest.mark.parametrize("option", ["--out", "--log"])
def test_tune_does_not_write_to_the_model(path, option):
    before = path.read_bytes()
    said = invoke("tune", path, "-s", "batch=1", "-b", "1", option, path)
    assert said.exit_code == 1
    assert "MODEL, --log and --out must be three files" in said.output
    assert path.read_bytes() == before


def test_tune_says_before_it_tunes_that_it_cannot_write(path, tmp_path):
    out, log = tmp_path / "none" / "small.network", tmp_path / "small.log"
    options = ("-s", "x=2,4", "-v", "scale=0.5", "-t", "c", "-b", "600", "--log", log, "-o", out)
    said = invoke("tune", path, *options)
    assert said.exit_code == 1
    assert "--out must be in a folder that can be written to" in said.output
    assert not log.exists()
