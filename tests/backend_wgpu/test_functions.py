"""The WGSL helper functions, run on every adapter present, against float64, PyTorch's float32 and Python's integers."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator

import pytest
import torch
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.functions import FUNCTIONS, prelude
from webgpu_torch_backend_wgpu.functions.conversion import PACKED_HALVES
from webgpu_torch_backend_wgpu.gpu.interface import Gpu
from webgpu_torch_backend_wgpu.gpu.native import NativeRuntime
from webgpu_torch_backend_wgpu.numerics import evaluate, numerics_table
from webgpu_torch_core.ir.threefry import threefry4x32

Unary = Callable[[torch.Tensor], torch.Tensor]

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-30, -1e-30, 1e30, -1e30, 3.4e38, -3.4e38]
SPECIAL += [1.5, -1.5, 2.5, -2.5, 88.9, -88.9, 16777216.0, -16777217.0, 2147483648.0, math.inf, -math.inf, math.nan]
COUNT = 30000


@pytest.fixture(scope="module")
def device(webgpu: None) -> Iterator[Gpu]:
    """Yield the first adapter, opened with 64-bit integers where it has them."""
    runtime = NativeRuntime()
    adapter = runtime.adapters(lambda each: True)[0]
    made = runtime.open(adapter, [each for each in ("shader-int64",) if each in adapter.features])
    yield made
    made.close()


def run(device: Gpu, name: str, *columns: torch.Tensor, kinds: str = "f32", result: str = "f32") -> bytes:
    """Apply one function to columns of values of the given WGSL types (space-separated, the last one repeating)."""
    names = kinds.split()
    names += [names[-1]] * (len(columns) - len(names))
    inputs = [(kind, column.contiguous().numpy().tobytes()) for kind, column in zip(names, columns, strict=True)]
    expression = f"{name}({', '.join('abcd'[: len(columns)])})"
    if result == "bool":
        expression, result = f"select(0u, 1u, {expression})", "u32"
    return evaluate(device, expression, inputs, result, [name], columns[0].shape[0])


def run_f32(device: Gpu, name: str, *columns: torch.Tensor) -> torch.Tensor:
    """Apply a float function to float32 columns."""
    return torch.frombuffer(bytearray(run(device, name, *columns)), dtype=torch.float32)


def spacing(value: torch.Tensor) -> torch.Tensor:
    """Return the distance of float32 numbers at each float64 value."""
    return torch.ldexp(torch.ones_like(value), (torch.frexp(value)[1].clamp(min=-125) - 24))


def ulp_errors(got: torch.Tensor, expected: torch.Tensor, floor: torch.Tensor | float = 0.0) -> torch.Tensor:
    """Return errors in ULP of ``max(|expected|, floor)``; subnormal results may be zero."""
    wide = got.double()
    scale = expected.abs().maximum(torch.as_tensor(floor, dtype=torch.float64)).clamp(max=3.4e38)
    error = (wide.clamp(-3.5e38, 3.5e38) - expected.clamp(-3.5e38, 3.5e38)).abs() / spacing(scale)
    both_large = (wide.abs() >= 3.4028e38) & (expected.abs() >= 3.4028e38) & (wide.sign() == expected.sign())
    both_tiny = (wide.abs() <= 1.17550e-38) & (expected.abs() <= 1.17550e-38)
    same = both_large | both_tiny | (wide.isnan() & expected.isnan())
    return torch.where(same, 0.0, error.nan_to_num(math.inf))


def spread(low: float, high: float, seed: int = 1, count: int = COUNT) -> torch.Tensor:
    """Return float32 points of [low, high]: uniform, crowded to zero, and any bit pattern inside that is normal."""
    generator = torch.Generator().manual_seed(seed)
    uniform = low + (high - low) * torch.rand(count // 3, generator=generator, dtype=torch.float64)
    shrink = 10.0 ** (-9 * torch.rand(count // 3, generator=generator, dtype=torch.float64))
    patterns = torch.randint(-(2**31), 2**31, (count,), generator=generator, dtype=torch.int64).to(torch.int32)
    points = torch.cat([uniform.float(), (uniform * shrink).float(), patterns.view(torch.float32)])
    inside = (points >= low) & (points <= high) & (points.abs() >= 1.2e-38)
    return points[inside][:count]


sinpi: Unary = lambda x: torch.sin(math.pi * (x - 2 * torch.round(x / 2)))  # noqa: E731

# Function, float64 reference, interval.
UNARY: list[tuple[str, Unary, float, float]] = [
    ("exp", torch.exp, -104.0, 89.0),
    ("exp2", torch.exp2, -150.0, 129.0),
    ("expm1", torch.expm1, -90.0, 89.0),
    ("log", torch.log, 0.0, 3.4e38),
    ("log", torch.log, 0.5, 2.0),
    ("log2", torch.log2, 0.0, 3.4e38),
    ("log2", torch.log2, 0.5, 2.0),
    ("log10", torch.log10, 0.0, 3.4e38),
    ("log10", torch.log10, 0.5, 2.0),
    ("log1p", torch.log1p, -1.0, 4.0),
    ("log1p", torch.log1p, -0.999, 3.4e38),
    ("sin", torch.sin, -7.0, 7.0),
    ("sin", torch.sin, -20000.0, 20000.0),
    ("sin", torch.sin, -3.4e38, 3.4e38),
    ("cos", torch.cos, -7.0, 7.0),
    ("cos", torch.cos, -20000.0, 20000.0),
    ("cos", torch.cos, -3.4e38, 3.4e38),
    ("tan", torch.tan, -7.0, 7.0),
    ("tan", torch.tan, -20000.0, 20000.0),
    ("tan", torch.tan, -3.4e38, 3.4e38),
    ("sinh", torch.sinh, -90.0, 90.0),
    ("cosh", torch.cosh, -90.0, 90.0),
    ("tanh", torch.tanh, -12.0, 12.0),
    ("asinh", torch.asinh, -10.0, 10.0),
    ("asinh", torch.asinh, -3.4e38, 3.4e38),
    ("acosh", torch.acosh, 1.0, 10.0),
    ("acosh", torch.acosh, 1.0, 3.4e38),
    ("atanh", torch.atanh, -1.0, 1.0),
    ("asin", torch.asin, -1.0, 1.0),
    ("acos", torch.acos, -1.0, 1.0),
    ("atan", torch.atan, -5.0, 5.0),
    ("atan", torch.atan, -3.4e38, 3.4e38),
    ("sigmoid", torch.sigmoid, -90.0, 90.0),
    ("sqrt", torch.sqrt, 0.0, 3.4e38),
    ("rsqrt", torch.rsqrt, 0.0, 3.4e38),
    ("reciprocal", torch.reciprocal, -3.4e38, 3.4e38),
    ("sinpi", sinpi, -100.0, 100.0),
    ("sinc", lambda x: sinpi(x) / (math.pi * x), -100.0, 100.0),
    ("erf", torch.erf, -5.0, 5.0),
    ("erfc", torch.erfc, -5.0, 10.0),
    ("erfinv", torch.erfinv, -0.99999994, 0.99999994),
    ("i0", torch.special.i0, -92.0, 92.0),
    ("i0e", torch.special.i0e, -1e6, 1e6),
    ("i0e", torch.special.i0e, -20.0, 20.0),
    ("i1", torch.special.i1, -92.0, 92.0),
    ("i1e", torch.special.i1e, -1e6, 1e6),
    ("i1e", torch.special.i1e, -20.0, 20.0),
    ("lgamma", torch.lgamma, 0.0, 4e36),
    ("lgamma", torch.lgamma, 0.0, 20.0),
    ("digamma", torch.digamma, 0.0, 20.0),
    ("digamma", torch.digamma, 0.0, 3.4e38),
]


@pytest.mark.parametrize(("name", "reference", "low", "high"), UNARY, ids=[f"{c[0]}-{c[3]:g}" for c in UNARY])
def test_unary_accuracy(device: Gpu, name: str, reference: Unary, low: float, high: float) -> None:
    x = spread(low, high)
    errors = ulp_errors(run_f32(device, f"wt_{name}", x), reference(x.double()))
    worst = int(errors.argmax())
    bound = FUNCTIONS[f"wt_{name}"].accuracy
    assert bound is not None
    assert errors[worst] <= bound, f"wt_{name}({x[worst].item()!r}) is off by {errors[worst].item():.3g} ULP"


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_of_negative_arguments(device: Gpu, name: str) -> None:
    x = spread(-30.0, -1e-6)
    x = x[x != x.floor()]
    reference = getattr(torch, name)
    floor = reference(1 - x.double()).abs().clamp(min=math.pi if name == "digamma" else 1.0)
    if name == "digamma":
        x, floor = x[(x - x.round()).abs() > 1e-4], floor[(x - x.round()).abs() > 1e-4]
    errors = ulp_errors(run_f32(device, f"wt_{name}", x), reference(x.double()), floor)
    assert errors.max() <= FUNCTIONS[f"wt_{name}"].accuracy, x[errors.argmax()]


def test_pow_accuracy(device: Gpu) -> None:
    bound = FUNCTIONS["wt_pow"].accuracy
    for low, high, span in ((0.0, 3.4e38, 3.0), (0.5, 2.0, 120.0), (0.99, 1.01, 8000.0), (0.001, 100.0, 18.0)):
        x, y = spread(low, high, 3), spread(-span, span, 4)
        size = min(len(x), len(y))
        x, y = x[:size], y[:size]
        errors = ulp_errors(run_f32(device, "wt_pow", x, y), x.double().pow(y.double()))
        worst = errors.argmax()
        assert errors[worst] <= bound, (x[worst], y[worst], errors[worst])
    x, y = -spread(0.01, 30.0, 5)[:5000], torch.arange(-12.0, 13.0).repeat(200)
    assert ulp_errors(run_f32(device, "wt_pow", x, y), x.double().pow(y.double())).max() <= bound


BinaryCase = tuple[str, Callable[..., torch.Tensor], float, float, bool]
BINARY: list[BinaryCase] = [
    ("atan2", torch.atan2, -5.0, 5.0, False),
    ("atan2", torch.atan2, -3.4e38, 3.4e38, False),
    ("hypot", torch.hypot, -3.4e38, 3.4e38, False),
    ("hypot", torch.hypot, -10.0, 10.0, False),
    ("divide", torch.div, -3.4e38, 3.4e38, False),
    ("divide_exact", torch.div, -3.4e38, 3.4e38, False),
    ("divide_exact", torch.div, -100.0, 100.0, False),
    ("logaddexp", torch.logaddexp, -100.0, 100.0, True),
    ("logaddexp2", torch.logaddexp2, -100.0, 100.0, True),
    ("xlogy", torch.xlogy, 1e-9, 100.0, False),
    ("xlog1py", torch.special.xlog1py, 1e-9, 100.0, False),
]


@pytest.mark.parametrize("case", BINARY, ids=lambda case: f"{case[0]}-{case[3]:g}")
def test_binary_accuracy(device: Gpu, case: BinaryCase) -> None:
    name, reference, low, high, cancels = case
    x, y = spread(low, high, 6), spread(low, high, 7)
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    floor = torch.maximum(x.abs(), y.abs()).clamp(min=1.0).double() if cancels else 0.0
    errors = ulp_errors(run_f32(device, f"wt_{name}", x, y), reference(x.double(), y.double()), floor)
    worst = errors.argmax()
    assert errors[worst] <= FUNCTIONS[f"wt_{name}"].accuracy, (x[worst], y[worst], errors[worst])


def assert_like_torch(
    got: torch.Tensor, expected: torch.Tensor, label: object, signs: bool = True, atol: float = 1.3e-38
) -> None:
    """Compare special cases: NaN for NaN, infinities and signs of zero alike, values close."""
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=atol, equal_nan=True, msg=lambda m: f"{label}: {m}")
    if signs:
        known = ~expected.isnan()
        assert torch.equal(got.signbit()[known], expected.signbit()[known]), (label, got, expected)


EDGES_UNARY: dict[str, Unary] = {
    name: getattr(torch, name)
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asinh acosh atanh asin acos atan sigmoid sqrt "
        "rsqrt reciprocal erf erfc erfinv lgamma digamma sign abs round trunc"
    ).split()
} | {
    # In float32 PyTorch overflows where exp(x) does, before the Bessel functions do.
    "i0": lambda x: torch.special.i0(x.double()).float(),
    "i1": lambda x: torch.special.i1(x.double()).float(),
    "i0e": torch.special.i0e,
    "i1e": torch.special.i1e,
}


@pytest.mark.parametrize("name", EDGES_UNARY)
def test_unary_special_values(device: Gpu, name: str) -> None:
    x = torch.tensor(SPECIAL)
    signs = name not in ("lgamma", "i1", "i1e")
    assert_like_torch(run_f32(device, f"wt_{name}", x), EDGES_UNARY[name](x), name, signs)


def exact_fmod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """PyTorch's own float32 ``fmod`` is NaN where the quotient is huge; C's is exact."""
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    known = [math.fmod(a, b) if b and not math.isinf(a) else math.nan for a, b in pairs]
    return torch.tensor(known)


def exact_remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rest = exact_fmod(x, y)
    return torch.where((rest != 0) & (rest.signbit() != y.signbit()), rest + y, rest)


EDGES_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    name: getattr(torch, name)
    for name in (
        "pow atan2 hypot floor_divide copysign nextafter fmax fmin maximum minimum logaddexp logaddexp2 xlogy"
    ).split()
} | {
    "fmod": exact_fmod,
    "remainder": exact_remainder,
    "xlog1py": torch.special.xlog1py,
    "divide": torch.div,
    "divide_exact": torch.div,
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", EDGES_BINARY)
def test_binary_special_values(device: Gpu, name: str) -> None:
    values = torch.tensor(SPECIAL)
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    # The sign of max(0, -0) is nobody's promise; PyTorch's sums of logarithms may give either zero.
    signs = name not in ("fmax", "fmin", "maximum", "minimum", "logaddexp", "logaddexp2", "xlogy", "xlog1py")
    got, expected = run_f32(device, f"wt_{name}", x, y), EDGES_BINARY[name](x, y)
    assert_like_torch(got, expected, name, signs, atol=1e-7 if name == "logaddexp2" else 1.3e-38)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide", "trunc_divide"])
def test_remainders_are_exact(device: Gpu, name: str) -> None:
    wide, narrow = spread(-1e6, 1e6, 8), spread(-50.0, 50.0, 9)
    size = min(len(wide), len(narrow))
    whole = torch.randint(-1000, 1000, (5000,), generator=torch.Generator().manual_seed(2)).float()
    x = torch.cat([wide[:size], whole * 3, spread(-3.4e38, 3.4e38, 12)[:1000]])
    y = torch.cat([narrow[:size], whole.flip(0), spread(-3.4e38, 3.4e38, 13)[:1000]])
    expected = EDGES_BINARY[name](x, y)
    torch.testing.assert_close(run_f32(device, f"wt_{name}", x, y), expected, rtol=0, atol=1.3e-38, equal_nan=True)


def test_fused_multiplication_and_addition_rounds_once(device: Gpu) -> None:
    x, y = spread(-50.0, 50.0, 21), spread(-1e6, 1e6, 22)
    size = min(len(x), len(y))
    x, y = x[:size].repeat(2), y[:size].repeat(2)
    near = -(x[:size] * y[:size]) * (1 + torch.randn(size, generator=torch.Generator().manual_seed(5)) * 1e-6)
    z = torch.cat([near, spread(-1e4, 1e4, 23)[:size]])
    x, y, z = x[: len(z)], y[: len(z)], z
    expected = (x.double() * y.double() + z.double()).float()
    got = run_f32(device, "wt_fused", x, y, z)
    # What is lost of products below 1e-25 would itself be lost.
    torch.testing.assert_close(got, expected, rtol=1.2e-7, atol=1e-31)
    assert not torch.equal(x * y + z, expected)
    values = torch.tensor(SPECIAL)
    others = values.flip(0)
    got = run_f32(device, "wt_fused", values, others, torch.ones_like(values))
    assert_like_torch(got, (values.double() * others.double() + 1).float(), "fused")


@pytest.mark.parametrize("packed", [False, True])
def test_rounding_to_half(device: Gpu, packed: bool) -> None:
    exponents = torch.arange(-40, 24).float().repeat_interleave(200)
    drawn = torch.randn(len(exponents), generator=torch.Generator().manual_seed(3)) * exponents.exp2()
    halves = torch.arange(65536).to(torch.int32).to(torch.uint16).view(torch.float16).float()
    # Every number of float16, what lies in the middle of two and the float32 numbers next to that.
    finite = halves[halves.isfinite()].sort().values
    middle = ((finite[1:].double() + finite[:-1].double()) / 2).float()
    x = torch.cat(
        [
            drawn,
            halves,
            middle,
            torch.nextafter(middle, drawn[:1]),
            torch.nextafter(middle, -drawn[:1]),
            torch.tensor(SPECIAL),
        ]
    )
    x = torch.cat([x, torch.tensor([65519.996, 65520.0, -65520.0, -65519.996, 1e-45])])
    expected = x.half()
    instead = {each.name: each for each in PACKED_HALVES} if packed else None
    data = [("f32", x.numpy().tobytes())]
    rounded = evaluate(device, "wt_half_rounded(a)", data, "f32", ["wt_half_rounded"], len(x), instead)
    bits = evaluate(device, "wt_f32_to_f16_bits(a)", data, "u32", ["wt_f32_to_f16_bits"], len(x), instead)
    assert_like_torch(torch.frombuffer(bytearray(rounded), dtype=torch.float32), expected.float(), "rounded")
    found = torch.frombuffer(bytearray(bits), dtype=torch.int32).to(torch.int16).view(torch.float16)
    assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_bit_tests_and_parts(device: Gpu) -> None:
    x = torch.tensor(SPECIAL)
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        got = torch.frombuffer(bytearray(run(device, f"wt_{name}", x, result="bool")), dtype=torch.int32).bool()
        known = ~x.isnan() if name == "signbit" else torch.ones_like(got)
        assert torch.equal(got[known], getattr(torch, name)(x)[known]), name
    x = torch.cat([x, spread(-3.4e38, 3.4e38)])
    mantissa, exponent = torch.frexp(x)
    assert_like_torch(run_f32(device, "wt_frexp_mantissa", x), mantissa, "frexp")
    got = torch.frombuffer(bytearray(run(device, "wt_frexp_exponent", x, result="i32")), dtype=torch.int32)
    assert torch.equal(got, exponent)
    whole = torch.randint(-300, 300, x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    got = torch.frombuffer(bytearray(run(device, "wt_ldexp", x, whole, kinds="f32 i32")), dtype=torch.float32)
    assert_like_torch(got, (x.double() * torch.exp2(whole.double())).float(), "ldexp", signs=False)


def test_clamp_passes_nan_on(device: Gpu) -> None:
    x = torch.tensor(SPECIAL)
    got = run_f32(device, "wt_clamp", x, torch.full_like(x, -0.75), torch.full_like(x, 1.25))
    assert_like_torch(got, x.clamp(-0.75, 1.25), "clamp")


def test_sixteen_bit_floats(device: Gpu) -> None:
    ties = torch.tensor([65504.0, 65519.0, 65520.0, 2.0**-25, 1.5 * 2.0**-25, 2.0**-24, 1 + 2.0**-11, 1 + 3 * 2.0**-11])
    x = torch.cat([torch.tensor(SPECIAL), ties, -ties, spread(-70000.0, 70000.0), spread(-3.4e38, 3.4e38)])
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        bits = torch.frombuffer(bytearray(run(device, f"wt_f32_to_{name}_bits", x, result="u32")), dtype=torch.int32)
        assert int(bits.max()) <= 0xFFFF and int(bits.min()) >= 0
        got = bits.to(torch.int16).view(dtype)
        expected = x.to(dtype)
        assert torch.equal(got.isnan(), x.isnan())
        assert torch.equal(got[~x.isnan()].view(torch.int16), expected[~x.isnan()].view(torch.int16)), name
        every = torch.arange(65536, dtype=torch.int32)
        data = run(device, f"wt_{name}_bits_to_f32", every, kinds="u32")
        widened = torch.frombuffer(bytearray(data), dtype=torch.float32)
        assert_like_torch(widened, every.to(torch.int16).view(dtype).float(), name, signs=False)


def test_float_to_integer(device: Gpu) -> None:
    x = torch.cat([torch.tensor([*SPECIAL, -2147483648.0, 2147483520.0]), spread(-3e9, 3e9)])
    got = torch.frombuffer(bytearray(run(device, "wt_f32_to_i32", x, result="i32")), dtype=torch.int32)
    assert torch.equal(got, x.to(torch.int32))
    got = torch.frombuffer(bytearray(run(device, "wt_f32_to_u32", x, result="u32")), dtype=torch.int32)
    assert torch.equal(got, x.to(torch.int64).to(torch.int32))


def integer_pairs(dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pairs of integers of all sizes, with the extremes against each other; no zero divisors."""
    width = torch.iinfo(dtype).bits
    source = random.Random(seed)
    edges = [1, -1, 2, -2, 7, -7, 2 ** (width - 1) - 1, -(2 ** (width - 1))]
    edges += [2 ** (width // 2), -(2 ** (width // 2)) + 1]
    pairs = [(a, b) for a in [0, *edges] for b in edges]
    for _ in range(3000):
        a, b = (source.getrandbits(width) - 2 ** (width - 1) >> source.randrange(width) for _ in range(2))
        pairs.append((a, b or 1))
    columns = list(zip(*pairs, strict=True))
    return torch.tensor(columns[0], dtype=dtype), torch.tensor(columns[1], dtype=dtype)


def wrap(value: int, width: int) -> int:
    return (value + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_power(a: int, b: int) -> int:
    if b < 0:
        return 1 if a == 1 else (-1) ** (b & 1) if a == -1 else 0
    return pow(a, b, 2**64)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "trunc_divide": truncated,
    "fmod": lambda a, b: a - truncated(a, b) * b,
    "remainder": lambda a, b: a % b,
    "floor_divide": lambda a, b: a // b,
    "pow": integer_power,
    "gcd": math.gcd,
    "lcm": math.lcm,
}


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_signed_integers(device: Gpu, kind: str) -> None:
    if kind == "i64" and "shader-int64" not in device.features:
        pytest.skip("the adapter has no shader-int64")
    width, dtype = (32, torch.int32) if kind == "i32" else (64, torch.int64)
    x, y = integer_pairs(dtype, 5)
    for name, reference in INTEGER.items():
        got = torch.frombuffer(bytearray(run(device, f"wt_{name}_{kind}", x, y, kinds=kind, result=kind)), dtype=dtype)
        expected = [wrap(reference(a, b), width) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        if name == "lcm":
            expected = [wrap(abs(value), width) for value in expected]
        assert got.tolist() == expected, name
    count = torch.arange(len(x), dtype=dtype) % (width + 8) - 4
    for name, shifted in (("shift_left", x << count), ("shift_right", x >> count)):
        data = run(device, f"wt_{name}_{kind}", x, count, kinds=kind, result=kind)
        assert torch.equal(torch.frombuffer(bytearray(data), dtype=dtype), shifted), name
    for name, expected in (("abs", x.abs()), ("sign", x.sign())):
        data = run(device, f"wt_{name}_{kind}", x, kinds=kind, result=kind)
        assert torch.equal(torch.frombuffer(bytearray(data), dtype=dtype), expected), name
    zero = torch.zeros_like(x)
    for name in list(INTEGER)[:4]:
        data = run(device, f"wt_{name}_{kind}", x, zero, kinds=kind, result=kind)
        assert torch.equal(torch.frombuffer(bytearray(data), dtype=dtype), x), name


def test_unsigned_integers(device: Gpu) -> None:
    x, y = integer_pairs(torch.int32, 6)
    a, b = (torch.tensor([v % 2**32 for v in column.tolist()]) for column in (x, y))
    cases = {
        "divide": a // b,
        "remainder": a % b,
        "pow": torch.tensor([pow(p, q, 2**32) for p, q in zip(a.tolist(), b.tolist(), strict=True)]),
        "shift_left": torch.tensor([p << min(q, 32) & 0xFFFFFFFF for p, q in zip(a.tolist(), b.tolist(), strict=True)]),
        "shift_right": torch.tensor([p >> min(q, 32) for p, q in zip(a.tolist(), b.tolist(), strict=True)]),
    }
    for name, expected in cases.items():
        data = run(device, f"wt_{name}_u32", x, y, kinds="u32", result="u32")
        got = torch.frombuffer(bytearray(data), dtype=torch.int32)
        assert torch.equal(got.long() % 2**32, expected), name


EMULATED: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "div": truncated,
    "rem": INTEGER["fmod"],
    "remainder": INTEGER["remainder"],
    "floor_divide": INTEGER["floor_divide"],
    "pow": integer_power,
    "neg": lambda a, _: -a,
    "not": lambda a, _: ~a,
    "abs": lambda a, _: abs(a),
    "sign": lambda a, _: (a > 0) - (a < 0),
}


@pytest.mark.parametrize("name", EMULATED)
def test_emulated_int64(device: Gpu, name: str) -> None:
    x, y = integer_pairs(torch.int64, 7)
    columns = (x,) if name in ("neg", "not", "abs", "sign") else (x, y)
    result = "bool" if name in ("lt", "le", "eq") else "vec2<u32>"
    data = bytearray(run(device, f"wt_i64_{name}", *columns, kinds="vec2<u32>", result=result))
    got = torch.frombuffer(data, dtype=torch.int32 if result == "bool" else torch.int64)
    expected = [wrap(int(EMULATED[name](a, b)), 64) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert got.tolist() == expected


def test_emulated_int64_shifts_and_conversions(device: Gpu) -> None:
    x, _ = integer_pairs(torch.int64, 8)
    count = (torch.arange(len(x)) % 72).int()
    for name, expected in (("shl", x << count.long()), ("shr", x >> count.long())):
        data = run(device, f"wt_i64_{name}", x, count, kinds="vec2<u32> u32", result="vec2<u32>")
        assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.int64), expected), name
    small = x.int()
    data = run(device, "wt_i64_from_i32", small, kinds="i32", result="vec2<u32>")
    assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.int64), small.long())
    data = run(device, "wt_i64_to_i32", x, kinds="vec2<u32>", result="i32")
    assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.int32), small)
    data = run(device, "wt_i64_to_f32", x, kinds="vec2<u32>", result="f32")
    assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.float32), x.float())
    values = torch.cat([torch.tensor(SPECIAL), spread(-1.2e19, 1.2e19), spread(-1e6, 1e6)])
    data = run(device, "wt_i64_from_f32", values, result="vec2<u32>")
    assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.int64), values.long())
    data = run(device, "wt_i64_div", x, torch.zeros_like(x), kinds="vec2<u32>", result="vec2<u32>")
    assert torch.equal(torch.frombuffer(bytearray(data), dtype=torch.int64), x)


def test_threefry(device: Gpu) -> None:
    chance = torch.Generator().manual_seed(3)
    words = torch.randint(-(2**31), 2**31, (40, 8), generator=chance).to(torch.int32)
    inputs = [("vec4<u32>", words[:, part].contiguous().numpy().tobytes()) for part in (slice(4), slice(4, 8))]
    data = evaluate(device, "wt_threefry(a, b)", inputs, "vec4<u32>", ["wt_threefry"], len(words))
    for number, row in enumerate(words.tolist()):
        unsigned = [each & 0xFFFFFFFF for each in row]
        expected = threefry4x32(tuple(unsigned[:4]), tuple(unsigned[4:]))
        assert struct.unpack_from("4I", data, 16 * number) == expected


def test_prelude_orders_dependencies(device: Gpu) -> None:
    text = prelude(["wt_tanh", "wt_exp"])
    assert text == prelude(["wt_exp", "wt_tanh", "wt_exp"])
    places = [text.index(f"fn wt_{name}(") for name in ("scale", "exp_scaled", "exp", "tanh")]
    assert places == sorted(places)
    assert "wt_sin" not in text
    for name, function in FUNCTIONS.items():
        assert name in function.source
        assert set(function.requires) <= set(FUNCTIONS)
        assert function.accuracy is None or function.accuracy >= 0.5
    with pytest.raises(KeyError, match="wt_missing"):
        prelude(["wt_missing"])


def test_numerics_table_holds_its_bounds(device: Gpu) -> None:
    rows = numerics_table(device, 512)
    assert {"sin", "pow", "log", "atan2"} <= {row.name for row in rows}
    for row in rows:
        assert row.own_error <= row.bound, row


def test_the_table_of_numerics_is_printed(webgpu: None) -> None:
    lines = WgpuBackend().numerics().splitlines()
    assert len(lines) > 20
    assert any(line.startswith("exp: built-in") for line in lines)
