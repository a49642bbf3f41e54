"""The tuned kernel in a program of yours: its log is all that is needed.

python first_template.py && python use_the_best.py scale.log
"""

import sys

import numpy
from first_template import scale

import autotune


def main(path: str = "scale.log", target: str = "cuda -emulate") -> None:
    """Builds the best of the log, and calls it."""
    with autotune.apply_history_best(path), autotune.Target(target):
        double = autotune.build(scale(1000))
    x = numpy.arange(1000, dtype="float32")
    y = numpy.zeros(1000, "float32")
    double(x, y)  # numpy here; on a GPU torch tensors and any DLPack array as well
    assert (y == 2 * x).all()
    print("right:", y[:4])


if __name__ == "__main__":
    main(*sys.argv[1:])
