"""The 24 graphs of ResNet-18 in layout NHWC, as TVM's auto-scheduler tutorial prints them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from autotune import te, topi

PRINTED = Path(__file__).parent.parent / "data/auto_scheduler/resnet18_nhwc_dags.txt"
HEAD = re.compile(r"^=+ Task (\d+)  \(workload key: (.*)\) =+$", re.MULTILINE)


@dataclass(frozen=True)
class Printed:
    """One task of the tutorial: its key, and the text of its graph."""

    key: str
    text: str

    @property
    def digest(self):
        return json.loads(self.key)[0]

    @property
    def shapes(self):
        return json.loads(self.key)[1:]


def printed_tasks():
    _, *parts = HEAD.split(PRINTED.read_text("utf-8"))
    return [
        Printed(key, text.strip() + "\n")
        for key, text in zip(parts[1::3], parts[2::3], strict=True)
    ]


def relu(x):
    """The name that a network's ReLU has: that of an operator of TVM's C++ library."""
    zero = te.const(0, x.dtype)
    return te.compute(
        x.shape,
        lambda *i: te.max(x(*i), zero),
        name="T_relu",
        varargs_names=[f"ax{i}" for i in range(x.ndim)],
    )


def build(task: Printed):
    """Build the graph of a task from its shapes and the operators that its text names."""
    *inputs, _ = task.shapes
    args = [te.placeholder(shape, name=f"p{i}") for i, shape in enumerate(inputs)]
    rest = iter(args[2:])
    data = args[0]
    if "conv2d_winograd" in task.text:
        tile = inputs[1][0] - 2
        out = topi.nn.conv2d_winograd_nhwc(data, args[1], 1, 1, pre_computed=True, tile_size=tile)
    elif "conv2d_nhwc" in task.text:
        stride = 2 if "yy*2" in task.text else 1
        out = topi.nn.conv2d_nhwc(data, args[1], stride, inputs[1][0] // 2)
    elif "pool_max" in task.text:
        rest = iter(args[1:])
        out = topi.nn.pool2d(data, 3, 2, padding=1, layout="NHWC")
    elif "adaptive_pool" in task.text:
        out = topi.nn.global_pool(data, "avg", "NHWC")
    elif "softmax" in task.text:
        out = topi.nn.softmax(data)
    else:
        out = topi.nn.dense(data, args[1])
    for line in task.text.splitlines():
        if line.startswith("T_add"):
            out = out + next(rest)
        elif line.startswith("T_multiply"):
            out = out * next(rest)
        elif line.startswith("T_relu"):
            out = relu(out)
    return [*args, out]
