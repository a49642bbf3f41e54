"""What the fragments of the book take for granted, so that they run as all other blocks do.

Of each page its fragments in their order: the code that stands before one when it is tested, or
why it cannot run here.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cannot:
    """Why a fragment is not run."""

    why: str


NETWORK = """
os.environ.pop("AUTOTUNE_FROZEN")
from autotune.tvm import relay
module, params = relay.testing.mlp.get_workload(1, image_shape=(1, 2, 2))
"""
CONV = """
from autotune import auto_scheduler, te

@auto_scheduler.register_workload
def conv2d_layer(*sizes):
    a = te.placeholder((16,), name="a")
    return [a, te.compute((16,), lambda i: a[i] + 1, name="b")]

"""
GRANTED = {
    "README.md": [CONV, ""],
    "docs/deploy.md": [NETWORK],
    "docs/exchange.md": [
        "import shutil\nshutil.copy(DATA / 'interchange/t1/convolution.json', 'problem.json')\n"
    ],
    "docs/fleet.md": [
        Cannot("it needs another host; tests/fleet/test_people.py has certificates"),
        Cannot("it needs hosts that SSH reaches"),
        Cannot("it needs Slurm"),
    ],
    "docs/from_kernel_tuner.md": [Cannot("it is Kernel Tuner's program")],
    "docs/live_page.md": [
        "import autotune\nfrom autotune import callback\n"
        "from tests.tuner.doubles import loop_task, option as quick\n"
        "tuner, option = autotune.tuner.RandomTuner(loop_task()), quick()\n"
    ],
    "docs/measuring.md": [Cannot("it needs two GPUs; tests/tuner")],
    "docs/networks.md": ["arrays = [numpy.zeros((1, 1, 8, 8), 'float32')]\n"],
    "docs/search.md": [
        "tasks = [autotune.create('book.recorded', args=(n,), target='llvm') for n in (1, 2)]\n",
    ],
    "docs/use.md": [
        Cannot("it needs PyTorch; tests/torch"),
        Cannot("it needs a GPU; tests/gpu"),
    ],
}  # fmt: skip
_FRAGMENT = re.compile(r"^```python fragment\n", re.MULTILINE)


def completed(page, text, data):
    """Returns a page whose fragments are programs.

    Args:
        page: its name.
        text: of it.
        data: folder of what tests read.
    """
    granted = iter(GRANTED.get(page, ()))

    def opening(found):
        before = next(granted)
        if isinstance(before, Cannot):
            return found[0]
        return f"```python\nfrom pathlib import Path\nDATA = Path({str(data)!r})\n{before}"

    return _FRAGMENT.sub(opening, text)
