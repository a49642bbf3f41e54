"""The options of building as scripts of TVM up to 0.7 pass them."""

from __future__ import annotations

from typing import Any

from autotune.lowering.pass_context import PassContext

# Option of `build_config` -> key of "tir.UnrollLoop".
_UNROLLING = {"auto_unroll_max_step": "auto_max_step", "unroll_explicit": "explicit_unroll"}
_OF_CONTEXTS = ("opt_level", "required_pass", "disabled_pass")


def build_config(**options: Any) -> PassContext:
    """Return the pass context of these options: ``with build_config(opt_level=3):``.

    Args:
        options: ``auto_unroll_max_step`` and ``unroll_explicit`` are options of each loop that
            has none of its own, ``disable_vectorize`` makes vector loops plain ones,
            ``opt_level`` is that of networks. Others are kept and ignored, as in `PassContext`.

    Raises:
        LoweringError: an option that counts is of another kind than TVM's.
    """
    unroll = {key: options[name] for name, key in _UNROLLING.items() if name in options}
    config: dict[str, Any] = {"tir.UnrollLoop": unroll} if unroll else {}
    if options.get("disable_vectorize"):
        config["tir.disable_vectorize"] = True
    ours = {name: options[name] for name in _OF_CONTEXTS if name in options}
    counted = {*_UNROLLING, *_OF_CONTEXTS, "disable_vectorize"}
    config |= {name: value for name, value in options.items() if name not in counted}
    return PassContext(config=config, **ours)
