"""A kernel that is right is not reported; without any one of its synchronisations it is."""

import re

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from tests.emulator import synchronised, synchronised_groups, synchronised_ptx

ALL = synchronised.KERNELS | synchronised_groups.KERNELS | synchronised_ptx.KERNELS
PRELUDE = """#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_pipeline.h>
"""


def kernel(name, body, attributes):
    name = "of_" + re.sub(r"\W", "_", name)
    begin = (
        f'extern "C" __global__ void {attributes}{name}(const float* __restrict__ a, float* b) {{'
    )
    place = "  const int t = threadIdx.x, i = blockIdx.x * 64 + t;"
    text = f"{PRELUDE}{begin}\n{place}\n  {body}\n}}\n"
    args = [arg("a", (768,)), arg("b", (256,), role="inout")]
    return SourceKernel(name, text, args, grid=2, block=64).kernel("cuda")


def mutants():
    """Yield names, kernels with one change each, and the names of lines that are then wrong."""
    for name, one in ALL.items():
        lines = one.body.split("\n")
        for i, line in enumerate(lines):
            _, mark, names = line.partition("//-")
            if mark:
                own = names.partition("//")[0].split()
                left = "\n".join([*lines[:i], f"  //{names}", *lines[i + 1 :]])
                yield f"{name}-without-{i}", kernel(f"{name}-{i}", left, one.attributes), own
        for i, (old, new, names) in enumerate(one.changes):
            assert one.body.count(old) == 1
            body = one.body.replace(old, new)
            yield (
                f"{name}-changed-{i}",
                kernel(f"{name}-c{i}", body, one.attributes),
                names.split(),
            )


RIGHT = {name: kernel(name, one.body, one.attributes) for name, one in ALL.items()}
MUTANTS = {name: (made, lines) for name, made, lines in mutants()}


# What the emulator does not see: of a lock it asks for a fence where it is given up, not where it
# is taken.
UNSEEN = {"lock-without-4"}
# Nor what happens to be in order: without the barrier before its first use a lock orders what
# follows, if thread 0 is the first; an atomic operation is taken to follow all fences before it,
# which are those of all other threads if thread 0 is the last; so is a message, if it is first.
HIDDEN = {
    ("lock-without-2", 0), ("last-block-without-4", 1),
    ("message-by-instructions-without-3", 0), ("message-by-instructions-without-7", 1),
}  # fmt: skip
REPORTED = [
    pytest.param(name, order, id=f"{name}-{order}")
    for name in MUTANTS
    for order in (0, 1, 5)
    if name not in UNSEEN and (name, order) not in HIDDEN
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("mutants") / "kernels.so"
    kernels = [*RIGHT.values(), *(made for made, _ in MUTANTS.values())]
    return compile_emulated(kernels, out, arch="sm_90")


def run(library, made, order):
    a, b = np.random.default_rng(3).random(768, "f4"), np.zeros(256, "f4")
    EmulatedKernel(library, made).run([a, b], order)
    return a, b


@pytest.mark.many_cases
@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize("name", RIGHT)
def test_a_kernel_that_is_right_is_not_reported(library, name, order):
    a, b = run(library, RIGHT[name], order)
    expected = ALL[name].expected(a.astype("f8"))
    np.testing.assert_allclose(b[: len(expected)], expected, rtol=1e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize(("name", "order"), REPORTED)
def test_a_kernel_without_one_of_its_synchronisations_is_reported_with_its_lines(
    library, name, order
):
    made, names = MUTANTS[name]
    with pytest.raises(DeviceError) as error:
        run(library, made, order)
    text = made.source.splitlines()
    wrong = {i for i, line in enumerate(text, 1) if {*re.findall(r"@(\w+)", line)} & {*names}}
    said = {int(line) for line in re.findall(r"(?:\.cu:|in line )(\d+)", str(error.value))}
    assert said
    assert said <= wrong, (str(error.value), sorted(wrong))
