"""Points of te templates for GPUs: nearly all of those that are drawn can run on the device."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.lowering import lower_schedule
from autotune.target import Target
from autotune.task import TASK_TABLE, ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity, SplitEntity

TARGET = "cuda -arch=sm_90"
DRAWN = 20
# Small, usual and odd arguments.
CASES = {
    "te/conv2d_nchw.cuda": [
        (1, 56, 56, 64, 64, 3, 3, 1, 1), (2, 13, 13, 10, 7, 3, 3, 2, 1),
        (8, 224, 224, 64, 3, 7, 7, 2, 3),
    ],
    "te/conv2d_nchw_winograd.cuda": [(4, 28, 28, 128, 128, 3, 1), (1, 7, 5, 6, 10, 3, 1)],
    "te/dense.cuda": [(64, 512, 512), (53, 47, 50), (1, 1000, 4096)],
    "te/depthwise_conv2d_nchw.cuda": [
        (1, 112, 112, 96, 1, 3, 3, 2, 1), (1, 14, 14, 512, 1, 3, 3, 1, 1),
        (1, 13, 11, 31, 3, 3, 3, 1, 1),
    ],
    "te/gemm.cuda": [(1024, 1024, 1024), (64, 64, 64), (1000, 333, 127)],
    "te/softmax.cuda": [(4096, 4096), (5, 70000), (3, 5)],
}  # fmt: skip


def _arrays(*shapes, dtype="float32"):
    return [("TENSOR", shape, dtype) for shape in shapes]


# Templates under the names of TVM's, of any sums of products.
SUMS = {
    "conv3d_ncdhw.cuda": [
        (*_arrays((1, 16, 8, 28, 28), (32, 16, 3, 3, 3)), (1,) * 3, (1,) * 6, (1,) * 3),
    ],
    "conv2d_transpose_nchw.cuda": [
        (*_arrays((1, 64, 14, 14), (64, 32, 4, 4)), (2, 2), (1, 1, 1, 1), "float32"),
        (*_arrays((2, 31, 13, 9), (31, 53, 3, 3)), (2, 1), (1, 1, 1, 1), "float32", (1, 0)),
    ],
    "batch_matmul_int8.cuda": [
        (*_arrays((4, 128, 64), (4, 128, 64), dtype="int8"), None, "float32"),
    ],
}  # fmt: skip
EVERY = [(name, args) for name, each in (CASES | SUMS).items() for args in each]


def test_every_te_template_for_gpus_is_here():
    names = [name for name in TASK_TABLE if name.startswith("te/") and name.endswith(".cuda")]
    assert sorted(names) == sorted(CASES)


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "args"), EVERY, ids=str)
def test_nine_of_ten_drawn_points_can_be_lowered(name, args):
    task = create(name, args, TARGET)
    limits, failed = Target(TARGET).limits, []
    drawn = task.config_space.sample(DRAWN, np.random.default_rng(0))
    for index in drawn:
        schedule, tensors = task.instantiate(task.config_space.get(index))
        try:
            lower_schedule(schedule, tensors, target_kind="cuda", limits=limits)
        except AutotuneError as error:
            failed.append(str(error))
    assert len(failed) <= len(drawn) / 10, failed


@pytest.mark.parametrize("name", ["te/gemm.cuda", "te/conv2d_nchw.cuda"])
def test_smaller_devices_have_fewer_points(name):
    args = CASES[name][0]
    small, large = (
        len(create(name, args, f"cuda -arch={a}").config_space) for a in ("sm_75", "sm_90")
    )
    assert 0 < small < large


def recorded(threads, own, slice_k, pipeline=0):
    """Return a configuration of ``te/gemm.cuda``, as logs have it, of (rows, columns)."""
    values = {"sharing": 1, "vector": 1, "pipeline": pipeline}
    values |= {"auto_unroll_max_step": 0, "unroll_explicit": 0}
    splits = {
        "tile_i": [-1, 1, threads[0], own[0]],
        "tile_j": [-1, 1, threads[1], own[1]],
        "tile_k": [-1, slice_k],
    }
    entities = {name: OtherOptionEntity(value) for name, value in values.items()}
    return ConfigEntity(7, None, entities | {n: SplitEntity(s) for n, s in splits.items()})


def test_a_record_whose_point_is_left_out_now_still_builds_its_kernel():
    task = create("te/gemm.cuda", (1024, 1024, 1024), TARGET)
    spilling = recorded((4, 8), (16, 32), 2)
    assert task.config_space.point_of(spilling.recorded) is None
    schedule, tensors = task.instantiate(spilling)
    lower_schedule(schedule, tensors, target_kind="cuda", limits=Target(TARGET).limits)


def test_a_record_of_a_larger_device_is_refused_by_what_is_too_large():
    config, limits = recorded((8, 8), (16, 8), 128), Target("cuda -arch=sm_75").limits
    schedule, tensors = create("te/gemm.cuda", (1024,) * 3, "cuda -arch=sm_75").instantiate(config)
    with pytest.raises(AutotuneError, match="shared memory"):
        lower_schedule(schedule, tensors, target_kind="cuda", limits=limits)


def test_a_sum_in_one_slice_is_counted_without_a_ring_of_slices():
    task = create("te/gemm.cuda", (64, 64, 128), TARGET)
    point = task.config_space.point_of(recorded((8, 8), (8, 8), 128, pipeline=4).recorded)
    schedule, tensors = task.instantiate(point)
    lowered = lower_schedule(schedule, tensors, target_kind="cuda", limits=Target(TARGET).limits)
    assert lowered.kernels[0].shared_bytes < 80 * 1024
