"""Every trial on a device is compared, with its inputs and the bytes around its outputs."""

import numpy as np
import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option
from autotune.runtime import device
from autotune.runtime.arrays.array import array, numpy_dtype
from autotune.runtime.arrays.inspector import Inspector
from tests.trials import inputs_of

pytestmark = pytest.mark.gpu

N = 4096
MODES = [
    "", "x[i] = x[i] + (i == 5);", "if (i == 0) y[-1] = 1;", "if (i == 0) y[N] = 1;",
    "if (i == 77) y[i] = 7;", "y[i] *= 1.00001f;", "",
]  # fmt: skip
SAID = [
    "", "it overwrites what it only reads by its declaration: x",
    "it writes outside of its arguments, around y", "it writes outside of its arguments, around y",
    "y: 1 of 4096 elements differ", "elements differ", "",
]  # fmt: skip


@at.template("gpu_verification.modes")
def modes():
    cfg = at.get_config()
    cfg.define_knob("mode", list(range(len(MODES))))
    source = (
        f'extern "C" __global__ void f(float *x, float *y) {{ const int N = {N};\n'
        f"int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = expf(x[i]); (void)N;\n"
        f"{MODES[cfg['mode'].val]} }}"
    )
    return SourceKernel(
        "f",
        source,
        [arg("x", (N,)), arg("y", (N,), role="out")],
        grid=N // 256,
        block=256,
        reference=lambda x: np.exp(x),
    )


def test_each_fault_costs_its_own_trial_and_says_what_it_is():
    task = at.create("gpu_verification.modes", (), target="cuda")
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(cooldown_interval=0))
    with Pipeline(task, option) as pipeline:
        space = task.config_space
        pipeline.submit([MeasureInput(task.target, task, space.get(i)) for i in range(len(MODES))])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    for said, result in zip(SAID, results, strict=True):
        assert (result.error_no == 0) == (not said), result
        assert said in result.error_msg
        assert not result.ok or result.extra["verified"]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "bool"]
)
def test_the_device_judges_as_the_host_does(dtype):
    where = device("cuda")
    inspector = Inspector(where)
    rng = np.random.default_rng(0)
    want = (
        (rng.uniform(-50, 50, 100_003) > 0) if dtype == "bool" else rng.uniform(-50, 50, 100_003)
    )
    want = want.astype(numpy_dtype(dtype))
    got = want.copy()

    def tally(got, bounds=None):
        inspector.begin()
        limits = None if bounds is None else array(bounds, where)
        arrays = array(got, where), array(want, where)
        place, other = inspector.compare(*arrays, limits), inspector.digest(arrays[0])
        answers = inspector.answers()
        return answers.tally(place), answers.digest(other)

    right, before = tally(got)
    assert right.wrong == 0
    got[-1] = got[-1] == 0 if dtype == "bool" else got[-1] + numpy_dtype(dtype).type(1)
    got[17] = got[17] == 0 if dtype == "bool" else numpy_dtype(dtype).type(7)
    wrong, after = tally(got)
    assert wrong.wrong == 2
    assert after != before
    bounded, _ = tally(got, np.full(want.size, 200.0, np.float32))
    apart = np.abs(got.astype("f8") - want.astype("f8")) / 200
    assert (bounded.wrong, bounded.counted) == (0, want.size)
    assert bounded.squares == pytest.approx(np.sum(apart**2))


@pytest.mark.parametrize("shape", [(4096, 4096), (256, 4096), (128, 2048)])
def test_right_softmaxes_of_long_rows_are_taken(shape):
    import autotune.templates  # noqa: F401 - registers the tasks

    task = at.create("te/softmax.cuda", shape, target="cuda")
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(cooldown_interval=0))
    with Pipeline(task, option) as pipeline:
        inputs = inputs_of(task, range(10))
        pipeline.submit(inputs)
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    assert [r.error_msg for r in results] == [""] * 10
    assert all(r.extra["verified"] for r in results)
