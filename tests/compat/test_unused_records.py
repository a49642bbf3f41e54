"""Records of TVM that a network cannot use are not passed over in silence."""

import json
import logging

import pytest

from autotune.tvm import autotvm, relay

OPERANDS = [["TENSOR", [16, 64], "{0}"], ["TENSOR", [64, 64], "{0}"], None, "{1}"]


def row(name, dtype, out_dtype, knobs):
    """Return a line of a log of TVM, of a layer of this network."""
    operands = json.loads(json.dumps(OPERANDS).replace("{0}", dtype).replace("{1}", out_dtype))
    target = "cuda -keys=cuda,gpu -max_num_threads=1024 -thread_warp_size=32"
    config = {"index": 12, "code_hash": None, "entity": knobs}
    result = [[1e-5], 0, 1.0, 1.6e9]
    fields = {"input": [target, name, operands, {}], "config": config, "result": result}
    return json.dumps({**fields, "version": 0.2, "tvm_version": "0.8.0"}) + "\n"


def said(tmp_path, caplog, dtype, out_dtype, *rows):
    log = tmp_path / "tvm.log"
    log.write_text("".join(rows))
    x = relay.var("x", shape=(16, 64), dtype=dtype)
    w = relay.var("w", shape=(64, 64), dtype=dtype)
    layer = relay.Function([x, w], relay.nn.dense(x, w, out_dtype=out_dtype))
    with caplog.at_level(logging.WARNING), autotvm.apply_history_best(str(log)):
        relay.build(relay.IRModule.from_expr(layer), "cuda -emulate")
    return [each.getMessage() for each in caplog.records if "relay.build" in each.getMessage()]


@pytest.mark.parametrize(
    ("name", "dtype", "out_dtype", "knobs"),
    [
        ("dense_int8.cuda", "int8", "int32", [["tile_y", "sp", [-1, 1, 8, 1]]]),
        ("dense_small_batch.gpu", "float32", "float32", [["tile_k", "sp", [-1, 4]]]),
    ],
)
def test_records_of_a_layer_that_no_template_can_use_are_named(
    tmp_path, caplog, name, dtype, out_dtype, knobs
):
    (message,) = said(tmp_path, caplog, dtype, out_dtype, row(name, dtype, out_dtype, knobs))
    assert f"records of {name}[('TENSOR', (16, 64), '{dtype}')" in message
    assert "are not used" in message


def test_records_of_other_layers_are_no_matter(tmp_path, caplog):
    other = row("dense_int8.cuda", "int8", "int32", [["tile_y", "sp", [-1, 1, 8, 1]]])
    assert not said(tmp_path, caplog, "float32", "float32", other.replace("64", "48"))


def test_a_record_that_is_used_is_no_matter(tmp_path, caplog):
    x = relay.var("x", shape=(16, 64))
    w = relay.var("w", shape=(64, 64))
    module = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    (task,) = autotvm.task.extract_from_program(module, {}, "cuda -emulate")
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(0))
    result = autotvm.MeasureResult((1e-5,), 0, 1.0, 1.6e9)
    used = autotvm.record.encode(inp, result) + "\n"
    # A record of TVM of the same layer is no matter then either.
    old = row("dense_int8.cuda", "float32", "float32", [["tile_y", "sp", [-1, 1, 8, 1]]])
    assert not said(tmp_path, caplog, "float32", "float32", used, old)
