"""Pickled rows give their data and run nothing."""

import base64
import os
import pickle
import sys
import types

import pytest

from autotune.errors import RecordError
from autotune.record import decode, load_from_file


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pytest.fixture
def tvm(monkeypatch):
    """Classes under the names that TVM's pickles hold; gone again when they are read."""
    module = types.ModuleType("tvm.autotvm.task.space")
    for name in ("ConfigEntity", "SplitEntity", "ReorderEntity", "AnnotateEntity"):
        kind = type(name, (Plain,), {"__module__": module.__name__})
        setattr(module, name, kind)
    module.OtherOptionEntity = type("OtherOptionEntity", (Plain,), {"__module__": module.__name__})
    with monkeypatch.context() as patch:
        for part in ("tvm", "tvm.autotvm", "tvm.autotvm.task"):
            patch.setitem(sys.modules, part, types.ModuleType(part))
        patch.setitem(sys.modules, module.__name__, module)
        yield module


def packed(value, protocol=4):
    return base64.b64encode(pickle.dumps(value, protocol)).decode()


def make_row(tvm, protocol=4, costs=(0.5,), tail="\t0.2\t0.12.0"):
    config = tvm.ConfigEntity(
        index=3,
        code_hash=None,
        _collect=False,
        _entity_map={
            "tile": tvm.SplitEntity(size=[-1, 4]),
            "order": tvm.ReorderEntity(perm=range(2)),
            "ann": tvm.AnnotateEntity(anns=["vec"]),
            "vec": tvm.OtherOptionEntity(val=8),
        },
        space_map={},
    )
    fields = [
        packed(["matmul", (64, ("TENSOR", (4,), "float32")), {}], protocol),
        packed(config, protocol),
        packed((costs, 0, 1.5, 100.0), protocol),
    ]
    return "\t".join(["llvm", *fields]) + tail


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("tail", ["\t0.2\t0.12.0", ""])
def test_a_pickled_row_is_read_without_tvm(tvm, protocol, tail):
    inp, result = decode(make_row(tvm, protocol, tail=tail), protocol="pickle")
    assert inp.task.workload == ("matmul", 64, ("TENSOR", (4,), "float32"))
    assert inp.config.to_json_dict() == {
        "index": 3,
        "code_hash": None,
        "entity": [
            ["tile", "sp", [-1, 4]],
            ["order", "re", [0, 1]],
            ["ann", "an", ["vec"]],
            ["vec", "ot", 8],
        ],
    }
    assert (result.costs, result.all_cost) == ((0.5,), 1.5)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/autotune-pwned",)


class Sneaky:
    def __reduce__(self):
        return getattr, ("text", "join")


@pytest.mark.parametrize("evil", [Evil(), Sneaky(), print, types.SimpleNamespace(a=1)])
@pytest.mark.parametrize("field", [1, 2, 3])
def test_a_row_that_names_anything_else_is_refused(tvm, evil, field):
    fields = make_row(tvm).split("\t")
    fields[field] = packed(evil)
    with pytest.raises(RecordError, match="which a record has no need of"):
        decode("\t".join(fields), protocol="pickle")
    assert not os.path.exists("/tmp/autotune-pwned")


@pytest.mark.parametrize("damage", ["", "!!!", "AAAA", base64.b64encode(b"\x80\x04.").decode()])
def test_a_damaged_row_is_refused(tvm, damage):
    fields = make_row(tvm).split("\t")
    fields[2] = damage
    with pytest.raises(RecordError):
        decode("\t".join(fields), protocol="pickle")
    with pytest.raises(RecordError, match="expected 4 or 6 tab-separated fields"):
        decode("a\tb", protocol="pickle")


def test_a_log_may_mix_both_protocols(tvm, tmp_path):
    log = tmp_path / "old.log"
    log.write_text(make_row(tvm) + "\n")
    assert [inp.config.index for inp, _ in load_from_file(log)] == [3]
