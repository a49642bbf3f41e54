"""Headers of the C library for NVRTC, which has none: what kernels use of them, nothing more."""

from __future__ import annotations

_STDINT = """\
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
typedef long long intptr_t;
"""
_FLOAT = """\
#pragma once
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_LIMITS = """\
#pragma once
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
"""
_MATH = """\
#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
"""
# Mathematical functions, size_t, printf and assert are built into NVRTC.
_EMPTY = "#pragma once\n"

HEADERS = {
    "stdint.h": _STDINT, "cstdint": _STDINT, "float.h": _FLOAT, "cfloat": _FLOAT,
    "limits.h": _LIMITS, "climits": _LIMITS, "math.h": _MATH, "cmath": _MATH,
    "math_constants.h": _MATH, "stddef.h": _EMPTY, "cstddef": _EMPTY, "stdio.h": _EMPTY,
    "cstdio": _EMPTY, "cuda_runtime.h": _EMPTY, "assert.h": _EMPTY, "cassert": _EMPTY,
}  # fmt: skip
