"""Rows of version 0.1, written by TVM 0.4 to 0.6 and read by no TVM since 0.7.

They are translated to what 0.2 calls the same task: a task of TOPI was then named after the
operator and chosen by a template key; now each implementation has a name of its own, padding has
four numbers, dilation is given, and the layout is part of the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.measure.types import MeasureInput, Pair
from autotune.record.fields import (
    config_from_json,
    mean_cost,
    result_from_json,
    task_from_json,
)
from autotune.target import Target
from autotune.task import Task

_LAYOUTS = ("NCHW", "NHWC", "HWCN")
# (old task, template key) -> new task, by the key of the target.
_NAMES: dict[str, dict[tuple[str, str], str]] = {
    "arm_cpu": {
        ("topi_nn_conv2d", "direct"): "conv2d_nchw_spatial_pack.arm_cpu",
        ("topi_nn_conv2d", "winograd"): "conv2d_nchw_winograd.arm_cpu",
        ("topi_nn_depthwise_conv2d_nchw", "direct"): "depthwise_conv2d_nchw.arm_cpu",
    },
    "cuda": {
        ("topi_nn_conv2d", "direct"): "conv2d_nchw.cuda",
        ("topi_nn_conv2d", "winograd"): "conv2d_nchw_winograd.cuda",
        ("topi_nn_depthwise_conv2d_nchw", "direct"): "depthwise_conv2d_nchw.cuda",
    },
}


def decode_version_0_1(row: Mapping[str, Any]) -> Pair:
    """Read ``{"i": [target, task, args, kwargs, workload, config], "r": [...], "v": 0.1}``."""
    text, old_name, args, _, _, old = row["i"]
    key = old.get("t") or ""
    if not isinstance(key, str):
        raise TypeError("the key of a template is a text")
    target, task = task_from_json(text, old_name, args)
    name = _new_name(target, old_name, key)
    plain = task.args if name == old_name else _new_args(task.args)
    choices = {"index": old["i"], "code_hash": old["c"], "entity": old["e"]}
    result = result_from_json(row["r"], extra={"template_key": key} if key else {})
    config = config_from_json(choices, cost=mean_cost(row["r"][0]))
    task = Task(name, plain, target)
    return MeasureInput(target, task, config.with_template_key(key)), result


def _new_name(target: Target, name: str, template_key: str) -> str:
    for key in target.keys:
        if (name, template_key) in _NAMES.get(key, {}):
            return _NAMES[key][name, template_key]
    return name


def _new_args(args: tuple[Any, ...]) -> tuple[object, ...]:
    """Translate (data, kernel, strides, padding, [dilation], [layout], dtype)."""
    data, kernel, strides, padding, *rest = (a for a in args if a not in _LAYOUTS)
    dilation = rest[0] if isinstance(rest[0], tuple) else (1, 1)
    four = padding if len(padding) == 4 else (*padding, *padding)
    return data, kernel, strides, four, dilation, rest[-1]
