"""The data behind the files of an exported project: names, shapes and launches of functions."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from autotune.codegen.packed import C_TYPES
from autotune.kernel import Argument, Constant, KernelCall, Scalar
from autotune.kernel.kernel import item_bytes
from autotune.record.frame import choices_of
from autotune.runtime.compile.elf import code_hash
from autotune.runtime.compile.toolchain import host_toolchain
from autotune.ship.c_text import entry_symbol, filler_symbol
from autotune.ship.gather import Image, Shipment, Shipped, ShippedFunction
from autotune.ship.identifiers import argument_names
from autotune.task import Task
from autotune.utils.quantities import microseconds

# Element types that C names in every compiler; others are passed as bytes.
_PLAIN = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip
Rows = dict[str, Any]


def prefix_of(library: str, number: int) -> str:
    """Return the prefix of the names of a kernel's functions."""
    return f"{library}_k{number}"


def rows_of(shipment: Shipment) -> Rows:
    """Return all that the templates of files need."""
    images: list[Rows] = []
    functions = [_function(shipment, function, images) for function in shipment.functions]
    units = [] if shipment.on_gpu else [_unit(row) for row in images]
    return {
        "functions": functions,
        "images": images,
        "n_images": len(images),
        "archs": sorted({row["arch_name"] for row in images if not row["ptx"]}),
        "units": units,
        "assembly": [{"file": "src/images.S", "flags": []}] if shipment.on_gpu else [],
        "sources": ["src/images.S"] if shipment.on_gpu else [row["file"] for row in units],
        "link_flags": sorted({f for row in units for f in row["flags"] if _links(f)}),
        "left_out": list(shipment.left_out),
        "manifest": _manifest(shipment, functions),
    }


def _links(flag: str) -> bool:
    return flag.startswith("-l") or flag == "-fopenmp"


def _unit(row: Rows) -> Rows:
    return {
        "file": row["file"],
        "flags": ["-O3", *host_toolchain().flags, *row["flags"]],
    }


def _function(shipment: Shipment, function: ShippedFunction, images: list[Rows]) -> Rows:
    names = argument_names([a.name for a in function.arguments])
    pairs = list(zip(names, function.arguments, strict=True))
    arrays = [name for name, a in pairs if not isinstance(a, Scalar)]
    shaped = [
        f"{_typed(a, name)}, const int64_t *{name}_shape"
        if not isinstance(a, Scalar)
        else _typed(a, name)
        for name, a in pairs
    ]
    alike = Counter(w.shapes for w in function.workloads)
    return {
        "task": function.task,
        "name": function.name,
        "python": function.name.removeprefix(f"{shipment.name}_"),
        "plain": ", ".join(_typed(a, name) for name, a in pairs) or "void",
        "shaped": ", ".join(shaped) or "void",
        "addresses": [_value(a, name) for name, a in pairs],
        "shapes": [f"{name}_shape" if name in arrays else "0" for name in names],
        "names": names,
        "named": [each for name in names for each in _named(name, name in arrays)],
        "ranks": [-1 if isinstance(a, Scalar) else len(a.shape) for _, a in pairs],
        "arguments": [
            {
                "name": name,
                "dtype": a.dtype,
                "role": a.role,
                "scalar": isinstance(a, Scalar),
            }
            for name, a in pairs
        ],
        "workloads": [
            _workload(shipment, w, names, int(alike[w.shapes] > 1), images)
            for w in function.workloads
        ],
    }


def _named(name: str, array: bool) -> list[str]:
    return [name, f"{name}_shape"] if array else [name]


def _typed(argument: Argument, name: str) -> str:
    if isinstance(argument, Scalar):
        # The header is read by C++ too, which has no `_Bool`.
        typed = "bool" if argument.dtype == "bool" else C_TYPES[argument.dtype]
        return f"{typed} {name}"
    constant = "const " if argument.role == "in" else ""
    return f"{constant}{_PLAIN.get(argument.dtype, 'void')} *{name}"


def _value(argument: Argument, name: str) -> str:
    return f"&{name}" if isinstance(argument, Scalar) else f"(void *){name}"


def _workload(
    shipment: Shipment, one: Shipped, names: list[str], ambiguous: int, images: list[Rows]
) -> Rows:
    task = Task.of(one.measure_input.task)
    arrays = [a for a in one.arguments if not isinstance(a, Scalar)]
    pairs = list(zip(names, one.arguments, strict=True))
    own = []
    for image in one.images:
        row = _image(shipment, image, one, len(images))
        own.append(row)
        images.append(row)
    return {
        "name": one.name,
        "title": f"{task.name}{_plain(task.args)}",
        "us": microseconds(one.result.seconds).removesuffix(" us"),
        "target": str(one.measure_input.target),
        "arrays": ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in pairs),
        "extents": [extent for a in arrays for extent in a.shape],
        "ambiguous": ambiguous,
        "images": own,
        "arguments": [_argument(name, a) for name, a in pairs],
        "shapes": [None if isinstance(a, Scalar) else list(a.shape) for a in one.arguments],
        "task_args": list(task.args),
        "config": choices_of(one.measure_input.config),
        "seconds": one.result.seconds,
        "kernel_hash": one.result.evidence.kernel_hash,
    }


def _plain(args: tuple[object, ...]) -> str:
    # It stands in comments of C.
    return str(tuple(args)).replace("*/", "* /")


def _argument(name: str, a: Argument) -> Rows:
    return {
        "name": name,
        "scalar": isinstance(a, Scalar),
        "c_type": C_TYPES[a.dtype],
        "shape": list(a.shape),
        "bytes": a.bytes,
        "item": item_bytes(a.dtype),
        "dtype": a.dtype,
        "written": a.role != "in",
    }


def _image(shipment: Shipment, image: Image, one: Shipped, number: int) -> Rows:
    kernel = image.kernel
    prefix = prefix_of(shipment.name, number)
    where = {a.name: i for i, a in enumerate(kernel.args)}
    where |= {w.name: -i - 1 for i, w in enumerate(kernel.workspace)}
    suffix = "c" if image.kind == "text" else f"{image.arch}.{image.kind}"
    folder = "src/kernels" if image.kind == "text" else "kernels"
    digits = "".join(c for c in image.arch if c.isdigit())

    def call(each: KernelCall) -> Rows:
        symbol = image.symbols[each.entry]
        return {
            "symbol": entry_symbol(each.entry, prefix) if image.kind == "text" else symbol,
            "grid": list(each.launch.grid),
            "block": list(each.launch.block),
            "shared": each.launch.shared_bytes,
            "args": [where[name] for name in each.args],
        }

    return {
        "id": number,
        "is_c": image.kind == "text",
        "ptx": int(image.kind == "ptx"),
        "arch": int(digits or 0) if image.kind != "text" else 0,
        "arch_name": image.arch,
        "exact": int(image.kind == "cubin" and image.arch[-1:].isalpha()),
        "file": f"{folder}/{one.name}.{suffix}",
        "flags": list(kernel.flags),
        "fill": filler_symbol(kernel, prefix) if image.kind == "text" and kernel.constants else "",
        "calls": [call(each) for each in kernel.calls],
        "spaces": [{"bytes": w.bytes, "zero": int(w.zero)} for w in kernel.workspace],
        "constants": [
            {"name": a.name, "arg": i, "bytes": a.bytes}
            for i, a in enumerate(kernel.args)
            if isinstance(a, Constant)
        ],
        "text_sha256": hashlib.sha256(kernel.source.encode()).hexdigest(),
        "code_hash": code_hash(image.content) if image.kind == "cubin" else None,
    }


_MANIFEST_IMAGE = ("file", "arch_name", "text_sha256", "code_hash")
_MANIFEST_WORKLOAD = (
    "name", "task_args", "target", "shapes", "config", "seconds", "kernel_hash", "ambiguous",
)  # fmt: skip


def _manifest(shipment: Shipment, functions: list[Rows]) -> Rows:
    return {
        "library": shipment.name,
        "device": "cuda" if shipment.on_gpu else "cpu",
        "functions": [
            {
                **{key: f[key] for key in ("name", "task", "python", "arguments")},
                "workloads": [
                    {
                        **{key: w[key] for key in _MANIFEST_WORKLOAD},
                        "images": [{k: i[k] for k in _MANIFEST_IMAGE} for i in w["images"]],
                    }
                    for w in f["workloads"]
                ],
            }
            for f in functions
        ],
        "left_out": list(shipment.left_out),
    }
