"""What the emulator says of instructions of inline PTX is what a device does."""

import pytest

from autotune import driver
from autotune.emulator import run_emulated
from tests.emulator.ptx_kernels import KERNELS, same


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_the_emulator_and_a_device_agree(name):
    case = KERNELS[name]
    source = case.source()
    a, emulated = case.arrays()
    run_emulated(source.kernel("cuda"), [a, emulated], (0,))
    a, computed = case.arrays()
    driver.build(source, target="cuda")(a, computed)
    assert same(case, emulated, computed)
