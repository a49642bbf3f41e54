"""Values that are wrong for an argument, by what the argument takes."""

import math

import numpy as np


class Odd:
    """An object that is nothing."""

    def __repr__(self):
        return "Odd()"


WRONG_TEXT = ["abc", "1", ""]
NO_NUMBER = [*WRONG_TEXT, [], {}, (1, 2), 1j, Odd(), len, np.zeros(3), b"3"]
NUMBER = [*NO_NUMBER, math.nan, math.inf, True, None]
POSITIVE = [*NUMBER, 0, -1, -2.5]
NOT_NEGATIVE = [*NUMBER, -1, -0.5]
WHOLE = [*NUMBER, 1.5]
COUNT = [*WHOLE, 0, -1, -(10**30)]
INDEX = [*WHOLE, -1, 10**30]
TEXT = [5, 1.5, [], {}, None, Odd(), b"x", len]
NAME = [*TEXT, ""]
CHOICE = [*NAME, "no_such_thing"]
LIST = [5, None, "abc", Odd(), len, 1.5]
FUNCTION = [5, None, "abc", [], {}, Odd()]
PATH = [5, None, [], {}, Odd(), 1.5, len, "a\0b"]
OBJECT = [5, None, "abc", [], {}, Odd(), len, 1.5]
TARGET = [
    5, 1.5, [], Odd(), "", " ", "gpu3", "cuda -arch", "cuda arch=sm_90", "cuda -arch=sm_9x",
    "cuda -arch=", "cuda -arch=90", "cuda -arch=sm_1", "cuda -emulat", "{}", '{"kind": 5}',
    '{"kind": "cuda"', {"kind": None}, {}, {5: 5}, {"kind": "cuda", "arch": 90}, "[1]", "cudo",
    "cuda -emulate=maybe", {"kind": "cuda", "host": 5}, {"kind": "cuda", "keys": 5},
    "cuda -max_num_threads=many",
]  # fmt: skip
SHAPE = [-1, 0, 1.5, "abc", (0,), (4, -1), (4, "n"), ((4,), 4), None, {}, Odd(), (1.5,), (None,)]
DTYPE = ["float31", "int", "", 5, None, [], Odd(), "float32x", "complex64", "float32x0"]
