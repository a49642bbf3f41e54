"""Kernels that take numbers and constants are tuned and verified like any other."""

import numpy as np
import pytest

import autotune
import autotune.task as at
from autotune.kernel import SourceKernel, arg, constant
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option
from autotune.record import apply_history_best
from autotune.tuner import GridSearchTuner, callback

BODY = "if (i < n) y[i] = alpha * gain[i % 4] * x[i] + OFFSET; else y[i] = 0;"
SOURCES = {
    "c": "float gain[4];\n"
    "void f(int n, const float *x, float alpha, float *y) {\n"
    f"  for (int i = 0; i < 64; i++) {{ {BODY} }}\n}}\n",
    "cuda": "__constant__ float gain[4];\n"
    'extern "C" __global__ void f(int n, const float *x, float alpha, float *y) {\n'
    f"  int i = threadIdx.x; {BODY}\n}}\n",
}
SEEN = []


def reference(n, x, alpha, gain):
    SEEN.append((n, alpha))
    return np.where(np.arange(64) < n, alpha * gain[np.arange(64) % 4] * x, np.float32(0))


@at.template("measure_test.scalars")
def scalars(value):
    cfg = at.get_config()
    cfg.define_knob("offset", [0, 1])
    return SourceKernel(
        "f",
        SOURCES[autotune.Target.current().language],
        defines={"OFFSET": cfg["offset"].val},
        block=64,
        args=[
            arg("n", (), "int32", value=value),
            arg("x", (64,)),
            arg("alpha", ()),
            constant("gain", (4,)),
            arg("y", (64,), role="out"),
        ],
        reference=reference,
    )


def measured(target, value, **options):
    task = at.create("measure_test.scalars", (value,), target=target)
    runner = LocalRunner(timeout=30, cooldown_interval=0, verify="all", **options)
    with Pipeline(task, measure_option(LocalBuilder(timeout=60), runner)) as pipeline:
        configs = [task.config_space.get(i) for i in range(2)]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    return results


@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
def test_the_reference_gets_the_numbers_and_wrong_kernels_are_found(target):
    SEEN.clear()
    right, wrong = measured(target, 40)
    assert right.ok, right
    assert wrong.error_no == 5
    ((n, alpha),) = set(SEEN)
    assert (type(n), int(n)) == (np.int32, 40)
    assert type(alpha) is np.float32
    assert alpha != 0


def test_values_of_ref_input_may_be_plain_numbers():
    SEEN.clear()
    ones = np.ones(64, "float32")
    values = [8, ones, 0.5, np.arange(4), np.zeros(64)]
    right, wrong = measured("c", None, ref_input=values)
    assert right.ok, right
    assert wrong.error_no == 5
    assert set(SEEN) == {(8, 0.5)}


@pytest.mark.parametrize("value", [None, 40])
def test_a_whole_number_that_is_drawn_is_named_in_a_warning(value, caplog):
    assert measured("c", value)[0].ok
    said = [one for one in caplog.messages if "drawn at random" in one]
    assert len(said) == (value is None)
    assert all(
        "argument 'n' is " in one and "arg('n', (), 'int32', value=...)" in one for one in said
    )


def test_a_kernel_with_scalars_is_tuned_logged_and_replayed(tmp_path):
    log = tmp_path / "scalars.log"
    task = at.create("measure_test.scalars", (64,), target="c")
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(timeout=30, cooldown_interval=0))
    GridSearchTuner(task).tune(2, option, callbacks=[callback.log_to_file(str(log))])
    with apply_history_best(str(log)), autotune.Target("c"):
        func = autotune.build(scalars(64))
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    func(np.int16(10), x, 2, np.ones(4, "float32"), y)
    np.testing.assert_array_equal(y, np.where(x < 10, 2 * x, 0))


@at.template("measure_test.instances")
def instances():
    cfg = at.get_config()
    cfg.define_knob("kind", ["float", "double"])
    cfg.define_knob("times", [1, 3, 2])
    return SourceKernel(
        f"twice<{cfg['kind'].val}, {cfg['times'].val}>",
        """
        template <class T, int Times>
        __global__ void twice(const float *x, float *y) {
          extern __shared__ T tile[];
          tile[threadIdx.x] = x[threadIdx.x];
          __syncthreads();
          y[threadIdx.x] = Times * tile[threadIdx.x];
        }
        """,
        block=64,
        shared_bytes=8 * 64,
        args=[arg("x", (64,)), arg("y", (64,), role="out")],
        reference=lambda x: 2 * x,
    )


def test_knobs_may_choose_the_instance_of_a_template():
    task = at.create("measure_test.instances", (), target="cuda -emulate")
    option = measure_option(
        LocalBuilder(timeout=60), LocalRunner(timeout=30, cooldown_interval=0, verify="all")
    )
    with Pipeline(task, option) as pipeline:
        configs = [task.config_space.get(i) for i in range(6)]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        found = {}
        while pipeline.outstanding:
            for measured_input, result in pipeline.next_results():
                found[measured_input.config.index] = result
    right = [i for i in found if configs[i]["times"].val == 2]
    assert sorted(i for i, result in found.items() if result.ok) == sorted(right)
    assert all(result.error_no == 5 for i, result in found.items() if i not in right), found
