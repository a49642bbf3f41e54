"""Running states of small graphs: as C, or as CUDA on the emulator, beside the plain schedule."""

import numpy as np

from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from autotune.te import ComputeOp
from tests.fuzz.running import Job, run_batch

TARGETS = {"c": Target("c"), "cuda": Target("cuda -arch=sm_90")}


def kernel_of(dag, state, language, name):
    """Print the kernel of a state."""
    schedule, tensors = dag.apply_steps_from_state(state)
    return kernel_of_schedule(schedule, list(tensors), TARGETS[language], name)


def inputs_of(dag, seed=0):
    """Draw values for the placeholders of a graph, in the order of its arguments."""
    rng = np.random.default_rng(seed)
    drawn = []
    for tensor in dag.tensors:
        if not isinstance(tensor.op, ComputeOp):
            drawn.append(rng.uniform(-1, 1, tensor.shape).astype(tensor.dtype))
    return drawn


def run_states(dag, states, language, folder, seed=0):
    """Return what each state's kernel computes, and last what the plain C schedule does."""
    inputs = inputs_of(dag, seed)
    found = []
    for each, lang in ((states, language), ([dag.init_state], "c")):
        kernels = [kernel_of(dag, s, lang, f"{lang}_{seed}_{i}") for i, s in enumerate(each)]
        found += run_batch([Job(kernel, inputs, seed) for kernel in kernels], folder)
    return found


def assert_states_compute_the_same(dag, states, language, folder, rtol=2e-5, atol=1e-5):
    """Compare what states compute with what the plain schedule does."""
    *found, wanted = run_states(dag, states, language, folder)
    assert not isinstance(wanted, str), wanted
    for state, outputs in zip(states, found, strict=True):
        assert not isinstance(outputs, str), f"{outputs}\n{state}"
        for got, want in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=str(state))
