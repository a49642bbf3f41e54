"""Runs kernels in a process of its own, as a wrong one may crash or never end.

Reads pickled jobs from the standard input and writes one pickled outcome for each to the standard
output: the output arrays, or a message.
"""

import ctypes
import pickle
import sys

import numpy as np

from autotune.emulator import EmulatedKernel, GuardedBuffer
from autotune.errors import DeviceError

DTYPES = {"float16": np.float16, "bool": np.bool_}


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


def main():
    for library, kernel, inputs, order in pickle.load(sys.stdin.buffer):
        try:
            if kernel.language == "cuda":
                outcome = run_emulated(library, kernel, inputs, order)
            else:
                outcome = run_c(library, kernel, inputs)
        except DeviceError as error:
            outcome = str(error)
        pickle.dump(outcome, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
