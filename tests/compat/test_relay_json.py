"""Networks of relay as text and as files: `tvm.ir.save_json` and `TVMCModel.save`."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError
from autotune.graph import graph_text
from autotune.tvm import relay
from autotune.tvm.driver import tvmc


def small():
    """Return a module of several outputs, with constants of several dtypes and a limit."""
    x = relay.var("x", shape=(1, 4, 6, 6))
    weight = relay.const(np.arange(144, dtype="float32").reshape(4, 4, 3, 3))
    y = relay.nn.conv2d(x, weight, padding=(1, 1), kernel_size=(3, 3), channels=4)
    parts = relay.split(relay.clip(y, 0.0, np.float64(6)), 2, axis=1)
    whole = relay.cast(relay.const(np.float32([1.5, -2])), "bfloat16")
    return tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([parts[1], parts[0], whole])))


def test_a_module_is_the_same_after_it_was_written_and_read():
    module = small()
    text = tvm.ir.save_json(module)
    assert json.loads(text)["version"] == 1
    again = tvm.ir.load_json(text)
    graphs = [each["main"].graph for each in (module, again)]
    assert graph_text(graphs[0]) == graph_text(graphs[1])
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype("float32")
    for a, b in zip(*[graph.run(x, dtype=None) for graph in graphs], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["mlp", "resnet", "mobilenet", "squeezenet"])
def test_networks_of_relay_testing_are_the_same_after_it(name):
    module, params = getattr(relay.testing, name).get_workload(1)
    again = tvm.ir.load_json(tvm.ir.save_json(module))
    assert str(again) == str(module)
    graph = again["main"].graph.bind(params)
    assert graph.flop == module["main"].graph.flop


def test_a_function_and_an_expression_become_a_function():
    x = relay.var("x", shape=(3,))
    for node in (relay.Function([x], relay.exp(x)), relay.exp(x)):
        again = tvm.ir.load_json(tvm.ir.save_json(node))
        assert isinstance(again, relay.Function)
        assert [each.name for each in again.params] == ["x"]


GOOD = json.loads(tvm.ir.save_json(small()))
MAIN = GOOD["module"]["main"]


def changed(**parts):
    return json.dumps(GOOD | {"module": {"main": MAIN | parts}})


@pytest.mark.parametrize(("text", "said"), [
    ("", "Expecting value"), ("[]", "list indices"), ('{"root": 1, "nodes": []}', "form"),
    ("[" * 100_000, "load_json"), (json.dumps(GOOD | {"version": 2}), "expected form"),
    (changed(nodes=[["nn.strange", {}, [0]]]), "there is no operator 'nn.strange'"),
    (changed(nodes=[["nn.relu", {}, [99]]]), "99 is the place of no value before"),
    (changed(nodes=[["nn.relu", {"other": 1}, [0]]]), "unexpected keyword"),
    (changed(outputs=[-1]), "-1 is the place of no value"),
    (changed(constants=[[[2], "float32", "c", "AAAA"]]), "load_json"),
    (changed(constants=[[[2], "float32", "c", "!"]]), "load_json"),
], ids=[
    "empty", "list", "of TVM", "deep", "version", "operator", "place", "attribute", "output",
    "few", "no base64",
])  # fmt: skip
def test_what_is_no_network_is_refused(text, said):
    with pytest.raises(GraphError, match=said):
        tvm.ir.load_json(text)


def test_what_is_no_network_is_not_written():
    with pytest.raises(GraphError, match="expected a module or function of relay, got 3"):
        tvm.ir.save_json(3)


def test_a_model_of_tvmc_is_kept_in_a_file(tmp_path):
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    weight = np.arange(12, dtype="float32").reshape(4, 3)
    model = tvmc.TVMCModel(relay.Function([x, w], relay.nn.dense(x, w)), {"w": weight})
    model.save(tmp_path / "model.tar")
    again = tvmc.TVMCModel(model_path=tmp_path / "model.tar")
    assert str(again.mod) == str(model.mod)
    np.testing.assert_array_equal(again.params["w"].numpy(), weight)
    with pytest.raises(GraphError, match="cannot write the model to"):
        model.save(tmp_path / "missing" / "model.tar")
    (tmp_path / "other").write_bytes(b"no archive")
    for path in ("other", "missing"):
        with pytest.raises(GraphError, match="must be a file that TVMCModel"):
            tvmc.TVMCModel(model_path=tmp_path / path)
    with pytest.raises(GraphError, match="mod must be a module of relay, or model_path a file"):
        tvmc.TVMCModel()


def archive(path, data=b"", **changes):
    """Write a model whose network is an entry with other fields."""
    entry = tarfile.TarInfo("mod.json")
    entry.size = len(data)
    for name, value in changes.items():
        setattr(entry, name, value)
    with tarfile.open(path, "w") as made:
        made.addfile(entry, io.BytesIO(data))
        made.addfile(tarfile.TarInfo("mod.params"))
    return path


HOLES = {
    "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "mod.json",
    "GNU.sparse.realsize": str(1 << 50),
}  # fmt: skip


@pytest.mark.parametrize("changes", [
    {"type": tarfile.SYMTYPE, "linkname": "mod.json"},
    {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    {"type": tarfile.LNKTYPE, "linkname": "mod.params"},
    {"type": tarfile.FIFOTYPE},
    {"type": tarfile.DIRTYPE},
    {"data": b"0\n".ljust(512, b"\0"), "pax_headers": HOLES},
], ids=["link to itself", "link out", "second name", "pipe", "folder", "holes"])  # fmt: skip
def test_a_model_of_tvmc_is_of_plain_files(tmp_path, changes):
    with pytest.raises(GraphError, match=r"mod\.json is no plain file"):
        tvmc.TVMCModel(model_path=archive(tmp_path / "model.tar", **changes))


@pytest.mark.parametrize("path", ["", 3, b"\0"], ids=["empty", "number", "zero"])
def test_a_path_of_a_model_of_tvmc_is_a_path(path):
    with pytest.raises(GraphError, match="model_path must be a file that TVMCModel"):
        tvmc.TVMCModel(model_path=path)
    model = tvmc.TVMCModel(relay.exp(relay.var("x", shape=(2,))))
    with pytest.raises(GraphError, match="cannot write the model to"):
        model.save(path)


def test_a_compressed_model_of_tvmc_is_none(tmp_path):
    """It could be of any size."""
    model = tvmc.TVMCModel(relay.exp(relay.var("x", shape=(2,))))
    model.save(tmp_path / "model.tar")
    (tmp_path / "small").write_bytes(gzip.compress((tmp_path / "model.tar").read_bytes()))
    with pytest.raises(GraphError, match="must be a file that TVMCModel"):
        tvmc.TVMCModel(model_path=tmp_path / "small")
