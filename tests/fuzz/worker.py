"""Runs kernels in processes of their own, as a wrong one may crash or never end.

This process imports what that needs once. Of each batch, a pickled list of jobs from the standard
input, it forks one that writes a pickled outcome for each job to the standard output, the output
arrays or a message, and then says itself how that one ended.
"""

import ctypes
import os
import pickle
import resource
import sys

import ml_dtypes  # noqa: F401 - numpy knows bfloat16 by it
import numpy as np

from autotune.emulator import EmulatedKernel, GuardedBuffer
from autotune.errors import DeviceError

# A batch that never ends is killed after so many seconds of CPU time, not of the clock: that runs
# on while others compute.
CPU_S = 60


def run_emulated(library, kernel, inputs, order):
    outputs = [np.zeros(a.shape, a.dtype) for a in kernel.outputs]
    EmulatedKernel(library, kernel).run([*inputs, *outputs], order)
    return outputs


def run_c(library, kernel, inputs):
    """Run a C function on arrays between pages that must not be touched."""
    buffers = {a.name: GuardedBuffer(a.bytes) for a in (*kernel.args, *kernel.workspace)}
    for argument, array in zip(kernel.inputs, inputs, strict=True):
        buffers[argument.name].write(array)
    loaded = ctypes.CDLL(str(library))
    for one in kernel.calls:
        addresses = [ctypes.c_void_p(buffers[name].address) for name in one.args]
        getattr(loaded, one.entry)(*addresses)
    outputs = [np.zeros(a.shape, a.dtype) for a in kernel.outputs]
    for argument, array in zip(kernel.outputs, outputs, strict=True):
        buffers[argument.name].read_into(array)
    return outputs


def run_all(jobs):
    for library, kernel, inputs, order in jobs:
        try:
            if kernel.language == "cuda":
                outcome = run_emulated(library, kernel, inputs, order)
            else:
                outcome = run_c(library, kernel, inputs)
        except DeviceError as error:
            outcome = str(error)
        tell(outcome)


def tell(what):
    pickle.dump(what, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def main():
    while True:
        try:
            jobs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
            run_all(jobs)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
