"""Scripts of Kernel Tuner run with their import lines changed."""

import json

import numpy as np
import pytest

from autotune import kernel_tuner
from autotune.errors import AutotuneError, TunerError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.kernel_tuner.file_utils import store_metadata_file, store_output_file
from autotune.kernel_tuner.observers import BenchmarkObserver
from autotune.kernel_tuner.observers.nvml import NVMLObserver, get_nvml_pwr_limits
from autotune.kernel_tuner.util import RuntimeFailedConfig, get_best_config, get_config_string
from autotune.target import Target
from autotune.task import TASK_TABLE

SCALE = """
__global__ void scale(float *out, const float *x, float factor, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) out[i] = factor * x[i] + OFFSET;
}
"""
SUM = """
void total(double *out, const float *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i += UNROLL)
    for (int u = 0; u < UNROLL; ++u) sum += x[i + u];
  *out = sum;
}
"""
SIZE = 1000


@pytest.fixture
def arguments():
    x = np.random.default_rng(0).normal(size=SIZE).astype("float32")
    return [np.zeros_like(x), x, np.float32(2.0), np.int32(SIZE)]


@pytest.fixture(autouse=True)
def on_the_emulator():
    with Target("cuda -emulate"):
        yield


def tune(arguments, params=None, **options):
    params = {"block_size_x": [32, 64, 128], "OFFSET": [0]} if params is None else params
    options = {"quiet": True, "iterations": 1, **options}
    return tune_kernel("scale", SCALE, SIZE, arguments, params, **options)


def test_all_configurations_are_timed_in_milliseconds(arguments):
    results, env = tune(arguments, answer=[2 * arguments[1], None, None, None])
    assert sorted(each["block_size_x"] for each in results) == [32, 64, 128]
    assert all(each["time"] == pytest.approx(np.median(each["times"])) for each in results)
    assert env["best_config"]["time"] == min(each["time"] for each in results)
    assert env["failed"] == []
    assert not any(name.startswith("kernel_tuner/") for name in TASK_TABLE)


def test_a_wrong_answer_is_a_failure(arguments):
    params = {"block_size_x": [64], "OFFSET": [0, 1]}
    results, env = tune(arguments, params, answer=[2 * arguments[1], None, None, None])
    assert [each["OFFSET"] for each in results] == [0]
    (wrong,) = env["failed"]
    assert isinstance(wrong["time"], RuntimeFailedConfig)
    assert "differ from the answer by up to 1" in wrong["error"]


def test_a_function_may_say_what_is_right(arguments):
    seen = []

    def verify(answer, results, atol):
        seen.append(atol)
        return np.isclose(results[0].sum(), answer[0], atol=atol)

    total = [2 * arguments[1].sum(), None, None, None]
    results, _ = tune(arguments, answer=total, verify=verify, atol=1e-2)
    assert len(results) == 3
    assert seen == [1e-2] * 3


def test_restrictions_are_expressions_or_functions(arguments):
    for restrictions in (
        ["block_size_x % 64 == 0", lambda p: p["block_size_x"] < 100],
        "block_size_x == 64",
        lambda block_size_x: block_size_x == 64,
    ):
        results, _ = tune(arguments, restrictions=restrictions)
        assert [each["block_size_x"] for each in results] == [64]
    with pytest.raises(AutotuneError, match="no tunable parameters: warps; there are block_size"):
        tune(arguments, restrictions=["warps > 1"])
    with pytest.raises(AutotuneError, match="restrictions: expected expressions"):
        tune(arguments, restrictions=[3])


def test_metrics_are_expressions_or_functions_and_may_be_the_objective(arguments):
    metrics = {"rate": lambda p: SIZE / p["time"], "double": "2 * rate * block_size_x"}
    results, env = tune(
        arguments, metrics=metrics, objective="double", objective_higher_is_better=True
    )
    for each in results:
        assert each["double"] == pytest.approx(2 * SIZE / each["time"] * each["block_size_x"])
    assert env["best_config"]["double"] == max(each["double"] for each in results)
    with pytest.raises(AutotuneError, match="no power among"):
        tune(arguments, metrics={"GFLOPS/W": "time / power"})


@pytest.mark.parametrize(
    "strategy", [None, "random_sample", "genetic_algorithm", "simulated_annealing", "pso"]
)
def test_a_strategy_tries_as_many_as_it_may(arguments, strategy):
    options = {"max_fevals": 2, "popsize": 2}
    results, _ = tune(arguments, strategy=strategy, strategy_options=options, seed=0)
    assert len(results) == 2


def test_a_strategy_that_nobody_knows_is_refused(arguments):
    with pytest.raises(AutotuneError, match=r"strategy: expected one of brute_force, .*'guess'"):
        tune(arguments, strategy="guess")


def test_what_a_cache_holds_is_not_measured_again(arguments, tmp_path):
    cache = str(tmp_path / "deep" / "scale")
    first, _ = tune(arguments, cache=cache, strategy_options={"max_fevals": 2}, seed=0)
    held = json.loads((tmp_path / "deep" / "scale.json").read_text())
    assert held["tune_params_keys"] == ["block_size_x", "OFFSET"]
    assert len(held["cache"]) == 2
    again, _ = tune(arguments, cache=cache)
    times = {each["block_size_x"]: each["time"] for each in again}
    assert len(times) == 3
    for each in first:
        assert times[each["block_size_x"]] == pytest.approx(each["time"])
    simulated, _ = tune(arguments, cache=cache, simulation_mode=True)
    assert len(simulated) == 3
    few, _ = tune(arguments, cache=cache, simulation_mode=True, restrictions=["block_size_x > 32"])
    assert sorted(each["block_size_x"] for each in few) == [64, 128]
    with pytest.raises(AutotuneError, match=r"simulation_mode: cache .* has no results"):
        tune(arguments, cache=str(tmp_path / "none"), simulation_mode=True)


def test_a_cache_keeps_what_this_call_does_not_ask_for(arguments, tmp_path):
    cache = tmp_path / "scale"
    tune(arguments, cache=cache)
    tune(arguments, cache=cache, restrictions=["block_size_x > 64"])
    assert len(json.loads((tmp_path / "scale.json").read_text())["cache"]) == 3


@pytest.mark.parametrize(
    ("params", "size", "words"),
    [
        ({"block_size_x": [32], "OFFSET": [0], "VECTOR": [1]}, SIZE, "has parameters"),
        (
            {"block_size_x": [32], "OFFSET": [0]},
            900,
            r"has problem size \[1000, 1, 1\], not \[900",
        ),
    ],
)
def test_a_cache_of_something_else_is_left_alone(arguments, tmp_path, params, size, words):
    cache = tmp_path / "scale"
    tune(arguments, cache=cache)
    before = (tmp_path / "scale.json").read_bytes()
    with pytest.raises(AutotuneError, match=words):
        tune_kernel("scale", SCALE, size, arguments, params, quiet=True, cache=cache)
    assert (tmp_path / "scale.json").read_bytes() == before


def test_a_run_that_is_interrupted_keeps_what_it_measured(arguments, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_tuner.interface.KernelRun, "check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(arguments, cache=tmp_path / "scale", answer=[None] * 4)
    assert len(json.loads((tmp_path / "scale.json").read_text())["cache"]) == 3


def test_a_cache_that_cannot_be_written_costs_no_results(arguments, tmp_path, caplog):
    (tmp_path / "file").touch()
    results, _ = tune(arguments, cache=tmp_path / "file" / "scale")
    assert len(results) == 3
    assert "could not be written" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "power"}, "objective: expected one of time, got 'power'"),
        ({"strategy_options": {"max_fevals": "x"}}, "max_fevals to be a whole number from 1 on"),
        ({"strategy_options": {"max_fevals": 0}}, "max_fevals to be a whole number from 1 on"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_measuring(arguments, options, words):
    with pytest.raises(AutotuneError, match=words):
        tune(arguments, **options)


def test_an_answer_of_nan_says_so(arguments):
    nan = np.full(SIZE, np.nan, "float32")
    _, env = tune(arguments, answer=[nan, None, None, None])
    assert {each["error"] for each in env["failed"]} == {
        f"wrong results: argument 0: {SIZE} elements are NaN"
    }


def test_one_configuration_runs_on_copies(arguments):
    found = run_kernel("scale", SCALE, SIZE, arguments, {"block_size_x": 32, "OFFSET": 3})
    np.testing.assert_allclose(found[0], 2 * arguments[1] + 3, rtol=1e-6)
    assert not arguments[0].any()
    assert len(found) == 4


def test_a_kernel_in_c_needs_no_launch(tmp_path):
    path = tmp_path / "total.c"
    path.write_text(SUM)
    x = np.arange(64, dtype="float32")
    with Target("c"):
        results, env = tune_kernel(
            "total", str(path), 64, [np.zeros(1), x, np.int32(64)], {"UNROLL": [1, 2, 4]},
            answer=[np.array([x.sum()]), None, None], quiet=True, iterations=2,
            compiler_options=["-O2"],
        )  # fmt: skip
    assert len(results) == 3, env["failed"]


def test_a_launch_follows_from_expressions_of_parameters():
    source = """
    __constant__ float weights[3];
    extern __shared__ float held[];
    template <int N, typename T> __global__ void rows(T *out, const T *x) {
      held[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x];
      __syncthreads();
      if (threadIdx.x < THREADS) {
        T sum = 0;
        for (int i = 0; i < N; ++i) sum += weights[i];
        out[blockIdx.x * THREADS + threadIdx.x] = held[threadIdx.x] * sum;
      }
    }
    """
    x = np.random.default_rng(0).normal(size=256).astype("float32")
    weights = np.array([1, 2, 3], "float32")
    results, env = tune_kernel(
        "rows<TAPS, float>", source, lambda p: ("BLOCKS * 1", 1), [np.zeros_like(x), x],
        {"THREADS": [64], "BLOCKS": [4], "TAPS": [3]}, grid_div_x=[],
        block_size_names=["THREADS"], smem_args={"size": "THREADS * 4"},
        cmem_args={"weights": weights}, answer=[6 * x, None], atol=1e-4, quiet=True, iterations=1,
    )  # fmt: skip
    assert len(results) == 1, env["failed"]


def test_a_source_may_be_written_by_a_function(arguments):
    def source(params):
        return SCALE.replace("OFFSET", str(params["OFFSET"]))

    results, _ = tune_kernel(
        "scale", source, SIZE, arguments, {"block_size_x": [64], "OFFSET": [0]}, lang="CUDA",
        answer=[2 * arguments[1], None, None, None], quiet=True, iterations=1,
    )  # fmt: skip
    assert len(results) == 1


def test_results_are_stored_for_tools_of_kernel_tuner(arguments, tmp_path):
    results, _ = tune(arguments, metrics={"rate": "1 / time"})
    store_output_file(tmp_path / "out", results, ["block_size_x", "OFFSET"])
    rows = json.loads((tmp_path / "out.json").read_text())["results"]
    assert {row["configuration"]["block_size_x"] for row in rows} == {32, 64, 128}
    assert all(row["invalidity"] == "correct" for row in rows)
    assert store_metadata_file(tmp_path / "about.json")["environment"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observers": [1]}, r"observers: expected NVMLObserver of autotune\.kernel_tuner"),
        ({"observers": [NVMLObserver(["nvml_energy"])]}, "NVMLObserver observes .* on the CPU"),
        ({"params": {"nvml_pwr_limit": [300]}}, "'nvml_pwr_limit' is not .* needs root"),
        ({"objective": "nvml_energy"}, "objective: expected one of time, got 'nvml_energy'"),
        ({"texmem_args": {"t": 1}}, "texmem_args is not supported"),
        ({"objectives": {"time": False}}, "objectives is not supported"),
        ({"lang": "HIP"}, "lang: expected CUDA or C, got 'HIP'"),
        ({"answer": [None]}, "one item for each of 4 arguments, got 1"),
        ({"metrics": ["rate"]}, "metrics: expected a dict"),
        ({"verify": 3}, "verify: expected a function"),
        ({"grid_div_x": ["WARPS"]}, "^grid_div_x: 'WARPS' .*: WARPS; there are block_size_x,"),
        ({"grid_div_y": ["block_size_x * 0"]}, "^grid_div_y: expected a divisor of at least 1"),
    ],
)
def test_what_is_not_supported_is_refused(arguments, options, message):
    with pytest.raises(AutotuneError, match=message):
        tune(arguments, **options)


def test_arguments_have_a_type(arguments):
    with pytest.raises(AutotuneError, match=r"arguments\[3\]: .* numpy.int32\(n\), got 1000"):
        tune([*arguments[:3], SIZE])


def test_names_that_are_not_here_say_what_to_do(monkeypatch):
    monkeypatch.delattr(kernel_tuner, "core", raising=False)  # where another test imported it
    with pytest.raises(AutotuneError, match=r"clocks and power limits are not tuned: .* root"):
        get_nvml_pwr_limits(0, n=5)
    with pytest.raises(AttributeError, match="build the kernel with"):
        kernel_tuner.core  # noqa: B018
    assert kernel_tuner.nvml.NVMLObserver is NVMLObserver


def test_results_are_shown_and_compared():
    good = {"x": 1, "time": 0.5}
    bad = {"x": 2, "time": RuntimeFailedConfig("RuntimeFailedConfig")}
    assert get_config_string(good) == "x=1, time=0.500ms"
    assert get_config_string(bad, ["time"]) == "time=RuntimeFailedConfig"
    assert get_best_config([bad, good], "time") == good
    assert get_best_config([bad], "time") == {}
    of_numpy = [{"rate": np.float32(each)} for each in (1, np.nan, 3, 2)]
    assert get_best_config(of_numpy, "rate", True) == of_numpy[2]
    assert get_best_config([{"rate": np.int64(1)}], "rate") == {"rate": 1}


class Accuracy(BenchmarkObserver):
    """Measures errors as scripts do: it resets an argument, and reads it when the run is over."""

    def __init__(self, expected):
        self.expected, self.runs = expected, 0

    def register_configuration(self, params):
        self.block = params["block_size_x"]

    def before_start(self):
        self.dev.memcpy_htod(self.dev.allocations[0], np.full(SIZE, np.nan, "float32"))

    def after_finish(self):
        self.runs += 1
        self.out = np.zeros_like(self.expected)
        self.dev.memcpy_dtoh(self.out, self.dev.allocations[0])

    def get_results(self):
        error = float(np.abs(self.out - self.expected).max())
        return {"error": error, "block": self.block, "registers": self.dev.func.num_regs}


def test_observers_of_scripts_see_a_run_of_each_configuration(arguments, tmp_path):
    accuracy = Accuracy(2 * arguments[1])
    options = {"observers": [accuracy], "metrics": {"worse": "2 * error"}}
    results, _ = tune(arguments, cache=str(tmp_path / "cache"), **options)
    assert [each["error"] for each in results] == [0.0] * 3
    assert sorted(each["block"] for each in results) == [32, 64, 128]
    assert [each["worse"] for each in results] == [0.0] * 3
    assert accuracy.runs == 3
    again, _ = tune(arguments, cache=str(tmp_path / "cache"), **options)
    assert [each["error"] for each in again] == [0.0] * 3
    assert accuracy.runs == 3  # the cache has what was observed


def test_what_observers_of_scripts_add_may_be_the_objective(arguments):
    class Blocks(BenchmarkObserver):
        def register_configuration(self, params):
            self.block = params["block_size_x"]

        def get_results(self):
            return {"block": self.block}

    best = {"observers": [Blocks()], "objective": "block"}
    assert tune(arguments, **best)[1]["best_config"]["block_size_x"] == 32
    best |= {"objective_higher_is_better": True, "strategy": "random_sample"}
    best |= {"strategy_options": {"max_fevals": 3}}
    assert tune(arguments, **best)[1]["best_config"]["block_size_x"] == 128
    double = {"objective": "double", "metrics": {"double": "2 * block"}}
    assert tune(arguments, **best | double)[1]["best_config"]["block_size_x"] == 128
    with pytest.raises(TunerError, match=r"expected one of .*, block, got 'blocks'"):
        tune(arguments, **best | {"objective": "blocks"})
    with pytest.raises(TunerError, match="of strategy='brute_force' and 'random_sample' alone"):
        tune(arguments, **best | {"strategy": "genetic_algorithm"})


def test_what_observers_cannot_have_or_say_is_refused(arguments):
    class Streams(BenchmarkObserver):
        def before_start(self):
            self.dev.stream.synchronize()

    class Times(BenchmarkObserver):
        def get_results(self):
            return {"time": 1.0}

    with pytest.raises(AttributeError, match=r"ObservedDevice\.stream is not here: a run is over"):
        tune(arguments, observers=[Streams()])
    with pytest.raises(TunerError, match=r"Times\.get_results: expected a dict without time"):
        tune(arguments, observers=[Times()])
    with pytest.raises(TunerError, match="or a BenchmarkObserver, got 3"):
        tune(arguments, observers=[3])
