"""A run on a device whose processes are killed at random loses nothing and blames no trial."""

import pytest

from tests.faults.test_kills import Campaign, check

pytestmark = pytest.mark.gpu

SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.kernel import SourceKernel, arg
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file

    log, space, finalists = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    CODE = '''
    extern "C" __global__ void f(const float *x, float *y) {
      volatile int different = KNOB;
      for (int r = 0; r < 4000; r++) ((volatile float *)y)[threadIdx.x] = 2 * x[threadIdx.x];
    }'''

    @at.template("tests/kills")
    def kills():
        config = at.get_config()
        config.define_knob("knob", list(range(space)))
        return SourceKernel(
            "f", CODE, defines={"KNOB": config["knob"].val}, grid=1, block=256,
            args=[arg("x", (256,)), arg("y", (256,), role="out")], reference=lambda x: 2 * x,
        )

    builder = LocalBuilder(n_parallel=2, cache=False, timeout=60)
    runner = LocalRunner(number=1, repeat=1, min_repeat_ms=20, cooldown_interval=0, timeout=60)
    tuner = RandomTuner(at.create("tests/kills", (), target="cuda"), seed=0)
    option = measure_option(builder, runner)
    tuner.tune(space, option, callbacks=[log_to_file(log)], finalists=finalists)
"""


def test_kills_at_random_moments_cost_no_trial_on_a_device(tmp_path, pytestconfig):
    kills = pytestconfig.getoption("--kills")
    check(Campaign(tmp_path, kills, SCRIPT, ("builder", "runner", "compiler")))
