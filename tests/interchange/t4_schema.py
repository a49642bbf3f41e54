"""The schema of T4 results, written from its public specification.

What it demands stands in `t4.py` of the package with its sources; stricter than these where they
agree with each other: no result has a key that neither knows.
"""

_NUMBERS = {"type": "array", "items": {"type": "number"}}
RESULTS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["results", "schema_version"],
    "properties": {
        "schema_version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "metadata": {
            "type": "object",
            "properties": {
                "compute_api": {"enum": ["OpenCL", "CUDA", "Vulkan"]},
                "device": {"type": "string"},
                "autotuner": {"type": "string"},
                "autotuner_version": {"type": "string"},
                "timestamp": {"type": "string"},
                "timeunit": {"enum": ["nanoseconds", "microseconds", "milliseconds", "seconds"]},
            },
        },
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["configuration", "times", "invalidity", "correctness"],
                "additionalProperties": False,
                "properties": {
                    "timestamp": {"type": "string"},
                    "configuration": {"type": "object"},
                    "objectives": {"type": "array", "items": {"type": "string"}},
                    "times": {
                        "type": "object",
                        "properties": {
                            "runtimes": _NUMBERS,
                            **{
                                name: {"type": "number"}
                                for name in (
                                    "compilation_time", "framework", "search_algorithm",
                                    "validation", "data", "kernel_overhead",
                                )
                            },
                        },
                    },
                    "invalidity": {
                        "enum": [
                            "timeout", "compile", "runtime", "correctness", "constraints",
                            "correct",
                        ]
                    },
                    "correctness": {"enum": [0, 1]},
                    "measurements": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "value": {"type": ["number", "string", "array"]},
                                "unit": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip
