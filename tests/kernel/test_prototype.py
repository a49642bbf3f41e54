"""What can be read of a prototype without a compiler, and what is left to one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import KernelError
from autotune.kernel import Constant, Kernel, KernelCall, SourceKernel, arg, call, constant
from autotune.kernel.entry import identifier, plain_name
from autotune.kernel.prototype import ADDRESS, body_starts, element_kind, prototype
from autotune.kernel.signature import signature_mismatch


def kinds(source, entry="f", flags=()):
    written = prototype(source, entry, flags)
    return None if written is None else [p.kind for p in written]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", []),
        ("void", []),
        ("const float *a, float* __restrict__ b, int c[4]", [ADDRESS] * 3),
        ("int n, unsigned m, const long long k, uint8_t b", ["int32", "uint32", "int64", "uint8"]),
        ("float a, double const b, bool c, _Bool d", ["float32", "float64", "bool", "bool"]),
        ("__half h, __nv_bfloat16 b, _Float16 c", ["float16", "bfloat16", "float16"]),
        ("std::int64_t n, size_t m, unsigned char c", ["int64", "uint64", "uint8"]),
        ("int, unsigned long, float *", ["int32", "uint64", ADDRESS]),
        ("int n = 3, float x /* , int y */", ["int32", "float32"]),
        ("const __grid_constant__ int n", ["int32"]),
        ("float4 v, struct point p, T t, const T& r, void (*g)(int, int)", [""] * 5),
        ("int (*rows)[8], std::pair<int, int> p", [ADDRESS, ""]),
    ],
)
def test_kinds_of_parameters_are_read(parameters, expected):
    assert kinds(f"void f({parameters}) {{ }}") == expected


@pytest.mark.parametrize(
    ("prelude", "expected"),
    [
        ("#define T float\n", "float32"),
        ("#define T U\n#define U const double\n", "float64"),
        ("#define T float *\n", ADDRESS),
        ("typedef unsigned long long T;\n", "uint64"),
        ("using T = __half;\n", "float16"),
        ("// #define T float\n", ""),
        ("#ifdef A\n#define T float\n#else\n#define T double\n#endif\n", ""),
        ("#define T float\n#undef T\n", ""),
        ("#define T(x) float\n", ""),
    ],
)
def test_names_of_types_are_looked_up_unless_they_have_two_meanings(prelude, expected):
    assert kinds(f"{prelude}void f(T x) {{}}") == [expected]


WRITTEN = [
    ("float", "float32"), ("const double", "float64"), ("int", "int32"), ("unsigned", "uint32"),
    ("long long int", "int64"), ("int unsigned long", "uint64"), ("uint8_t", "uint8"),
    ("signed char const", "int8"), ("unsigned short", "uint16"), ("bool", "bool"),
    ("__half", "float16"), ("float4", ""), ("Pair<int, float>", ""), ("float *", ADDRESS),
    ("const T *__restrict__", ADDRESS), ("void const * const", ADDRESS), ("int **", ADDRESS),
]  # fmt: skip
SPACES = st.sampled_from([" ", "\n", " /* , */ ", "\t", " // (\n"])


@given(st.lists(st.tuples(st.sampled_from(WRITTEN), SPACES, st.booleans()), max_size=8))
def test_any_list_of_parameters_is_read_whatever_stands_between(parameters):
    texts = [
        f"{kind}{space}p{i}{' [3]' if brackets else ''}{space}"
        for i, ((kind, _), space, brackets) in enumerate(parameters)
    ]
    written = prototype(f'extern "C" void f({",".join(texts)})\n{{ g(1, 2); }}', "f")
    assert [p.kind for p in written] == [
        ADDRESS if brackets else kind for (_, kind), _, brackets in parameters
    ]
    assert [p.name for p in written] == [f"p{i}" for i in range(len(parameters))]


@given(st.text(alphabet="f(){},;*int /\\\"'<>#\n=[]", max_size=60))
def test_no_text_breaks_the_reader(text):
    prototype(text, "f")


def test_macros_of_flags_are_known_and_may_contradict_the_source():
    source = "void f(T x) {}"
    assert kinds(source, flags=["-DT=double", "-O3", "-DFAST"]) == ["float64"]
    guarded = "#ifndef T\n#define T float\n#endif\n" + source
    assert kinds(guarded) == ["float32"]
    assert kinds(guarded, flags=["-DT=double"]) == [""]


@pytest.mark.parametrize(
    "source",
    [
        "void f(int a);",
        "void g(int a) { f(a); if (f(a)) { } }",
        "void f(int a) {} template <class T> void f(T *a) {}",
        "#if X\nvoid f(int a) {}\n#else\nvoid f(float a) {}\n#endif",
        '// void f(int a) {\n/* void f(int a) { */ const char *s = "void f(int a) {";',
        "void f(int a",
    ],
)
def test_what_is_not_defined_once_is_not_judged(source):
    assert prototype(source, "f") is None


def test_equal_definitions_are_one():
    assert kinds("#if X\nvoid f(int a) {}\n#else\nvoid f(int a) { }\n#endif") == ["int32"]


def test_entries_of_c_plus_plus_have_plain_names_and_identifiers():
    assert plain_name("ns::gemm<float, std::min(2, 3)>") == "gemm"
    assert plain_name("gemm") == "gemm"
    assert identifier("gemm<float, 4>").startswith("gemm_float_4_")
    assert identifier("gemm<-1>") != identifier("gemm<1>")
    assert identifier("gemm") == "gemm"


# ---- against the arguments ---------------------------------------------------------------------


def mismatch(parameters, args, language="cuda", prelude=""):
    source = f"{prelude}void f({parameters}) {{ }}"
    passed = tuple(a.name for a in args if not isinstance(a, Constant))
    return signature_mismatch(
        Kernel("f", language, source, tuple(args), (KernelCall("f", passed),))
    )


X, N, ALPHA = arg("x", (4,), role="out"), arg("n", (), "int32"), arg("alpha", ())


@pytest.mark.parametrize(
    ("parameters", "args"),
    [
        ("const float *x, int n, float alpha", [X, N, ALPHA]),
        ("const uint4 *x, unsigned n", [X, N]),
        ("const T *x, T alpha", [X, ALPHA]),
        ("float *x", [X, constant("mask", (3,))]),
        ("unsigned short b", [arg("b", (), "bfloat16")]),
        ("HIDDEN", [X, N]),
        ("float *x, MORE(int n, int m)", [X, N, N]),
        ("void *x, T *x2, float4 *x3, const unsigned char *x4, char x5[16]", [X, X, X, X, X]),
        ("unsigned *x, int16_t *x2, __half *x3, half2 *x4", [arg("x", (4,), "float16")] * 4),
        ("const int *x, int8_t *x2, uint64_t *x3", [arg("x", (16,), "int8")] * 3),
        ("unsigned x[2][2], float (*x2)[4]", [arg("x", (4,), "int32"), X]),
        ("bool *x, uint8_t *x2", [arg("x", (4,), "bool")] * 2),
        ("uint16_t *x", [arg("x", (4,), "bfloat16")]),
    ],
)
def test_what_fits_or_may_fit_passes(parameters, args):
    named = [
        a if isinstance(a, Constant) else arg(f"{a.name}{i}", a.shape, a.dtype)
        for i, a in enumerate(args)
    ]
    assert mismatch(parameters, named) is None


@pytest.mark.parametrize(
    ("parameters", "args", "message"),
    [
        (
            "float *x, int n",
            [X],
            "entry 'f': expected 1 parameters ('x': address of float32[4]), the source takes 2 "
            "(float *x, int n)",
        ),
        (
            "void",
            [X, N],
            "entry 'f': expected 2 parameters ('x': address of float32[4], 'n': int32 by value), "
            "the source takes 0 (none)",
        ),
        (
            "float *x, float count",
            [X, N],
            "entry 'f': parameter 2, `float count`: expected 'n': int32 by value, got float32 by "
            "value",
        ),
        (
            "float *x, const int *n",
            [X, N],
            "entry 'f': parameter 2, `const int *n`: expected 'n': int32 by value, got an "
            "address; an array of one element is arg('n', (1,), 'int32')",
        ),
        (
            "float x",
            [X],
            "entry 'f': parameter 1, `float x`: expected 'x': address of float32[4], got float32 "
            "by value; a number is arg('x', (), 'float32')",
        ),
        (
            "const double *x",
            [X],
            "entry 'f': parameter 1, `const double *x`: expected 'x': address of float32[4], got "
            "an address of float64; if other elements are meant to be seen there, take a `void *` "
            "and cast it",
        ),
        (
            "long n",
            [N],
            "entry 'f': parameter 1, `long n`: expected 'n': int32 by value, got int64 by value",
        ),
    ],
)
@pytest.mark.parametrize("language", ["c", "cuda"])
def test_what_does_not_fit_is_told_with_both_sides(parameters, args, message, language):
    assert mismatch(parameters, args, language) == message


@pytest.mark.parametrize(
    ("parameter", "dtype"),
    [
        ("float *restrict x", "float64"),
        ("const int *x", "float32"),
        ("int *x", "int64"),
        ("long x[]", "int32"),
        ("__half *x", "float32"),
        ("__half *x", "bfloat16"),
        ("short *x", "int32"),
        ("T *x", "float32"),
    ],
)
@pytest.mark.parametrize("language", ["c", "cuda"])
def test_an_address_of_other_elements_does_not_fit(parameter, dtype, language):
    told = mismatch(parameter, [arg("x", (4,), dtype)], language, "typedef double T;\n")
    assert f"expected 'x': address of {dtype}[4], got an address of " in told


def test_an_address_may_be_passed_again_in_place_of_an_argument_that_is_not_there():
    source = "void f(const float *x, double *unused) {}"
    for names, fits in ((["x", "x"], True), (["y", "x"], False)):
        args = [X, arg("y", (4,), role="out")]
        kernel = SourceKernel("f", source, args, calls=[call("f", names)]).kernel("c")
        assert (signature_mismatch(kernel) is None) == fits


def test_a_struct_by_value_is_told_to_be_taken_apart():
    text = "{} __global__ void f(P p, float *y) {{}}"
    made = [arg("a", ()), arg("n", (), "int32"), arg("y", (8,), role="out")]
    told = []
    for own in ["struct P { float a; int n; };", "typedef struct { float a; int n; } P;", ""]:
        kernel = SourceKernel("f", text.format(own), made, block=8).kernel("cuda")
        told.append(signature_mismatch(kernel))
    assert told[0].endswith(
        "the source takes 2 (P p, float *y); structs are not passed by value: take their members"
    )
    assert told[1:] == [None, None]  # what P may be a macro for is left to the compiler


def test_each_call_is_checked():
    source = "void f(float *x) {} void g(float *x, int n) {}"
    calls = [call("f", ["x"]), call("g", ["n", "x"])]
    kernel = SourceKernel("both", source, [X, N], calls=calls).kernel("c")
    assert signature_mismatch(kernel).startswith(
        "entry 'g': parameter 1, `float *x`: expected 'n'"
    )


@pytest.mark.parametrize("entry", ["f(", "f;", "1f", "f<4", "f<{}>", 'f<"">', "f<1>\nx"])
def test_what_cannot_be_the_name_of_an_entry_is_refused(entry):
    with pytest.raises(KernelError, match="expected the name of a C function, or an instance"):
        SourceKernel("k", "...", [X], calls=[call(entry, ["x"])]).kernel("cuda")


def test_c_has_no_templates():
    with pytest.raises(KernelError, match="'f<4>' is not the name of a C function"):
        SourceKernel("f<4>", "...", [X]).kernel("c")


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("__constant__ float mask[4];", "float32"),
        ("#define N 4\n__constant__ double mask[N];\nvoid f() { y[0] = mask[0]; }", "float64"),
        ("static const unsigned mask[2][2];", "uint32"),
        ("void g() {}\n__constant__ __align__(16) int mask[4];", "int32"),
        ("typedef short real;\nextern real mask [4];", "int16"),
        ("__constant__ float *mask[4];", ADDRESS),
        ("__constant__ T mask[4];\nvoid f() { float a = mask[0]; return mask[1]; }", ""),
        ("int mask[4];\nvoid f() { float mask[2]; }", "int32"),
        ("T mask[4];\nvoid f() { float mask[2]; int g = mask[1]; }", ""),
        ("#if A\nint mask[4];\n#else\nfloat mask[4];\n#endif", ""),
        ("namespace n { __constant__ long long mask = 4; }", "int64"),
        ("float g = 2, mask[4];", ""),
        ("// int mask[4];\nfloat mask[4];", "float32"),
        ("float unmask[4]; float4 mask[1];", ""),
        ('extern "C" float mask[4];', "float32"),
    ],
)
def test_the_kind_of_an_array_is_read_from_its_declaration(source, kind):
    assert element_kind(source, "mask") == kind


@pytest.mark.parametrize(
    ("declared", "dtype", "fits"),
    [("int m[4]", "float32", False), ("double m[2]", "float32", False),
     ("float m[4]", "int32", False), ("unsigned m[4]", "int32", True),
     ("float m[4]", "float32", True),
     ("unsigned short m[4]", "float16", True), ("unsigned char m[4]", "bool", True),
     ("float4 m[1]", "float32", True)],
)  # fmt: skip
def test_a_constant_of_another_type_is_refused(declared, dtype, fits):
    source = f'__constant__ {declared}; extern "C" __global__ void f(float *y) {{}}'
    args = [constant("m", (4,), dtype), arg("y", (1,), role="out")]
    wrong = signature_mismatch(SourceKernel("f", source, args).kernel("cuda"))
    assert (wrong is None) == fits
    assert fits or wrong.startswith(f"constant 'm': expected an array of {dtype}, the source has")


@pytest.mark.parametrize("before", ["", "a", "x.", "p->", "ns_"])
def test_only_a_whole_name_begins_a_definition(before):
    source = f"int {before}run(int n) {{ return n; }}\nvoid run(float* a) {{}}"
    found = [source.index("{", at) + 1 for at in (0, source.index("void"))]
    assert body_starts(source, "run") == (found if not before else found[1:])
