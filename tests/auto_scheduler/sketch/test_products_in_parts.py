"""Products on tensor cores of few results: blocks multiply parts of sums, another kernel adds."""

import numpy as np
import pytest

from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from tests.auto_scheduler.convolutions import Conv
from tests.auto_scheduler.search.test_cut_tiles import KINDS, programs
from tests.auto_scheduler.sketch.test_tensor_cores import kernels, product, wanted_of
from tests.fuzz.running import Job, run_batch

WORKLOADS = {
    "product": product(64, 96, 256, cast=True),
    "transposed, cut": product(50, 70, 128, cast=True, transposed=True),
    "convolution": Conv(n=1, c=128, h=8, w=9, f=64).tensors(),
    "cut convolution of OHWI": Conv(n=1, c=128, h=7, w=7, f=64, filters="OHWI").tensors(),
}


def parts_of(model):
    return [each for each in model if each.batch > 1]


def wanted(name, inputs):
    if "product" in name or "transposed" in name:
        return wanted_of({"transposed": "transposed" in name}, *inputs)
    rows = inputs[0].shape[1:3]
    filters = "OHWI" if "OHWI" in name else "HWIO"
    return Conv(n=1, c=128, h=rows[0], w=rows[1], f=64, filters=filters).wanted(inputs)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", WORKLOADS)
def test_parts_of_products_add_up_to_what_numpy_computes(name, tmp_path):
    rng, jobs = np.random.default_rng(0), []
    for kind in KINDS:
        task, found = programs(WORKLOADS[name], kind)
        for model in parts_of(found)[:2]:
            rows, made = kernels(task, model, 1)
            shape = model.shape(rows)
            for i, kernel in enumerate(made):
                first, second = kernel.calls
                assert np.prod(first.launch.grid) == shape.blocks[i]
                assert second.launch.shared_bytes == 0
                shapes = [each.shape for each in kernel.args if each.role == "in"]
                inputs = [rng.integers(-3, 4, each).astype(np.float16) for each in shapes]
                jobs.append(Job(kernel, inputs, i))
    assert jobs
    for job in jobs:
        (got,) = run_batch([job], tmp_path)
        assert not isinstance(got, str), got
        exact = wanted(name, job.inputs).astype(np.float16)
        np.testing.assert_array_equal(got[0], exact)


def test_sums_are_cut_in_parts_only_where_there_are_few_tiles():
    assert parts_of(programs(product(256, 256, 4096), TensorCoreCostModel)[1])
    assert not parts_of(programs(product(1024, 1024, 4096), TensorCoreCostModel)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_small_products_that_fills_a_device_is_not_cut(kind):
    for batch in (2, 64):
        found = programs(product(128, 128, 1024, batch=batch), kind)[1]
        assert any(each.batch > batch for each in found) is (batch == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_are_as_long_as_an_instruction_takes(kind):
    unit = 16 if kind is TensorCoreCostModel else 64
    found = parts_of(programs(product(64, 64, 1024), kind)[1])
    assert {each.batch for each in found} == {
        n for n in (2, 4, 8, 16, 32, 64) if 1024 // n >= unit
    }
    assert all(each.extents[2] % unit == 0 for each in found)


def test_the_kernel_that_adds_is_part_of_the_estimate():
    _, found = programs(product(64, 64, 1024), WarpgroupCostModel)
    whole = [each for each in found if each.batch == 1]
    assert all(each.around_seconds == 0 for each in whole)
    costs = [each.around_seconds for each in parts_of(found)]
    assert costs == sorted(costs)
    assert costs[0] > found[0].device.launch_s


def test_a_record_in_parts_comes_back_as_the_row_that_it_was():
    task, found = programs(WORKLOADS["convolution"], TensorCoreCostModel)
    model = parts_of(found)[0]
    rows, _ = kernels(task, model, 1)
    state = model.program.candidate(rows[0])
    assert model.program.row_of(state.transform_steps) == rows[0].tolist()
