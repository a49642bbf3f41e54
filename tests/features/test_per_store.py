"""The features of TVM's auto-scheduler say what can be counted by hand."""

import json
import math

import numpy as np
import pytest

from autotune import te
from autotune.auto_scheduler import (
    ComputeDAG,
    MeasureInput,
    RecordReader,
    SearchTask,
    SketchPolicy,
    XGBModel,
    feature,
    save_records,
)
from autotune.auto_scheduler.records.codec import GRAPH_HASH
from autotune.features import per_store_features
from autotune.measure import MeasureResult
from tests.auto_scheduler.graphs import matmul, tutorial_layer

NAMES = feature.get_per_store_feature_names()


def task_of(tensors, target="llvm"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def rows_of(task, state):
    """Return the features of each written buffer, sizes as they are."""
    (found,) = feature.get_per_store_features_from_states([state], task)
    return [dict(zip(NAMES, row, strict=True)) for row in found.astype(float)]


def size(value):
    return round(2**value - 1)


def tiled_product():
    task = task_of(matmul(512, 512, 512))
    state = task.compute_dag.get_init_state()
    c = state.stage_ops[2]
    i, j, k = state[c].iters
    outer_i, inner_i = state.split(c, i, [16])
    outer_j, inner_j = state.split(c, j, [8])
    state.reorder(c, [outer_i, outer_j, k, inner_j, inner_i])
    state.vectorize(c, inner_j)
    state.parallel(c, outer_i)
    state.parallel(c, outer_j)
    state.unroll(c, k)
    return task, state


def test_there_are_164_of_different_names():
    assert len(NAMES) == len(set(NAMES)) == feature.DEFAULT_FEATURE_VEC_LEN == 164
    assert NAMES[16] == "vec_num"
    assert NAMES[49] == "is_gpu"
    assert NAMES[57] == "B0.acc_type.kRead"
    assert NAMES[147] == "arith_intensity_curve_0"
    assert len(feature.get_per_store_feature_names(2)) == 164 - 3 * 18


def test_a_tiled_product_counts_operations_loops_and_bytes():
    (row,) = rows_of(*tiled_product())
    assert size(row["float_mul"]) == pytest.approx(512**3, rel=1e-6)
    assert size(row["float_addsub"]) == pytest.approx(512**3, rel=1e-6)
    for name, want in {
        "vec_num": 1, "vec_prod": 8, "unroll_num": 1, "unroll_len": 512, "parallel_num": 2,
        "parallel_prod": 512 * 512 / 16 / 8, "num_loops": 5, "blockIdx_x_len": 1,
        "auto_unroll_max_step": 0, "alloc_outer_prod": 1,
    }.items():  # fmt: skip
        assert row[name] == pytest.approx(math.log2(want + 1)), name
    assert row["is_gpu"] == 0
    assert row["vec_type.kPosMixed"] == 1


def test_a_tiled_product_reuses_each_matrix_where_its_index_stands_still():
    (row,) = rows_of(*tiled_product())
    buffers = [f"B{i}" for i in range(3)]
    (c,) = [b for b in buffers if row[f"{b}.acc_type.kReadWrite"]]
    read = [b for b in buffers if row[f"{b}.acc_type.kRead"]]
    (b,) = [each for each in read if row[f"{each}.stride"] == 0]
    (a,) = [each for each in read if each != b]
    for name, want in {
        f"{c}.bytes": 512**3 * 4, f"{b}.unique_bytes": 512**2 * 4, f"{a}.stride": 512,
        f"{c}.reuse_dis_iter": 8 * 16, f"{c}.reuse_dis_bytes": (8 * 16 + 8 + 16) * 4,
        f"{c}.reuse_ct": 512, f"{b}.reuse_ct": 16, f"{a}.reuse_ct": 8,
    }.items():  # fmt: skip
        assert row[name] == pytest.approx(math.log2(want + 1), abs=1e-5), name
    assert row["B3.bytes"] == 0


def test_what_one_stage_leaves_and_the_next_takes_is_reused_one_after_the_other():
    a = te.placeholder((64, 32), name="A")
    b = te.compute((64, 32), lambda i, j: a[i, j], name="B")
    task = task_of([a, b, te.compute((64, 32), lambda i, j: b[i, j], name="C")])
    state = task.compute_dag.get_init_state()
    state.compute_at(1, 2, state.stages[2].iters[1])
    first, second = rows_of(task, state)
    assert not any(value for name, value in first.items() if "kSerial" in name)
    assert second["B1.reuse_type.kSerialMultipleReadWrite"] == 1
    assert second["B1.reuse_dis_iter"] == pytest.approx(1.0)
    assert second["B1.reuse_dis_bytes"] == pytest.approx(math.log2(16 + 1))


# A kernel of blocks, virtual threads and threads, with copies in shared memory.
GPU_STEPS = [
    ["CHW", 2, "local"], ["SP", 2, 0, 512, [1, 16, 32, 1], 1], ["SP", 2, 5, 512, [4, 1, 1, 16], 1],
    ["SP", 2, 10, 512, [1, 2], 1], ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
    ["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]],
    ["FU", 2, [0, 1]], ["FU", 3, [0, 1]], ["FU", 2, [1, 2]], ["FU", 3, [1, 2]],
    ["FU", 2, [2, 3]], ["FU", 3, [2, 3]], ["CA", 2, 3, 2], ["CHR", 1, "shared", [2]],
    ["CA", 2, 3, 3], ["FU", 2, [0, 1]], ["FFSP", 2, 0, [1, 2], 1, 1], ["AN", 2, 1, 6],
    ["CHR", 0, "shared", [3]], ["CA", 1, 4, 3], ["FU", 1, [0, 1]], ["FFSP", 1, 0, [1, 2], 1, 1],
    ["AN", 1, 1, 6], ["AN", 5, 0, 5], ["AN", 5, 1, 4], ["AN", 5, 2, 6],
    ["PR", 4, 0, "auto_unroll_max_step$1024"],
]  # fmt: skip


def gpu_log(tmp_path, task):
    log = tmp_path / "log.json"
    given = [[task.workload_key, "cuda"], [[], GPU_STEPS]]
    line = {"i": given, "r": [[0.0054], 0, 2.5, 1585564852], "v": "v0.1"}
    log.write_text(json.dumps(line) + "\n")
    return log


def test_a_kernel_has_the_extents_of_its_thread_axes(tmp_path):
    task = task_of(matmul(512, 512, 512), "cuda")
    (inp,), _ = RecordReader(str(gpu_log(tmp_path, task))).read_lines()
    rows = rows_of(task, inp.state)
    assert len(rows) == 4
    for row in rows:
        assert size(row["blockIdx_x_len"]) == 8
        assert size(row["vthread_len"]) == 4
        assert size(row["threadIdx_x_len"]) == 16
        assert size(row["threadIdx_y_len"]) == size(row["blockIdx_z_len"]) == 1
        assert row["is_gpu"] == 1
    sizes = sorted(size(row["alloc_size"]) for row in rows)
    assert sizes == [64 * 2 * 4, 32 * 16 * 4, 512 * 2 * 4, 512 * 512 * 4]
    assert {size(row["auto_unroll_max_step"]) for row in rows} == {0, 1024}


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
def test_every_proposal_has_features(target):
    task = task_of(tutorial_layer(), target)
    states = SketchPolicy(task, XGBModel(), seed=0, verbose=0).propose(8)
    found = feature.get_per_store_features_from_states(states, task)
    assert all(len(each) > 1 and np.isfinite(each).all() for each in found)
    assert len({each.tobytes() for each in found}) > 1


def test_a_log_gives_features_throughputs_and_tasks(tmp_path):
    task = task_of(matmul(512, 512, 512), "cuda")
    log = gpu_log(tmp_path, task)
    (inp,), _ = RecordReader(str(log)).read_lines()
    slower = MeasureResult((0.0108,), 0, 2.5, 1585564853.0, "", {GRAPH_HASH: ""})
    plain = MeasureInput(inp.task, task.compute_dag.get_init_state())
    save_records(str(log), [inp], [slower])
    failed = MeasureResult((), 4, 1.0, 1585564854.0, "no", {})
    save_records(str(log), [plain], [failed])
    features, rates, tasks = feature.get_per_store_features_from_file(log, -1)
    assert [len(each) for each in features] == [4, 4, 0]
    assert rates == pytest.approx([1.0, 0.5, 0.0], abs=1e-3)
    assert list(tasks) == [0, 0, 0]
    assert [len(each) for each in features[rates < 0.9]] == [4, 0]  # scripts pick by masks
    assert features[:2].shape == (2,)  # also where all have one shape


def test_a_scalar_without_loops_has_features():
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() * 2.0, name="B")
    (row,) = per_store_features(te.create_schedule(b.op), [a, b], on_gpu=False)
    named = dict(zip(NAMES, row, strict=True))
    assert named["float_mul"] == 1
    assert named["num_loops"] == 0
