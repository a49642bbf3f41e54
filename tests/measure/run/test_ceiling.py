"""Which part of the ceiling a trial is said to reach, from ceilings that are made up."""

import logging
import threading
from types import SimpleNamespace

import pytest

from autotune.kernel import SourceKernel, arg
from autotune.measure.run.ceiling import Roofline
from autotune.measure.run.jobs import RunJob
from autotune.measure.run.replies import Failed, Rated
from autotune.measure.run.timing import TimingPolicy
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import Ceilings, summarize

MIB = 1 << 20
CEILINGS = Ceilings(
    "paper",
    bandwidths=((MIB, 4e12), (64 * MIB, 1e12)),
    flops={"float32": 1e12, "float16": 1e13},
)
# 32 MiB of arguments: more than the first size, less than the second.
WIDE = [arg("x", (4 * MIB,)), arg("y", (4 * MIB,), role="out")]


class Device:
    """A process whose device was measured already."""

    device = 0

    def __init__(self, error="", at_last=CEILINGS):
        self.asked = []
        self.error = error
        self.at_last = at_last

    def run(self, job):
        self.asked.append(job.again)
        if self.error:
            return Failed(MeasureErrorNo.RUNTIME_DEVICE, self.error)
        return Rated(self.at_last if job.again else CEILINGS)


def roofline(flop=1.0, moved_bytes=1.0):
    return Roofline(SimpleNamespace(name="gemm", flop=flop, bytes=moved_bytes))


def run_job(args=WIDE, flush=False, text=""):
    kernel = SourceKernel("k", f"void k() {{{text}}}", args, {}).kernel("c")
    return RunJob("", kernel, 1.0, TimingPolicy(), (), (), "never", flush=flush)


def fraction(ceiling, seconds=1.0, job=None, input_sets=1, device=None):
    timing = summarize([seconds], 1, input_sets=input_sets)
    return ceiling.compare(device or Device(), job or run_job(), timing).roofline


def test_it_is_the_slower_of_arithmetic_and_traffic_over_the_time():
    assert fraction(roofline(flop=1e12), seconds=2.0) == pytest.approx(0.5)
    assert fraction(roofline(moved_bytes=4e12), seconds=4.0) == pytest.approx(0.25)
    assert fraction(roofline(flop=1e12, moved_bytes=16e12), seconds=5.0) == pytest.approx(0.8)


def test_the_cache_that_holds_the_arguments_gives_the_bandwidth():
    ceiling = roofline(moved_bytes=1e12)
    assert fraction(ceiling, input_sets=1) == pytest.approx(0.25)
    # Twice as much in turn fits no cache, and where caches are flushed nothing does.
    assert fraction(ceiling, input_sets=2) == pytest.approx(1.0)
    assert fraction(ceiling, job=run_job(flush=True)) == pytest.approx(1.0)


def test_a_kernel_that_touches_a_part_of_its_arguments_is_held_to_that_part():
    huge = run_job([arg("x", (64 * MIB,)), arg("y", (64 * MIB,), role="out")])
    few = 8 * MIB
    assert fraction(roofline(moved_bytes=few), few / 4e12, huge) == pytest.approx(1.0)


def test_the_fastest_type_among_the_arguments_gives_the_rate():
    mixed = [arg("a", (MIB,), "float16"), arg("b", (9,), "int32"), arg("c", (MIB,), role="out")]
    assert fraction(roofline(flop=1e13), 2.0, run_job(mixed)) == pytest.approx(0.5)
    # Of integers no rate is known: traffic alone counts then.
    integers = [arg("a", (64 * MIB,), "int8"), arg("c", (64 * MIB,), "int8", role="out")]
    job = run_job(integers)
    assert fraction(roofline(1e15, 1e12), 2.0, job) == pytest.approx(0.5)


@pytest.mark.parametrize("text", ["mma.sync.aligned.m16n8k8", "wgmma.mma_async.sync.aligned"])
def test_wide_floats_on_matrix_units_are_held_to_their_traffic_alone(text, caplog):
    job = run_job(text=f'asm("{text}");')
    assert fraction(roofline(1e15, 4e12), 2.0, job) == pytest.approx(0.5)
    assert not caplog.records
    # Rates of narrow types are those of matrix units.
    narrow = [arg("a", (MIB,), "float16"), arg("c", (MIB,), role="out")]
    held = run_job(narrow, text=f'asm("{text}");')
    assert fraction(roofline(flop=1e13), 2.0, held) == pytest.approx(0.5)


def test_what_is_not_declared_is_not_compared():
    assert fraction(roofline(flop=0.0)) is None
    assert fraction(roofline(moved_bytes=0.0)) is None


def test_the_device_is_asked_once():
    device, ceiling = Device(), roofline(flop=1e11)
    assert [fraction(ceiling, device=device) for _ in range(3)] == [pytest.approx(0.1)] * 3
    assert device.asked == [False]


def test_a_ceiling_that_is_passed_is_withdrawn(caplog):
    device, ceiling = Device(), roofline(flop=1e12)
    assert fraction(ceiling, 0.9, device=device) == pytest.approx(1 / 0.9)
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert fraction(ceiling, 0.5, device=device) is None
        assert fraction(ceiling, 2.0, device=device) is None
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("gemm: a trial reached 200% of the device's ceiling")
    assert device.asked == [False, True]


def test_a_ceiling_that_is_passed_was_measured_on_a_busy_device_and_is_measured_once_more(caplog):
    higher = Ceilings("paper", CEILINGS.bandwidths, {"float32": 2.5e12})
    device, ceiling = Device(at_last=higher), roofline(flop=1e12)
    assert fraction(ceiling, 0.5, device=device) == pytest.approx(0.8)
    assert fraction(ceiling, 1.0, device=device) == pytest.approx(0.4)
    assert device.asked == [False, True]
    assert not caplog.records
    # Once is enough: what passes the second is no fault of the device.
    assert fraction(ceiling, 0.1, device=device) is None
    assert device.asked == [False, True]


def test_a_device_that_cannot_be_measured_is_no_reason_to_fail(caplog):
    device, ceiling = Device(error="no compiler"), roofline(flop=1e12)
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert fraction(ceiling, device=device) is None
        assert fraction(ceiling, device=device) is None
    assert device.asked == [False]
    assert caplog.text.count("no compiler") == 1


class Slow(Device):
    """A process whose host is busy: the measurement ends when it was reported."""

    def __init__(self, reports):
        super().__init__()
        self.reports = reports
        self.timeout_s = 0.0

    def run(self, job):
        self.timeout_s = job.timeout_s
        assert self.reports.wait(timeout=60)
        return super().run(job)


def test_a_measurement_on_a_busy_host_is_reported_and_bounded(caplog):
    reports = threading.Event()
    heard = logging.Handler()
    heard.emit = lambda record: reports.set()
    device = Slow(reports)
    # After the handler of caplog, which has the text then.
    logging.getLogger().addHandler(heard)
    try:
        slow = Roofline(SimpleNamespace(name="gemm", flop=1e12, bytes=1.0), notable_s=0.0)
        assert fraction(slow, 2.0, device=device) == pytest.approx(0.5)
    finally:
        logging.getLogger().removeHandler(heard)
    assert "trials wait while the rates of device 0 are measured" in caplog.text
    assert "120 s at the latest" in caplog.text
    assert device.timeout_s == 120


def test_a_measurement_that_takes_no_time_is_not_reported(caplog):
    assert fraction(roofline(flop=1e12), 2.0) == pytest.approx(0.5)
    assert not caplog.records


def test_what_a_trial_is_compared_with_is_told_with_the_part_it_reaches():
    timing = summarize([2.0], 1, input_sets=1)
    known = roofline(flop=1e12).compare(Device(), run_job(), timing)
    assert known.roof == (1e12, 1.0, 1e12, 4e12)
    assert roofline(flop=None).compare(Device(), run_job(), timing).roof is None
