"""A task, and builders and runners that take no time, for the tests of the loop."""

import os
import signal
from concurrent.futures import Future

from autotune.measure import Builder, BuildResult, MeasureErrorNo, MeasureResult, Runner
from autotune.task import create, get_config, template


@template("tests.tuner.loop")
def loop(n):
    config = get_config()
    config.define_knob("x", list(range(n)))
    config.define_knob("y", [1, 2, 4])
    config.add_flop(1e6)
    config.add_bytes(1e6)


def loop_task(n=20):
    return create("tests.tuner.loop", (n,), "c")


class Empty(Builder):
    """Builds nothing; fails those whose index is in `bad`."""

    def __init__(self, bad=(), message="no compiler"):
        super().__init__(n_parallel=2)
        self.bad, self.message = bad, message

    def build(self, measure_inputs):
        return [self._one(inp) for inp in measure_inputs]

    def _one(self, inp):
        if inp.config.index in self.bad:
            return BuildResult(
                "", None, error_no=MeasureErrorNo.COMPILE_HOST, error_msg=self.message
            )
        return BuildResult("built", None)


class Counting(Runner):
    """A configuration takes (1 + x) * y milliseconds; Ctrl-C is pressed at trial `stop_at`."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.seen = []
        self.stop_at = stop_at

    def run(self, measure_inputs, build_results):
        self.seen += [inp.config.index for inp in measure_inputs]
        if self.stop_at is not None and len(self.seen) > self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        return [
            MeasureResult(((1 + i.config["x"].val) * i.config["y"].val * 1e-3,), 0, 0.1, 1.0)
            for i in measure_inputs
        ]


class Stuck(Counting):
    """Never ends the trials in `held`, and all others at once; notes those in a file."""

    def __init__(self, held=(), notes=os.devnull):
        super().__init__()
        self.held, self.notes = held, notes

    def submit(self, measure_input, build_result):
        future = Future()
        if measure_input.config.index not in self.held:
            future.set_result(self.run([measure_input], [build_result])[0])
            with open(self.notes, "a") as file:
                file.write(f"{measure_input.config.index}\n")
        return future


def option(bad=(), **kwargs):
    return {"builder": Empty(bad), "runner": Counting(**kwargs)}
