import json

import pytest

from autotune.errors import KernelError
from autotune.runtime import Ceilings, TimeOptions, ceilings_of, cpu, percent_of_ceiling, roofline
from autotune.runtime.roofline_kernels import for_cuda
from autotune.runtime.toolchain import find_nvcc
from autotune.target import Target

KNOWN = Ceilings("paper", bytes_per_s=1e12, flops={"float32": 1e13, "float16": 1e14})


def test_the_floor_is_the_larger_of_bytes_and_arithmetic():
    assert KNOWN.floor_s(flop=1e13, moved_bytes=1e11) == 1.0
    assert KNOWN.floor_s(flop=1e12, moved_bytes=1e12) == 1.0
    assert KNOWN.floor_s(flop=1e13, moved_bytes=1e10, dtype="float16") == pytest.approx(0.1)


def test_percent_is_the_floor_over_the_time():
    assert percent_of_ceiling(KNOWN, 1e13, 0, seconds=2.0) == 50.0
    assert percent_of_ceiling(KNOWN, 0, 1e12, seconds=4.0) == 25.0
    assert percent_of_ceiling(KNOWN, 0, 1e12, 4.0, dtype="int8") == 25.0


def test_a_type_without_a_rate_is_named():
    with pytest.raises(KernelError, match="no rate is known for int8; known are float32, float16"):
        KNOWN.floor_s(1e9, 0, "int8")


def test_the_cpu_is_measured_once_and_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(roofline, "_OPTIONS", TimeOptions(number=1, repeat=2))
    measured = ceilings_of(cpu())
    # Any machine of this century: between a slow core and a large server.
    assert 2e8 < measured.bytes_per_s < 2e12
    assert 1e9 < measured.flops["float32"] < 1e14
    assert 0.1 < measured.flops["float64"] / measured.flops["float32"] < 1.5
    monkeypatch.setattr(roofline, "_measure", lambda *_: pytest.fail("measured again"))
    assert ceilings_of(cpu()) == measured
    (file,) = (tmp_path / "ceilings").glob("*.json")
    assert json.loads(file.read_text())["device"] == measured.device


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_the_kernels_for_cuda_compile_without_spills(tmp_path):
    kernels = for_cuda(132)
    for kernel in [kernels.copy, *(one for one, _ in kernels.arithmetic.values())]:
        output = roofline.compile_kernel(kernel, Target("cuda -arch=sm_90"), out_dir=tmp_path)
        assert output.resources["spill_bytes"] == 0
