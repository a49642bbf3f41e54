"""Records for tests, and rows as TVM v0.12.0 encodes them."""

import json

from autotune.measure.types import MeasureInput, MeasureResult
from autotune.target import Target
from autotune.task import ConfigEntity, Task

CONV_ARGS = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
CONV_CONFIG = {
    "index": 7166780,
    "code_hash": None,
    "entity": [
        ["tile_f", "sp", [-1, 32, 1, 2]],
        ["order", "re", [1, 0]],
        ["bind", "an", ["none", "vec"]],
        ["auto_unroll_max_step", "ot", 512],
    ],
}
# The encoder of TVM v0.12.0 wrote a row of this form, with this order of keys.
TVM_ROW = (
    '{"input": ["cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32", '
    '"tutorial/conv2d_no_batching", [1, 7, 7, 512, 512, 3, 3, [1, 1], [1, 1]], {}], '
    '"config": {"index": 7166780, "code_hash": null, "entity": [["tile_f", "sp", [-1, 32, 1, 2]], '
    '["order", "re", [1, 0]], ["bind", "an", ["none", "vec"]], '
    '["auto_unroll_max_step", "ot", 512]]}, '
    '"result": [[0.00012345, 0.00012351], 0, 3.21, 1700000000.5], "version": 0.2, '
    '"tvm_version": "0.12.0"}'
)
TVM_FAILED_ROW = TVM_ROW.replace(
    "[[0.00012345, 0.00012351], 0, 3.21, 1700000000.5]",
    "[[1000000000.0], 1, 0.0123, 1700000001.25]",
)
TARGET = "cuda -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"


def make_input(task="tutorial/conv2d_no_batching", args=CONV_ARGS, target=TARGET, config=None):
    target = Target(target)
    entity = ConfigEntity.from_json_dict(config or CONV_CONFIG)
    return MeasureInput(target, Task(task, args, target), entity)


def make_config(index, **values):
    entity = [[name, "ot", value] for name, value in values.items()]
    return {"index": index, "code_hash": None, "entity": entity}


def good(*costs, timestamp=1700000000.5, **extra):
    return MeasureResult(costs, 0, 3.21, timestamp, "", extra)


def failed(error_no, message="", timestamp=1700000001.25):
    return MeasureResult((), error_no, 0.0123, timestamp, message)


def row(**change):
    return json.dumps({**json.loads(TVM_ROW), **change})
