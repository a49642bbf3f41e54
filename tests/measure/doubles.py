"""Builders and runners as scripts write them: subclasses with `build` and `run` only."""

import threading
import time

from autotune.measure import Builder, BuildResult, MeasureErrorNo, MeasureResult, Runner


class PlainBuilder(Builder):
    """Builds nothing, in batches; the artifact is the index of the configuration."""

    def __init__(self, n_parallel=4, delay_s=0.0, failing=()):
        super().__init__(timeout=1, n_parallel=n_parallel)
        self.delay_s = delay_s
        self.failing = set(failing)
        self.batches = []

    def build(self, measure_inputs):
        self.batches.append([i.config.index for i in measure_inputs])
        time.sleep(self.delay_s)
        return [self.one(i.config.index) for i in measure_inputs]

    def one(self, index):
        if index in self.failing:
            return MeasureResult(
                ("a traceback", ValueError("refused")), MeasureErrorNo.COMPILE_HOST, 0.1, 0.0
            )
        return BuildResult(artifact=str(index), kernel=None, time_cost=0.001)


class PlainRunner(Runner):
    """Measures a made-up time: the index in milliseconds."""

    def __init__(self, delay_s=0.0, failing=(), n_parallel=1):
        super().__init__(timeout=1, n_parallel=n_parallel)
        self.delay_s = delay_s
        self.failing = set(failing)
        self.lock = threading.Lock()

    def get_build_kwargs(self):
        return {"from_runner": True}

    def run(self, measure_inputs, build_results):
        with self.lock:
            time.sleep(self.delay_s)
        return [self.one(b) for b in build_results]

    def one(self, built):
        index = int(built.artifact)
        if index in self.failing:
            return MeasureResult(
                (RuntimeError("device lost"),), MeasureErrorNo.RUNTIME_DEVICE, 1, 1
            )
        return MeasureResult(((index + 1) * 1e-3,), MeasureErrorNo.NO_ERROR, 0.01, time.time())
