"""TVM's `driver.tvmc`: a model is loaded, tuned, compiled and run, each in one call."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.tvm import relay
from autotune.tvm.driver import tvmc
from tests.scripts import run_python

onnx = pytest.importorskip("onnx")
X = np.random.default_rng(0).random((4, 12)).astype("float32")
W = np.random.default_rng(1).random((12, 8)).astype("float32")


@pytest.fixture
def path(tmp_path):
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    x = onnx.helper.make_tensor_value_info("x", 1, ["n", 12])
    y = onnx.helper.make_tensor_value_info("y", 1, ["n", 8])
    weight = onnx.numpy_helper.from_array(W, "w")
    graph = onnx.helper.make_graph([node], "net", [x], [y], [weight])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def load(path):
    return tvmc.load(str(path), shape_dict={"x": [4, 12]})


def test_a_model_is_compiled_to_a_file_and_run(path, capsys):
    model = load(path)
    model.summary()
    assert "nn.dense" in capsys.readouterr().out
    kept = path.with_name("net.tar")
    tvmc.compile(model, target="llvm", package_path=str(kept), dump_code=["relay", "c"])
    assert "nn.dense" in kept.with_name("net.tar.relay").read_text()
    package = tvmc.TVMCPackage(package_path=str(kept))
    result = tvmc.run(package, device="cpu", inputs={"x": X}, repeat=2, number=1)
    np.testing.assert_allclose(result.get_output("output_0"), X @ W, rtol=1e-5)
    assert "mean (ms)" in str(result)
    assert str(result).endswith("['output_0']")
    np.savez(path.with_name("in.npz"), x=2 * X)
    twice = tvmc.run(package, "cpu", inputs=str(path.with_name("in.npz")), repeat=1, number=1)
    twice.save(path.with_name("out.npz"))
    with np.load(path.with_name("out.npz")) as written:
        np.testing.assert_allclose(written["output_0"], 2 * X @ W, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_model_of_pytorch_is_read_from_its_file(tmp_path):
    torch = pytest.importorskip("torch")
    torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.zeros(2, 3)), tmp_path / "net.pt")
    package = tvmc.compile(tvmc.load(tmp_path / "net.pt", shape_dict={"x": [2, 3]}), "llvm")
    given = np.array([[-1, 0, 1], [2, -3, 4]], "float32")
    result = tvmc.run(package, "cpu", inputs={"x": given}, repeat=1, number=1)
    np.testing.assert_array_equal(result.get_output("output_0"), np.maximum(given, 0))


@pytest.mark.parametrize(("mode", "expected"), [("zeros", 0 * X @ W), ("ones", (0 * X + 1) @ W)])
def test_inputs_that_are_not_given_are_filled(path, mode, expected):
    package = tvmc.compiler.compile_model(load(path), "llvm")
    result = tvmc.run(package, "cpu", fill_mode=mode, repeat=1, number=1)
    np.testing.assert_allclose(result.outputs["output_0"], expected, rtol=1e-5)


@pytest.mark.parametrize("searched", [False, True])
def test_records_of_a_model_are_replayed_when_it_is_compiled(path, searched, monkeypatch):
    monkeypatch.chdir(path.parent)
    model = tvmc.TVMCModel(*relay.frontend.from_onnx(str(path), {"x": [4, 12]}))
    log = str(path.with_name("net.json"))
    found = tvmc.tune(
        model, "llvm", tuning_records=log, prior_records=log, trials=2, tuner="random",
        enable_autoscheduler=searched, parallel=1, verbose=0,
    )  # fmt: skip
    assert found == log
    assert not path.with_name("total_latency.tsv").exists()
    package = tvmc.compile(model, "llvm", tuning_records=found)
    result = tvmc.run(package, "cpu", inputs={"x": X}, repeat=1, number=1)
    np.testing.assert_allclose(result.get_output("output_0"), X @ W, rtol=1e-5)


def test_the_command_compiles_and_runs_a_model(path, capsys):
    package, out = str(path.with_name("net.tar")), str(path.with_name("out.npz"))
    shapes = ["--input-shapes", "x:[4,12]"]
    command = ["compile", "--target", "llvm", "-o", package, *shapes, str(path)]
    assert tvmc.main.main(command) == 0
    options = ["--fill-mode", "ones", "--print-top", "2", "--print-time", "-o", out]
    assert tvmc.main.main(["run", *options, package]) == 0
    printed = capsys.readouterr().out
    order = np.argsort(-W.sum(0))[:2].tolist()
    assert "mean (ms)" in printed
    assert printed.count(f"[{order}, ") == 4
    with np.load(out) as written:
        np.testing.assert_allclose(written["output_0"], (0 * X + 1) @ W, rtol=1e-5)
    assert tvmc.main.main(["compile", "--target", "llvm", str(path)]) == 1
    assert "tvmc: from_onnx: shapes must be known" in capsys.readouterr().err


def test_greatest_outputs_are_found_in_numbers_without_a_sign(tmp_path, capsys):
    x = relay.var("x", shape=(1, 4), dtype="uint8")
    model = tvmc.TVMCModel(relay.Function([x], relay.Tuple([x + x, x > relay.const(3, "uint8")])))
    package = tvmc.compile(model, "llvm", package_path=tmp_path / "net.tar")
    np.savez(tmp_path / "in.npz", x=np.array([[3, 0, 7, 7]], "uint8"))
    given = ["-i", str(tmp_path / "in.npz"), package.package_path]
    assert tvmc.main.main(["run", "--print-top", "2", *given]) == 0
    assert capsys.readouterr().out.split("\n")[:2] == [
        "[[2, 3], [14, 14]]",
        "[[2, 3], [True, True]]",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-i", "none.npz"], "tvmc: tvmc.run: cannot read inputs of none.npz"),
        (["-i", "net.tar"], "inputs must be a file of named arrays"),
        (["-i", "net.onnx"], "tvmc: tvmc.run: cannot read inputs of net.onnx"),
        (["-o", "no/out.npz"], "tvmc: cannot write outputs to no/out.npz: No such file"),
    ],
    ids=["no inputs", "array", "no arrays", "no folder"],
)
def test_files_that_the_command_cannot_read_or_write_are_named(
    path, options, message, capsys, monkeypatch
):
    monkeypatch.chdir(path.parent)
    tvmc.compile(load(path), "llvm", package_path="package.tar")
    with open("net.tar", "wb") as file:
        np.save(file, X)
    assert tvmc.main.main(["run", *options, "package.tar"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["compile", "--target", "llvm", "--input-shapes", "x=4"], "expected such as 'data:[1,3,"),
        (["run", "--number", "0"], "expected a whole number of at least 1, got '0'"),
        (["run", "--print-top", "-2"], "expected a whole number of at least 1, got '-2'"),
    ],
    ids=["shapes", "number", "top"],
)
def test_wrong_options_of_the_command_are_explained(options, message, capsys):
    with pytest.raises(SystemExit):
        tvmc.main.main([*options, "net"])
    assert message in capsys.readouterr().err


def test_the_command_is_run_by_the_name_of_its_module(path):
    given = ["tune", "--target", "llvm", "-o", "log", "--trials", "1", "--help", str(path)]
    ended = run_python("-m", "autotune.tvm", "-m", "tvm.driver.tvmc", *given)
    assert "--enable-autoscheduler" in ended.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:[1,2] b.1: [3]", {"a": [1, 2], "b.1": [3]}), ("'x':[4, 12]", {"x": [4, 12]})],
)
def test_shapes_are_read_from_a_text(text, expected):
    assert tvmc.main.parse_shape_string(text) == expected
    with pytest.raises(GraphError, match="--input-shapes: expected such as"):
        tvmc.main.parse_shape_string(text + " c=5")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: tvmc.load("net.h5"), "path must be a model in ONNX .* export others"),
        (lambda model: tvmc.load("net.pt"), "shape_dict must be the shapes of all inputs"),
        (lambda model: tvmc.load("net.pt", shape_dict={"x": [1]}), "net.pt is no model of torch"),
        (lambda model: tvmc.tune(model, "llvm", trials=0), "trials must be a whole number of at"),
        (lambda model: tvmc.compile(model, "llvm", dump_code="ll"), "dump_code must be one of"),
        (lambda model: tvmc.tune(model, "llvm", tuner="best"), "tuner must be one of 'ga', "),
        (lambda model: tvmc.tune(model, "llvm", rpc_key="pi"), "None: this host's devices"),
        (lambda model: tvmc.compile(model, "llvm", cross="gcc"), "cross must be None"),
        (lambda model: tvmc.compile(7, "llvm"), "tvmc_model must be what tvmc.load returns"),
        (lambda model: tvmc.run(model, "cpu"), "tvmc_package must be what tvmc.compile returns"),
    ],
    ids=[
        "format",
        "shapes",
        "no file",
        "trials",
        "code",
        "tuner",
        "tracker",
        "cross",
        "no model",
        "no package",
    ],
)
def test_what_tvmc_cannot_do_here_is_refused(path, call, message):
    with pytest.raises(GraphError, match=message):
        call(load(path))
