"""A record knows the device that it was measured on: its time and its kernel are of that one."""

import logging
from dataclasses import dataclass

import pytest

import autotune
from autotune.driver import kernel_hash
from autotune.hub import of_arch
from autotune.measure import MeasureInput, MeasureResult
from autotune.measure.evidence import Evidence
from autotune.record import ApplyHistoryBest, decode, encode
from autotune.record.origin import as_measured, is_from_elsewhere
from autotune.record.outdated import current_only
from autotune.target import Limits, Target, arch_here, device_class
from autotune.target.backends import CUDA
from autotune.task import DispatchContext, Task
from autotune.tuner.loop.resume import earlier

H200, H100, A100 = "NVIDIA H200 (sm_90)", "NVIDIA H100 (sm_90)", "NVIDIA A100 (sm_80)"


@autotune.template("tests/origin/work")
def work(n):
    config = autotune.get_config()
    config.define_knob("width", [1, 2, 4])
    return autotune.SourceKernel(
        "work", 'extern "C" __global__ void work(float *x) {}',
        defines={"N": n, "WIDTH": config["width"].val, "ARCH": autotune.Target.current().arch},
        grid=1, block=1, args=[autotune.arg("x", (n,), role="out")],
    )  # fmt: skip


@dataclass(frozen=True)
class Device:
    """What a driver would say of a GPU."""

    name: str
    arch: str
    limits: Limits


@pytest.fixture
def here(monkeypatch):
    """Put a GPU into this machine, as far as targets look for one."""
    driver = CUDA.query

    def put(name, arch):
        device = Device(name, arch, CUDA.limits_of(arch))
        object.__setattr__(CUDA, "query", lambda index: device if index == 0 else None)
        monkeypatch.setattr("autotune.target.backends.cuda.cuda_device", lambda: device)

    object.__setattr__(CUDA, "query", lambda index: None)
    monkeypatch.setattr("autotune.target.backends.cuda.cuda_device", lambda: None)
    yield put
    object.__setattr__(CUDA, "query", driver)


def record(seconds, where, index=0, target="cuda", arch="sm_90", **known):
    task = Task("tests/origin/work", (64,), target)
    config = autotune.create("tests/origin/work", (64,), f"cuda -arch={arch}").config_space.get(
        index
    )
    evidence = Evidence(device_class=where, **known)
    return MeasureInput(task.target, task, config), MeasureResult(
        (seconds,), 0, 0.1, 1.0, evidence=evidence
    )


def hashed(seconds, where, index, arch):
    target = Target(f"cuda -arch={arch}")
    task = autotune.create("tests/origin/work", (64,), target)
    output = task.realise(task.config_space.get(index)).what
    return record(seconds, where, index, kernel_hash=kernel_hash(output, target))


def asked(records, target="cuda"):
    with ApplyHistoryBest(records), Target(target) as chosen:
        return DispatchContext.current.query(chosen, ("tests/origin/work", 64))


def test_a_record_says_where_it_was_measured_and_others_read_it():
    inp, result = record(1e-3, H200)
    assert '"device_class": "NVIDIA H200 (sm_90)"' in encode(inp, result)
    assert decode(encode(inp, result))[1].evidence.device_class == H200


def test_a_target_that_names_no_architecture_has_that_of_the_device_here(here):
    assert arch_here(Target("cuda")) is device_class(Target("cuda")) is None
    assert device_class(Target("llvm")) is device_class(Target("opencl")) is None
    here("NVIDIA H200", "sm_90")
    assert (arch_here(Target("cuda")), device_class(Target("cuda"))) == ("sm_90", H200)
    assert arch_here(Target("cuda -arch=sm_80")) == "sm_80"
    assert device_class(Target("cuda -emulate")) is device_class(Target("cuda"), 1) is None


@pytest.mark.usefixtures("here")
def test_a_record_is_judged_for_the_architecture_that_it_was_measured_on(caplog):
    pair = hashed(1e-3, H200, 1, "sm_90")
    assert list(current_only([pair], "log")) == [pair]
    assert as_measured(pair)[0].task.target.arch == "sm_90"
    unknown = hashed(1e-3, None, 1, "sm_90")
    assert as_measured(unknown) is unknown
    assert list(current_only([unknown], "log")) == []
    assert "of an older kernel text" in caplog.text
    assert [inp.target.arch for inp, _ in of_arch([pair, unknown], "sm_75")] == ["sm_90", "sm_75"]


def test_a_record_of_an_older_kernel_is_told_of_once(here, caplog):
    here("NVIDIA H200", "sm_90")
    older = hashed(1e-3, H200, 1, "sm_80")  # has a place of its model, architecture and kind
    task = autotune.create("tests/origin/work", (64,), "cuda")
    template = lambda config: task.realise(config).what
    with ApplyHistoryBest([older]), Target("cuda") as chosen:
        DispatchContext.current.query(chosen, ("tests/origin/work", 64), template)
    assert caplog.text.count("of an older kernel text") == 1


def test_a_faster_record_of_another_gpu_does_not_win(here):
    records = [record(2e-3, H200, 0), record(1e-3, A100, 1), record(3e-3, H200, 2)]
    assert asked(records).index == 1  # nothing is known of this machine
    here("NVIDIA H200", "sm_90")
    assert asked(records).index == 0
    here("NVIDIA A100", "sm_80")
    assert asked(records).index == 1
    assert asked(records, "cuda -arch=sm_90a").index == 0


def test_a_time_of_another_gpu_is_no_cost_here(here, caplog):
    caplog.set_level(logging.WARNING, "autotvm")
    here("NVIDIA H200", "sm_90")
    given = asked([record(1e-3, A100, 1)])
    assert (given.index, given.cost) == (1, None)
    assert "is not tuned for sm_90; the best configuration of sm_80 is used" in caplog.text
    assert asked([record(1e-3, H100, 1)]).cost is None
    assert is_from_elsewhere(record(1e-3, H100), Target("cuda"))
    assert not is_from_elsewhere(record(1e-3, None), Target("cuda"))
    mine = record(1e-3, H200, 1)
    assert asked([(mine[0]._replace(config=mine[0].config.with_cost(1e-3)), mine[1])]).cost == 1e-3


def test_a_run_goes_on_from_trials_of_its_own_kind_of_device_alone(here, caplog):
    here("NVIDIA H200", "sm_90")
    task = autotune.create("tests/origin/work", (64,), "cuda")
    records = [record(2e-3, H200, 0), record(1e-3, A100, 1), record(3e-3, None, 2)]
    assert [inp.key for inp, _ in earlier(task, records).trials] == ["0", "2"]
    assert "1 record is of another device, NVIDIA A100 (sm_80), not of NVIDIA H200" in caplog.text
    assert len(earlier(task, records, anywhere=True).trials) == 3
