"""The text of calls of registered functions (`autotune.te.registered_call`), on a CPU.

Who loads a kernel puts a function into a variable of it, which looks others up by their names::

    autotune_call_registered("name", "[[\"float32\", 2], \"i\"]",
                             (const autotune_value[]){{.address = A}, {.integer = 64}, ...})
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from autotune.ir import Call, Expr, is_float
from autotune.ir.address import Address
from autotune.ir.registered import REGISTERED
from autotune.kernel.kernel import Kernel
from autotune.target.backends import of_language

# The variable, which is also the name of the helper that declares it.
CALLER = "autotune_call_registered"
DECLARATION = f"""typedef union {{
  const void* address;
  long long integer;
  double real;
}} autotune_value;
long long (*{CALLER})(const char* name, const char* kinds, const autotune_value* values);
"""
_NAME = re.compile(rf'{CALLER}\("((?:[^"\\]|\\.)*)"')


def call_text(call: Call, args: Sequence[str]) -> str:
    """Return the text of a call, with those of its arguments."""
    name, *kinds = json.loads(call.name.removeprefix(REGISTERED))
    pairs = zip(call.args, args, strict=True)
    values = ", ".join(f"{{.{_field(each)} = {text}}}" for each, text in pairs)
    # Not as \u, by which C cannot name every character.
    texts = json.dumps(name, ensure_ascii=False), json.dumps(json.dumps(kinds))
    return f"(int){CALLER}({', '.join(texts)}, (const autotune_value[]){{{values or '{0}'}}})"


def registered_names(kernel: Kernel) -> list[str]:
    """Return the names of the registered functions that a kernel calls, each once."""
    if CALLER not in kernel.source or of_language(kernel.language).on_gpu:
        return []
    found = _NAME.findall(kernel.source)
    return [json.loads(f'"{name}"') for name in dict.fromkeys(found)]


def _field(value: Expr) -> str:
    if isinstance(value, Address):
        return "address"
    return "real" if is_float(value.dtype) else "integer"
