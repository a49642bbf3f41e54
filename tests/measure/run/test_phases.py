"""What a trial's time goes into, and how long a device rests for it."""

import threading
from types import SimpleNamespace

from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.run.device_process import CoolDown, LocalDeviceProcess
from autotune.measure.run.dispatch import Dispatch
from autotune.measure.run.replies import Ran
from autotune.tuner import GridSearchTuner
from tests.measure.devices import StatedDeviceProcess
from tests.tuner.test_screening import task_of


class Noted(CoolDown):
    """Does not wait, and notes for how long it was asked to."""

    def __init__(self):
        super().__init__(100.0)
        self.asked = []

    def after(self, busy_s):
        self.asked.append(busy_s)


def test_a_device_rests_as_long_as_it_was_timed_whatever_else_a_trial_takes():
    process = type("Idle", (StatedDeviceProcess,), {"made": [], "lost": set()})
    cool_down, waiting = Noted(), threading.Event()
    dispatch = Dispatch([process(SimpleNamespace(device=0), None, "")], cool_down, lambda: None)

    def work(process):
        waiting.wait(0.05)  # loads, compares
        process.busy_s += 0.002

    for _ in range(3):
        dispatch.put(work).result()
    dispatch.put(lambda process: None).result()
    dispatch.close()
    assert [round(seconds, 6) for seconds in cool_down.asked[:3]] == [0.002] * 3


def test_a_reply_says_what_its_time_went_into(monkeypatch):
    replies, busy = [], []
    run = LocalDeviceProcess.run

    def noted(self, job):
        before = self.busy_s
        replies.append(run(self, job))
        busy.append(self.busy_s - before)
        return replies[-1]

    monkeypatch.setattr(LocalDeviceProcess, "run", noted)
    option = measure_option(LocalBuilder(n_parallel=1), LocalRunner(number=1, cooldown_interval=0))
    GridSearchTuner(task_of(n=2, allowed=2)).tune(2, option, finalists=0)
    trials = [(r, b) for r, b in zip(replies, busy, strict=True) if isinstance(r, Ran)]
    assert trials
    for reply, seconds in trials:
        assert list(reply.phases) == ["inputs", "load", "quiet", "turn", "time", "check", "unload"]
        assert seconds == reply.phases["time"] > 0
