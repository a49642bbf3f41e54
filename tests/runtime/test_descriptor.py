"""What a device is, in numbers; its class; and what reads it back."""

import json
import math
from dataclasses import replace

import pytest

from autotune.errors import DeviceError
from autotune.runtime import Ceilings, Descriptor, cpu, cuda, describe
from autotune.runtime.descriptor import COLUMNS
from autotune.target import Target

H200 = Descriptor("cuda", "NVIDIA H200", "sm_90", 132, 1980, 3201, 6144, 150 << 30, 60 << 20)


def test_a_cpu_is_described_with_what_was_measured_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    found = describe(cpu())
    assert found.kind == "cpu"
    assert found.name
    assert found.key.endswith(f"_x{found.processors})")
    assert found.bandwidth == 0
    measured = Ceilings("cpu", ((1024, 9e10), (1 << 30, 2e10)), {"float32": 1e11})
    known = describe(cpu(), measured)
    assert (known.bandwidth, known.cache_bandwidth, known.flops) == (2e10, 9e10, 1e11)
    assert known.key == found.key


def test_a_device_that_is_not_there_is_not_described():
    with pytest.raises(DeviceError, match="cuda:63"):
        describe(cuda(63))


def test_the_class_is_told_by_name_and_architecture_and_not_by_what_was_measured():
    assert H200.key == "NVIDIA H200 (sm_90)"
    assert replace(H200, bandwidth=4.1e12, clock_mhz=1000).key == H200.key
    assert replace(H200, name="NVIDIA H200 MIG 1g.18gb").key != H200.key
    assert Target(f"cuda -model={H200.model}").model == "NVIDIA-H200-sm_90"


def test_columns_are_logarithms_and_what_is_not_known_is_nothing():
    columns = dict(zip(COLUMNS, H200.columns, strict=True))
    assert columns["processors"] == pytest.approx(math.log2(132))
    assert columns["flops"] == 0.0


def test_a_description_travels_as_text():
    data = json.loads(json.dumps({**H200.to_json(), "of_a_later_version": 1}))
    assert Descriptor.from_json(data) == H200


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "cuda"},
        {"kind": "cuda", "name": "x", "processors": -1},
        {"kind": "cuda", "name": "x", "processors": True},
        {"kind": "cuda", "name": "x", "flops": math.nan},
        {"kind": "cuda", "name": "x", "flops": math.inf},
        {"kind": "cuda", "name": "x", "clock_mhz": "fast"},
    ],
)
def test_what_is_no_description_is_refused(data):
    with pytest.raises(DeviceError, match="no description of a device"):
        Descriptor.from_json(data)
