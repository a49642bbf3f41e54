"""Inline PTX does in the emulator what it does on a device, as `tests/gpu` compares too."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.emulator.inline_ptx import statements, with_ptx
from autotune.emulator.precompiled import INCLUDE
from autotune.errors import DeviceError
from tests.emulator.ptx_kernels import KERNELS, Ptx

ROOT = Path(__file__).parents[2]
TABLE = (INCLUDE / "emulator" / "ptx_table.h").read_text()
KNOWN = re.findall(r'^      \{"([^"]+)",', TABLE, re.MULTILINE)
FILES = [*(ROOT / "templates" / "kernels").rglob("*.*"), *(ROOT / "autotune").rglob("*.py")]
# Those of CPUs have no functions of a device.
TEXTS = [path for path in FILES if re.search(r"__device__[^$]*\basm\b", path.read_text())]


def instructions(path):
    """Yield the instructions of asm statements as regular expressions; of macros, any text."""
    source = path.read_text()
    yield from re.findall(r'#define \w+ "(mma[\w.:]+)', source)
    for one in statements(source):
        words = re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_]+)', one.parts[0])
        text = "".join(string if not name else "\0" for string, name in words)
        text = re.sub(r"\{(\w+)\}", "\0", text.replace("\\n", "\n"))
        for line in re.split(r"[;\n]", text):
            word = re.sub(r"^[\s{}]*(?:@!?\w+\s+)?", "", line)
            word = re.split("[ {]", word)[0]
            if word and not word.startswith((".reg", "\0")):
                yield re.escape(word).replace("\0", r"[\w.*]*")


# CRC-32 of the words that each kernel writes, as an H200 computed them.
ON_A_DEVICE = {
    "tensors": 182328113,
    "ldmatrix-x1": 3084509815,
    "ldmatrix-x2": 2630152269,
    "ldmatrix-x4": 3123517677,
    "ldmatrix-x1-trans": 2314995007,
    "ldmatrix-x2-trans": 1745792620,
    "ldmatrix-x4-trans": 2380310015,
    "stmatrix-x1": 2422745100,
    "stmatrix-x2": 2211827123,
    "stmatrix-x4": 960465448,
    "stmatrix-x1-trans": 961478542,
    "stmatrix-x2-trans": 958987878,
    "stmatrix-x4-trans": 3928861696,
    "movmatrix": 3793181983,
    "mma-f16": 1132510006,
    "mma-bf16": 1132510006,
    "mma-tf32": 2203223932,
    "mma-s8": 290920043,
    "mma-u8": 4102988933,
    "max": 2810009958,
    "min": 4286379272,
    "to-half": 3819763820,
    "to-bfloat": 518352002,
    "to-halves": 859429100,
    "to-bfloats": 616011488,
    "to-tf32": 2822297526,
    "logic": 1773637210,
    "permute": 1148174482,
    "extract": 1608294255,
    "extract-signed": 1694426545,
    "insert": 403053879,
    "funnel-left": 2707686781,
    "funnel-right": 3028405920,
    "min-halves": 1142164367,
    "widen-half": 3959969897,
    "named-barriers": 3547978460,
    "elect": 1228533026,
    "special-registers": 3131521660,
    "copies": 1782249653,
    "copies-of-no-group": 2042952317,
    "bulk-copy": 4128338498,
    "cluster": 3520531543,
}


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_an_instruction_computes_what_a_device_did(name):
    case = KERNELS[name]
    a, b = case.arrays()
    run_emulated(case.source().kernel("cuda"), [a, b], (0, 5))
    assert zlib.crc32(b[b != 0xFFFFFFFF].tobytes()) == ON_A_DEVICE[name]


@pytest.mark.parametrize(
    ("name", "function"), [("exp2", np.exp2), ("reciprocal", np.reciprocal)], ids=["exp2", "rcp"]
)
def test_an_approximation_is_near_what_it_approximates(name, function):
    a, b = KERNELS[name].arrays()
    run_emulated(KERNELS[name].source().kernel("cuda"), [a, b], (0,))
    x = a.view("float32")
    with np.errstate(all="ignore"):
        wanted = function(np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x))
    wanted = np.where(np.abs(wanted) < 2.0**-126, 0, wanted)
    np.testing.assert_allclose(b.view("float32"), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("exp2-whole", np.exp2),
        ("reciprocal-whole", np.reciprocal),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("sqrt", np.sqrt),
    ],
    ids=["exp2", "rcp", "rsqrt", "sqrt"],
)
def test_an_approximation_without_ftz_keeps_the_smallest_numbers(name, function):
    a, b = KERNELS[name].arrays()
    run_emulated(KERNELS[name].source().kernel("cuda"), [a, b], (0,))
    with np.errstate(all="ignore"):
        wanted = function(a.view("float32"))
    np.testing.assert_allclose(b.view("float32"), wanted, rtol=1e-6)


@pytest.mark.parametrize(("name", "function"), [("lg2", np.log2), ("tanh", np.tanh)])
def test_logarithms_and_tangents_are_those_of_the_host(name, function):
    body = f"""
  float y;
  asm("{name}.approx.f32 %0, %1;" : "=f"(y) : "f"(__uint_as_float(a[t])));
  b[t] = __float_as_uint(y);"""
    case = Ptx(body, "floats", block=64)
    a, b = case.arrays()
    run_emulated(case.source().kernel("cuda"), [a, b], (0,))
    with np.errstate(all="ignore"):
        wanted = function(a[:64].view("float32"))
    np.testing.assert_allclose(b[:64].view("float32"), wanted, rtol=1e-6, atol=1e-7)


APPROXIMATIONS = {"exp2", "reciprocal", "exp2-whole", "reciprocal-whole", "rsqrt", "sqrt"}


def test_every_kernel_of_instructions_is_compared():
    assert {*ON_A_DEVICE, *APPROXIMATIONS} == set(KERNELS)


def is_known(instruction):
    """Return whether an instruction is in the table, where `*` stands for digits."""
    pattern = re.sub(r"\d+", r"(?:\g<0>|\\*)", instruction)
    return any(re.fullmatch(pattern, name) for name in KNOWN)


def test_the_emulator_knows_all_instructions_of_our_kernels():
    used = {(path.name, one) for path in TEXTS for one in instructions(path)}
    assert len(used) > 70
    assert not is_known(r"mma\.sync\.aligned\.m8n8k4\.row\.col\.f64\.f64\.f64\.f64")
    unknown = sorted((name, one) for name, one in used if not is_known(one))
    assert not unknown, "add them to autotune/emulator/include/emulator/ptx_table.h"


def run(body, block=64, **changes):
    case = Ptx(body, block=block, **changes)
    a, b = case.arrays()
    run_emulated(case.source().kernel("cuda"), [a, b], (0,))
    return b


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'if (t < 32) asm volatile("bar.sync 1, 64;");',
            "deadlock .* warp 0 waits .* lacks 32 of",
        ),
        (
            'if (t < 32) asm volatile("bar.sync 1, 64;");\nelse asm volatile("bar.sync 1, 32;");',
            "arrives at barrier 1 with 32 threads .* and others .* with 64",
        ),
        ('asm volatile("bar.sync 1, 40;");', "of 40 threads .* expected .* whole warps"),
        ('asm volatile("bar.sync 16;");', "names barrier 16"),
        ('asm volatile("setmaxnreg.inc.sync.aligned.u32 250;");', "asks for 250 registers"),
        (
            "__shared__ int s[4]; unsigned w;\n"
            'asm volatile("ld.shared::cluster.v4.f32 {%0, %0, %0, %0}, [%1];" '
            ': "=r"(w) : "r"(place(s) + 4));',
            "accesses 16 bytes in inline PTX at .* not aligned",
        ),
        (
            "__shared__ __align__(16) int s[32];\n"
            'asm volatile("cp.async.cg.shared.global [%0], [%1], 8, %2;" '
            ':: "r"(place(s)), "l"(a), "r"(8));',
            "copies 8 of 8 bytes .*cp.async.cg",
        ),
        ('asm volatile("cvt.rn.f16.f32.relu %0, %0;" : "+r"(*(int*)b));', "not know `cvt.rn.f16"),
    ],
    ids=[
        *("few-arrivals", "two-counts", "part-of-a-warp", "no-such-barrier", "registers"),
        *("unaligned", "cg-of-8", "unknown-suffix"),
    ],
)
def test_what_a_device_leaves_undefined_is_an_error(body, message):
    with pytest.raises(DeviceError, match=f"(?s){message}"):
        run(body)


@pytest.mark.parametrize(
    "text",
    [
        "mov.b32 {%0, %1}, %2;",
        "mov.b32 %0, {%1, %2};",
        "{.reg .pred p, q; setp.ne.u32 p|q, %2, 0;}",
        "@!p mov.b32 %0, %2;",
        "mbarrier.arrive.shared::cta.b64 _, [%2], 2;",
    ],
    ids=["unpack", "pack", "two-predicates", "no-such-predicate", "two-arrivals"],
)
def test_operands_of_which_the_emulator_knows_no_meaning_are_an_error(text):
    with pytest.raises(DeviceError, match=r"does not know `(mov|setp|mbarrier)\S+` .* as it is"):
        run(f'int x, y; asm volatile("{text}" : "=r"(x), "=r"(y) : "r"(a[t])); b[t] = x + y;')


def test_a_text_may_have_many_instructions_comments_and_names_with_percent_signs():
    body = """
    unsigned x = 1;
    asm volatile("{ .reg .pred %%p; // not zero\\n" /* : and ( */
                 "setp.ne.u32 %%p, %1, 0;" MOVES "@%%p mov.b32 %0, 7; }"
                 : "+r"(x)  // : what is written (
                 : "r"(t) : "memory");
    b[t] = x;"""
    moves = '#define MOVES "' + "mov.b32 %0, %1;" * 9 + '"\n'
    np.testing.assert_array_equal(run(body, constants=moves)[:64], [0] + [7] * 63)


def test_asm_statements_keep_their_lines_in_macros_and_with_strings_that_have_colons():
    source = """
#define ADD(x, y) \\
  asm volatile("add :: %0" \\
               : "+r"(x) \\
               : "r"(y ? 1 : 2) \\
               : "memory")
asm("nop;");
asm volatile("" ::: "memory");
__asm __volatile ("" ::: "memory");
int asm_count;
"""
    assert (
        with_ptx(source)
        == """
#define ADD(x, y) \\
  emulator::ptx("add :: %0" \\
               , { emulator::ptx_out(x) \\
               }, { emulator::ptx_in(y ? 1 : 2) \\
               })
emulator::ptx("nop;");
emulator::ptx("" , {}, {});
emulator::ptx("" , {}, {});
int asm_count;
"""
    )
