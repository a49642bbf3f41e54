"""What the fragments of the book take for granted, so that they run as all other blocks do.

Of each page its fragments in their order: the code that stands before one when it is tested, or
why it does not run here.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cannot:
    """Why a fragment is not run here."""

    why: str


GRANTED = {
    "docs/deploy.md": [Cannot("it takes ten seconds; tests/network/test_frozen.py")],
    "docs/energy.md": [Cannot("it needs a counter of energy; tests/gpu/test_energy.py")],
    "docs/exchange.md": [
        "import shutil\nshutil.copy(DATA / 'interchange/t1/convolution.json', 'problem.json')\n"
    ],
    "docs/fleet_deployment.md": [
        Cannot("it needs another host; tests/fleet/test_people.py has certificates"),
        Cannot("it needs hosts that SSH reaches"),
        Cannot("it needs Slurm"),
    ],
    "docs/from_kernel_tuner.md": [Cannot("it is Kernel Tuner's program")],
    "docs/live_page.md": [Cannot("tests/dashboard/test_live_page.py does the same")],
    "docs/measuring.md": [Cannot("it needs two GPUs; tests/tuner")],
    "docs/networks.md": [
        Cannot("it needs PyTorch; tests/importers/pytorch"),
        "arrays = [numpy.zeros((1, 1, 8, 8), 'float32')]\n",
    ],
    "docs/searching.md": [
        "tasks = [autotune.create('book.recorded', args=(n,), target='llvm') for n in (1, 2)]\n",
    ],
    "docs/use.md": [Cannot("it needs a GPU; tests/gpu")],
    "docs/pytorch.md": [
        Cannot("it needs PyTorch and a GPU; tests/torch, tests/gpu"),
        Cannot("it needs PyTorch; tests/torch"),
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
