"""What the emulator says of instructions of inline PTX is what a device does."""

import pytest

from autotune import driver
from autotune.emulator import run_emulated
from tests.emulator import ptx_accesses
from tests.emulator.ptx_kernels import KERNELS, same

ALL = KERNELS | ptx_accesses.KERNELS


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_the_emulator_and_a_device_agree(name):
    case = ALL[name]
    source = case.source()
    a, emulated = case.arrays()
    run_emulated(source.kernel("cuda"), [a, emulated], (0,))
    a, computed = case.arrays()
    driver.build(source, target="cuda")(a, computed)
    assert same(case, emulated, computed)
