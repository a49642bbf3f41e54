"""Arguments are checked against the source before a launch, on every target; no device is needed.

`HIDDEN(...)` keeps the types of parameters from those who only read the text, so that what is
tested is the compiler or the machine code. Tests of what can be read are in tests/kernel.
"""

import struct
from dataclasses import replace

import numpy as np
import pytest

import autotune.driver as driver
from autotune.errors import CompileError
from autotune.kernel import SourceKernel, arg, call, constant, workspace
from autotune.runtime import compile_kernel, load_module
from autotune.runtime.compile.cubin import check_cubin, parameter_sizes
from autotune.runtime.compile.elf import symbol_sizes
from autotune.runtime.compile.toolchain import find_nvcc
from autotune.target import Target
from tests.runtime.compilers import needs_nvrtc

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
CUDA = [
    pytest.param("cuda -arch=sm_90 nvcc", marks=needs_nvcc),
    pytest.param("cuda -arch=sm_90 nvrtc", marks=needs_nvrtc),
]
EVERYWHERE = ["c nvcc", "cuda -emulate nvcc", *CUDA]
X, Y = arg("x", (8,), role="inout"), arg("y", (8,), role="out")
N, ALPHA = arg("n", (), "int32", value=8), arg("alpha", ())


def built(where, source, args=(), name="f", **options):
    target, compiler = where.rsplit(" ", 1)
    if target == "c":
        source = source.replace('extern "C" ', "").replace("__global__ ", "")
    launch = {} if "calls" in options else {"block": 8}
    kernel = SourceKernel(name, source, args, **launch, **options)
    return driver.build(kernel, target=target, compiler=compiler)


def hidden(parameters):
    macro = "#define HIDDEN(...) __VA_ARGS__\n"
    return f'{macro}extern "C" __global__ void f(HIDDEN({parameters})) {{ }}\n'


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_parameter_too_many_is_told_on_every_target(where):
    with pytest.raises(CompileError, match=r"entry 'f'.*expected 2|arguments of f: too few") as e:
        built(where, hidden("const float *x, int n, int m"), [X, N])
    if where.startswith("cuda -arch"):
        assert (
            "entry 'f': expected 2 parameters ('x': address of float32[8], 'n': int32 by value), "
            "the source takes 3 (8 bytes, 4 bytes, 4 bytes)" in str(e.value)
        )


@pytest.mark.many_cases
@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize(
    ("parameters", "args", "c", "cuda"),
    [
        ("const float *x, char n", [X, N], "may change value", "the source takes 1 bytes"),
        ("const float *x, double n", [N, X], "incompatible type", "the source takes 8 bytes"),
        ("short x", [X], "makes integer from pointer", "the source takes 2 bytes"),
    ],
)
def test_a_parameter_of_another_size_is_told_on_every_target(where, parameters, args, c, cuda):
    source = hidden(parameters)
    with pytest.raises(CompileError) as caught:
        built(where, source, args)
    first = str(caught.value).splitlines()[0]
    i, name = (1, "n") if args[0] is N else (len(args), args[-1].name)
    if where.startswith("c "):
        assert "the arguments of f: " in first
        if c != "incompatible type":
            assert c in first
    else:
        assert f"entry 'f': parameter {i}" in first
        assert f"expected '{name}': " in first
    if where.startswith("cuda -arch") and args[0] is not N:
        assert cuda in first


def test_a_source_of_c_without_the_function_says_so():
    kernel = SourceKernel("f", "void g(const float *x) {}", [X])
    with pytest.raises(CompileError, match="the source has no function f: 'f' undeclared"):
        driver.build(kernel, target="c")


def test_a_function_that_the_compiler_could_not_read_is_not_said_to_be_missing():
    kernel = SourceKernel("f", "void f(const no_such_type *x) {}", [X])
    with pytest.raises(CompileError, match=r"failed: unknown type name .?no_such_type"):
        driver.build(kernel, target="c")


@pytest.mark.many_cases
@pytest.mark.parametrize("where", ["c nvcc", "cuda -emulate nvcc"])
@pytest.mark.parametrize("parameter", ["int alpha", "float *alpha", "struct S alpha"])
def test_compilers_tell_numbers_apart(where, parameter):
    source = "struct S { float value; };\n" + hidden(f"{parameter}, float *y")
    with pytest.raises(CompileError, match=r"arguments of f: |parameter 1: expected 'alpha'"):
        built(where, source, [ALPHA, Y])


@pytest.mark.parametrize("where", EVERYWHERE)
def test_what_is_hidden_but_fits_is_built(where):
    source = "#include <stdint.h>\n" + hidden("const float *x, unsigned n, float *y")
    assert built(where, source, [X, N, Y]).artifact


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_mismatch_that_can_be_read_names_the_parameter_before_compiling(where):
    source = 'extern "C" __global__ void f(const float *x, float count) { }'
    with pytest.raises(
        CompileError, match="parameter 2, `float count`: expected 'n': int32 by value, got float32"
    ):
        built(where, source, [X, N])


# ---- names -------------------------------------------------------------------------------------


PLAIN = "__global__ void f(const float *x, float *y) { y[0] = x[0]; }"


@pytest.mark.many_cases
@pytest.mark.parametrize("where", EVERYWHERE[1:])
@pytest.mark.parametrize("source", [PLAIN, f"template <class T> {PLAIN}"])
def test_a_missing_extern_c_is_told_in_the_first_line(where, source):
    with pytest.raises(CompileError) as caught:
        built(where, source, [X, Y])
    first = str(caught.value).splitlines()[0]
    assert "the source has no kernel 'f'" in first
    assert 'declare it as `extern "C" __global__ void f(...)`' in first
    assert "'f<...>'" in first


def test_a_missing_c_function_is_told():
    with pytest.raises(CompileError, match=r"'?f.? undeclared.*\n[\s\S]*has no function f\]"):
        built("c nvcc", "void other(void) {}", [X, Y])


TEMPLATES = """
#define FOUR 4
namespace ns {
template <class T, int M>
__global__ void scale(const T *__restrict__ x, T *y, int n, T alpha) {
  int i = threadIdx.x;
  if (i < n) y[i] = alpha * x[i] + M;
}
}  // namespace ns
template <int M, bool Up>
__global__ void shift(const float *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x] + (Up ? M : -M);
}
"""
SCALE = [arg("x", (8,)), Y, N, ALPHA]
NAMES = ["ns::scale<float, 4>", "ns::scale<float,FOUR>", "ns::scale < float, 2 + 2 >"]


@pytest.mark.many_cases
@pytest.mark.parametrize("where", CUDA)
@pytest.mark.parametrize("name", NAMES)
def test_an_instance_of_a_template_is_compiled_and_found(where, name):
    func = built(where, TEMPLATES, SCALE, name)
    symbol = "_ZN2ns5scaleIfLi4EEEvPKT_PS1_iS1_"
    assert check_cubin(func.kernel, func.artifact) == {name: symbol}
    assert parameter_sizes(func.artifact)[symbol] == (8, 8, 4, 4)
    assert func.resources["registers"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_instance_of_a_template_runs_on_the_emulator(name, tmp_path):
    func = built("cuda -emulate nvcc", TEMPLATES, SCALE, name)
    func.export_library(tmp_path / "f.atm")
    x = np.arange(8, dtype="float32")
    for one in (func, load_module(tmp_path / "f.atm")):
        y = np.zeros(8, "float32")
        one(x, y, 6, 0.5)
        np.testing.assert_array_equal(y, np.where(x < 6, x / 2 + 4, 0))
    assert func.time_evaluator(name, number=2)(x, y, 6, 0.5).mean > 0


TWO = {
    "calls": [
        call("shift<3, true>", ["x", "w"], 1, 8),
        call("shift<1, false>", ["w", "w"], 1, 8),
        call("ns::scale<float, 0>", ["w", "y", "n", "alpha"], 1, 8),
        call("shift<3, true>", ["y", "y"], 1, 8),
    ],
    "workspace": [workspace("w", (8,))],
}


@pytest.mark.parametrize("where", EVERYWHERE[1:])
def test_a_function_of_several_instances_is_built(where):
    func = built(where, TEMPLATES, SCALE, "both", **TWO)
    if "emulate" not in where:
        found = check_cubin(func.kernel, func.artifact)
        assert len(set(found.values())) == len(found) == 3
        return
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    func(x, y, 8, 2)
    np.testing.assert_array_equal(y, (x + 3 - 1) * 2 + 3)


@pytest.mark.parametrize("where", EVERYWHERE[1:])
def test_an_instance_with_another_signature_is_refused(where):
    with pytest.raises(CompileError, match=r"parameter 4.*expected 'alpha': float32 by value"):
        built(where, TEMPLATES, SCALE, "ns::scale<double, 4>")


@pytest.mark.many_cases
@pytest.mark.parametrize("where", EVERYWHERE[1:])
@pytest.mark.parametrize("name", ["absent<4>", "ns::scale<float>", "ns::scale<nothing, 4>"])
def test_an_instance_that_is_not_there_is_told_with_its_name(where, name):
    with pytest.raises(CompileError) as caught:
        built(where, TEMPLATES, SCALE, name)
    assert name in str(caught.value).splitlines()[0]


@needs_nvcc
def test_a_function_on_the_device_is_no_kernel():
    source = "template <int M> __device__ void g(float *y) { y[0] = M; }"
    with pytest.raises(CompileError, match=r"no kernel 'g<4>'.*`template <...> __global__ void g"):
        built("cuda -arch=sm_90 nvcc", source, [Y], "g<4>")


# ---- constants ---------------------------------------------------------------------------------


MASKED = '{} extern "C" __global__ void f(float *y) {{ y[threadIdx.x] = mask[threadIdx.x]; }}'


@pytest.mark.parametrize("where", CUDA)
def test_constants_are_looked_for_in_the_machine_code(where):
    args = [constant("mask", (3,)), Y]
    func = built(where, MASKED.format("__constant__ float mask[3];"), args)
    assert symbol_sizes(func.artifact)["mask"] == 12
    with pytest.raises(
        CompileError, match=r"'mask': expected float32\[3\], 12 bytes, the source has 16 bytes"
    ):
        built(where, MASKED.format("__constant__ float mask[4];"), args)
    with pytest.raises(CompileError, match=r"'mask': expected `__constant__` memory of that name"):
        built(
            where,
            MASKED.format("namespace a { __constant__ float mask[3]; } using namespace a;"),
            args,
        )


@pytest.mark.parametrize("where", CUDA)
def test_a_constant_that_a_variant_does_not_read_is_kept(where):
    source = '__constant__ float mask[3]; extern "C" __global__ void f(float *y) { y[0] = 1; }'
    assert built(where, source, [constant("mask", (3,)), Y]).artifact


# ---- the format of cubins ----------------------------------------------------------------------


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_sizes_of_parameters_are_those_of_the_source(arch):
    source = """
    struct Odd { char c[3]; }; struct Large { char c[4093]; };
    extern "C" __global__ void f(const float *x, Odd o, short s, double d, bool b, float4 v) {}
    extern "C" __global__ void g(Large l, float *y, int n) {}
    extern "C" __global__ void h() {}
    """
    kernel = SourceKernel("h", source, [Y], calls=[call("h", [])]).kernel("cuda")
    func = driver.build(kernel, target=f"cuda -arch={arch}")
    sizes = parameter_sizes(func.artifact)
    assert sizes == {"f": (8, 3, 2, 8, 1, 16), "g": (4093, 8, 4), "h": ()}


def test_a_cubin_that_is_damaged_is_refused_in_words():
    kernel = SourceKernel("f", PLAIN, [X, Y]).kernel("cuda")
    for damaged in (
        b"",
        b"\x7fELF\x02\x01" + b"\0" * 20,
        b"\x7fELF\x02\x01" + struct.pack("<70x"),
    ):
        with pytest.raises(CompileError, match=r"wrote no cubin|has no kernel 'f', it has none"):
            check_cubin(kernel, damaged)


@needs_nvcc
def test_what_the_cache_kept_is_checked_against_the_arguments_of_today(tmp_path):
    source = (
        '#define HIDDEN(...) __VA_ARGS__\nextern "C" __global__ void f(HIDDEN(float *y, int n)) {}'
    )
    good = SourceKernel("f", source, [Y, N]).kernel("cuda")
    target = Target("cuda -arch=sm_90")
    compile_kernel(good, target, out_dir=tmp_path)
    wrong = replace(good, args=(Y, arg("n", (), "int64")))
    with pytest.raises(CompileError, match="expected 'n': int64 by value, the source takes 4"):
        compile_kernel(wrong, target, out_dir=tmp_path)
    assert compile_kernel(good, target, out_dir=tmp_path).cached
