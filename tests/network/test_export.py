"""Networks in files: damage is found, nothing is written elsewhere, and files appear whole."""

import json
import zipfile

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import AutotuneError, GraphError, KernelError
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor

HEAD = "network.json"


def build():
    module, params = relay.testing.mlp.get_workload(1, image_shape=(1, 4, 4))
    return relay.build(module, target="llvm", params=params)


@pytest.fixture(scope="module")
def library():
    return build()


@pytest.fixture(scope="module")
def exported(library, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "net.so"
    library.export_library(path)
    return path


def changed(path, to, change):
    """Copy an archive with its members changed: ``change(name, bytes)`` gives name and bytes."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            new.writestr(*change(name, old.read(name)))
    return to


def with_head(path, to, change):
    def one(name, content):
        if name != HEAD:
            return name, content
        head = json.loads(content)
        change(head)
        return name, json.dumps(head)

    return changed(path, to, one)


def run(library, data):
    net = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    net.run(data=data)
    return net.get_output(0).numpy()


def first_place(head):
    return head["steps"][0][1][0]


DAMAGE = {
    "modules": lambda head: head.update(modules="two"),
    "more modules": lambda head: head.update(modules=99),
    "memory": lambda head: head.update(memory=[1, 1]),
    "no memory": lambda head: head.update(memory=None),
    "kernel": lambda head: head["steps"][0].__setitem__(0, 99),
    "negative kernel": lambda head: head["steps"][0].__setitem__(0, -1),
    "home": lambda head: first_place(head).__setitem__(0, "attic"),
    "index": lambda head: first_place(head).__setitem__(1, 77),
    "negative index": lambda head: first_place(head).__setitem__(1, -1),
    "shape": lambda head: first_place(head).__setitem__(2, [1, 1, 4, 5000]),
    "negative shape": lambda head: first_place(head).__setitem__(2, [-1, -16]),
    "dtype": lambda head: first_place(head).__setitem__(3, "float7"),
    "smaller input": lambda head: head["inputs"][0].__setitem__(2, [1, 1, 2, 2]),
    "smaller output": lambda head: head["outputs"][0].__setitem__(2, [1, 2]),
    "fewer arguments": lambda head: head["steps"][0][1].pop(),
    "names": lambda head: head.update(input_names=[]),
    "constants": lambda head: head["constants"].append(["x", [1], "float32"]),
    "target": lambda head: head.update(target="toaster"),
    "version": lambda head: head.update(version=0),
    "missing": lambda head: head.clear(),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", DAMAGE)
def test_a_plan_that_was_damaged_is_refused(kind, exported, tmp_path):
    path = with_head(exported, tmp_path / "net.so", DAMAGE[kind])
    with pytest.raises(GraphError, match="load_network: path must be"):
        tvm.runtime.load_module(path)


@pytest.mark.parametrize("head", ["[]", "5", "{", "", "null"])
def test_a_head_that_is_something_else_is_refused(head, exported, tmp_path):
    path = changed(exported, tmp_path / "n", lambda name, b: (name, head if name == HEAD else b))
    with pytest.raises(GraphError, match="load_network: path must be"):
        tvm.runtime.load_module(path)


def test_a_file_with_any_byte_flipped_loads_right_or_is_refused(exported, tmp_path, library):
    whole = exported.read_bytes()
    data = np.ones((1, 1, 4, 4), "float32")
    want = run(library, data)
    for at in np.random.default_rng(0).integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        (tmp_path / "net.so").write_bytes(damaged)
        try:
            loaded = tvm.runtime.load_module(tmp_path / "net.so")
        except AutotuneError:
            continue
        np.testing.assert_array_equal(run(loaded, data), want)


def test_members_with_paths_write_nothing_elsewhere(exported, tmp_path):
    archive = tmp_path / "in" / "net.so"
    archive.parent.mkdir()

    def climbing(name, content):
        return f"../../{name}", content

    with pytest.raises(AutotuneError):
        tvm.runtime.load_module(changed(exported, archive, climbing))
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(archive, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.writestr("../escaped", "x")
        new.writestr(str(tmp_path / "absolute"), "x")
    tvm.runtime.load_module(archive)
    assert [*tmp_path.iterdir()] == [archive.parent]
    assert [*archive.parent.iterdir()] == [archive]


def test_a_function_whose_file_name_leads_elsewhere_is_refused(library, tmp_path):
    library.network.modules[0].export_library(tmp_path / "kernel.so")

    def climbing(name, content):
        if name != "kernel.json":
            return name, content
        return name, json.dumps({**json.loads(content), "suffix": "/../../escaped.so"})

    path = changed(tmp_path / "kernel.so", tmp_path / "hostile.so", climbing)
    with pytest.raises(KernelError, match="cannot end in"):
        tvm.runtime.load_module(path)


def test_what_stood_there_stays_when_a_network_cannot_be_written(library, tmp_path, monkeypatch):
    path = tmp_path / "net.so"
    path.write_bytes(b"before")
    full = OSError(28, "No space left on device")

    def fail(*_):
        raise full

    monkeypatch.setattr(zipfile.ZipFile, "write", fail)
    with pytest.raises(GraphError, match="No space left on device"):
        library.export_library(path)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"before"
