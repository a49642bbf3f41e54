"""Kernels as they are compiled: on GPUs each waits at its start for the kernel before it."""

from autotune.driver import as_built, build, kernel_hash, kernel_of
from autotune.kernel import SourceKernel, arg, call
from autotune.lock.entries import machine_code
from autotune.measure.build.realise import realise
from autotune.measure.types import MeasureInput
from autotune.runtime.compile.elf import code_hash
from autotune.target import Target
from autotune.task import create, template

CUDA = Target("cuda -emulate")
TEXT = 'extern "C" __global__ void twice(const float* x, float* y) { y[0] = 2 * x[0]; }'
C_TEXT = "void twice(const float *x, float *y) { y[0] = 2 * x[0]; }"
WAIT = "autotune_wait_for_kernel_before();"


@template("tests.as_built")
def twice():
    args = [arg("x", (1,)), arg("y", (1,), role="out")]
    return SourceKernel("twice", TEXT, args, calls=[call("twice", ["x", "y"], 1, 1)])


def test_a_kernel_for_a_gpu_waits_and_may_begin_early():
    kernel = as_built(kernel_of(twice(), CUDA), CUDA)
    assert f"{{ {WAIT} y[0]" in kernel.source
    assert kernel.calls[0].launch.early


def test_a_kernel_for_the_host_stays_as_it_is():
    target = Target("c")
    kernel = kernel_of(SourceKernel("twice", C_TEXT, twice().args), target)
    assert as_built(kernel, target) is kernel


def test_what_is_measured_is_what_is_built_and_its_hash_is_that_of_the_text():
    task = create("tests.as_built", args=(), target=CUDA)
    measured = realise(MeasureInput(CUDA, task, task.config_space.get(0))).kernel
    assert measured.source == build(twice(), target=CUDA).kernel.source
    assert WAIT in measured.source
    assert measured.kernel_hash == kernel_hash(twice(), CUDA, kernel_of(twice(), CUDA))


def test_the_machine_code_of_a_lock_is_that_of_the_built_function():
    built = build(twice(), target=CUDA)
    assert machine_code(kernel_of(twice(), CUDA), CUDA, 60.0) == code_hash(built.artifact)
