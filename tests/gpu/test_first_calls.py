"""First calls of functions of several kernels: workspaces hold garbage, inputs are others.

A kernel that begins early and reads a workspace before the one before has written it is right in
later calls, of the same inputs. Here each call is like a first one: workspaces are arguments, and
are filled with NaNs or large numbers by a kernel just before.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_nchw_half
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.products.gemm_wgmma import has_wgmma

import autotune
from autotune.driver.kernel_of import kernel_of
from autotune.errors import AutotuneError
from autotune.kernel import arg
from autotune.target import Target
from autotune.task import create

pytestmark = pytest.mark.gpu

LAYER = Conv2dNhwc(1, 15, 28, 130, 128, Window((1, 7), padding=(0, 3, 0, 3)), "float16")
# Templates that have functions of several kernels.
TASKS = {
    "copies": ("gemm.cuda", (1023, 511, 255, "float16")),
    "turned": ("gemm.cuda", (512, 512, 514, "tf32", 1, True, False)),
    "few": ("gemm.cuda", (16, 1024, 2048, "float16", 1, True, False)),
    "integers": ("gemm.cuda", (255, 511, 1023, "int8")),
    "pieces": ("gemm.cuda", (255, 257, 1023, "float32")),
    "columns": ("conv2d_nchw.cuda", (1, 15, 28, 130, 128, 1, 7, 1, (0, 3))),
    "transposed": ("conv2d_transpose.cuda", ((1, 512, 28, 28), (512, 256, 2, 2), (2,))),
    "attention": ("attention.cuda", (1, 8, 1, 2048, 64, 2)),
    "reduce": ("reduce.cuda", ("sum", 4, 1 << 18)),
    "scan": ("cumsum.cuda", (4, 1 << 17)),
    "softmax": ("softmax.cuda", (4, 1 << 17)),
}
VERSIONS, CALLS, POISONS = 3, 48, (0xFF, 0x7B)


def cells():
    """Return kernels of a layer of 16 bits, two for each number of ranges of its channels."""
    options, rng = conv2d_nchw_half.candidates(LAYER), np.random.default_rng(0)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    valid = [c for c in every if not conv2d_nchw_half.violation(LAYER, c, Target("cuda"))]
    for split in options["split"]:
        of_split = [c for c in valid if c["split"] == split]
        for i in rng.permutation(len(of_split))[:2]:
            yield conv2d_nchw_half.kernel(LAYER, of_split[i])


def drawn(name, args):
    """Return drawn kernels of a template: one of each sequence of kernels that it has."""
    task, found = create(name, args, "cuda"), {}
    for i in task.config_space.sample(60, np.random.default_rng(0)):
        try:
            made = task.instantiate(task.config_space.get(i))
        except AutotuneError:
            continue
        entries = tuple(one.entry for one in made.calls)
        if len(entries) > 1:
            found.setdefault(entries, made)
    return [*found.values()]


def with_open_workspaces(made):
    """Return a kernel whose workspaces are arguments behind its own, and those to be cleared."""
    kernel = kernel_of(made, "cuda")
    spaces = [arg(each.name, each.shape, each.dtype, role="out") for each in kernel.workspace]
    cleared = [len(kernel.args) + i for i, each in enumerate(kernel.workspace) if each.zero]
    return replace(kernel, args=(*kernel.args, *spaces), workspace=()), cleared


def bits(torch, x):
    """Return an array as its bytes, by which NaNs are compared too."""
    return x.flatten().view(torch.uint8)


class FirstCalls:
    """A function, its arrays, and versions of its inputs."""

    def __init__(self, torch, module, cleared):
        self.torch, self.module, self.cleared = torch, module, cleared
        draw = torch.Generator().manual_seed(0)
        self.arrays, self.inputs, self.written = [], {}, []
        for i, each in enumerate(module.kernel.args):
            dtype = getattr(torch, each.dtype)
            self.arrays.append(torch.zeros(each.shape, dtype=dtype, device="cuda"))
            if each.role == "in":
                numbers = [
                    torch.randint(-2, 3, each.shape, generator=draw) for _ in range(VERSIONS)
                ]
                self.inputs[i] = [one.to(dtype).cuda() for one in numbers]
            else:
                self.written.append(i)
        self.out = self.written[0]

    def queue(self, version, poison):
        """Queue a call whose memory a kernel before has written; return a copy of its result."""
        for i in self.written:
            self.arrays[i].view(self.torch.uint8).fill_(poison)
        for i in self.cleared:
            self.arrays[i].zero_()
        for i, versions in self.inputs.items():
            self.torch.add(versions[version], 0, out=self.arrays[i])
        self.module(*self.arrays)
        return self.arrays[self.out].clone()

    def settled(self, version):
        """Return the result of a call behind one of the same inputs, with nothing in flight."""
        self.queue(version, 0)
        self.torch.cuda.synchronize()
        for i in self.cleared:
            self.arrays[i].zero_()
        self.torch.cuda.synchronize()
        self.module(*self.arrays)
        return self.arrays[self.out].clone()

    def wrong(self):
        """Return how many of many calls, queued together, have another result."""
        settled = [self.settled(version) for version in range(VERSIONS)]
        assert not any(one.isnan().any() for one in settled)
        wanted = [bits(self.torch, one) for one in settled]
        order = np.random.default_rng(1).integers(VERSIONS, size=CALLS)
        self.torch.cuda.synchronize()
        self.torch.cuda._sleep(3_000_000)  # the host queues meanwhile, so that launches overlap
        results = [self.queue(v, POISONS[i % len(POISONS)]) for i, v in enumerate(order)]
        pairs = zip(results, order, strict=True)
        return sum(not self.torch.equal(bits(self.torch, x), wanted[v]) for x, v in pairs)


@pytest.mark.parametrize("name", ["cells", *TASKS])
def test_first_calls_are_right_whatever_workspaces_held(name, torch):
    if not has_wgmma(Target("cuda")):
        pytest.skip("no kernels that begin early")
    made = [*cells()] if name == "cells" else drawn(*TASKS[name])
    opened = [with_open_workspaces(each) for each in made]
    assert any(len(kernel.calls) > 1 for kernel, _ in opened)
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda one: autotune.build(one[0], target="cuda"), opened))
    for module, (kernel, cleared) in zip(modules, opened, strict=True):
        assert FirstCalls(torch, module, cleared).wrong() == 0, [c.entry for c in kernel.calls]
