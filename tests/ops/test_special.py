"""torch.special and its kin agree with PyTorch: ordinary and extreme arguments, gradients, promotion, in-place forms."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import compare, to_ours, to_torch
from webgpu_torch_core.operations.in_place import functions as in_place_functions

EXTREME = [0.0, -0.0, 1.0, -1.0, 0.5, -4.0, 8.0, -8.0, 1e-6, 20.0, -20.0, 100.0, 1000.0, math.inf, -math.inf, math.nan]
UNARY = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv",
    "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr", "logit", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "spherical_bessel_j0",
]  # fmt: skip
POLYNOMIALS = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]  # fmt: skip


def arguments(kind: torch.dtype) -> torch.Tensor:
    spread = torch.cat([torch.linspace(-10, 10, 81), torch.linspace(0, 1, 41), torch.linspace(0, 40, 61)])
    return torch.cat([torch.tensor(EXTREME), spread]).to(kind)


def kinds(device: str) -> list[torch.dtype]:
    return [torch.float32, torch.float64] if device == "cpu" else [torch.float32]


def check(name: str, device: str, *values: Any) -> None:
    """Compare with PyTorch's result; its result in double precision will do as well."""
    operands = [to_ours(each, device) if isinstance(each, torch.Tensor) else each for each in values]
    wide = [each.double() if isinstance(each, torch.Tensor) else each for each in values]
    oracle = getattr(torch.special, name, None) or getattr(torch, name)
    ours = getattr(core.special, name, None) or getattr(core, name)
    expected = oracle(*values)
    exact = oracle(*wide).to(expected.dtype)
    actual = to_torch(ours(*operands))
    assert actual.dtype is expected.dtype
    # PyTorch's own double-precision Bessel and Airy functions are good to some six digits.
    limits = {"rtol": 1.3e-6, "atol": 1e-5} if actual.dtype is torch.float32 else {"rtol": 1e-6, "atol": 3e-6}
    close = torch.isclose(actual, expected, equal_nan=True, **limits)
    close |= torch.isclose(actual, exact, equal_nan=True, **limits)
    wrong = (~close).nonzero().reshape(-1)[:5]
    shown = [(*(each.reshape(-1)[i].item() for each in values if isinstance(each, torch.Tensor) and each.numel() > 1),
              actual.reshape(-1)[i].item(), expected.reshape(-1)[i].item()) for i in wrong.tolist()]  # fmt: skip
    assert not len(wrong), f"{name} {actual.dtype}: (arguments, ours, PyTorch's) {shown}"


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, device: str) -> None:
    for kind in kinds(device):
        check(name, device, arguments(kind))


@pytest.mark.parametrize("name", ["erfcx", "i0", "bessel_j0", "ndtr"])
@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.uint8])
def test_integers_become_floats(name: str, kind: torch.dtype, device: str) -> None:
    check(name, device, torch.arange(6).to(kind))


def test_quantiles_of_small_probabilities(device: str) -> None:
    check("ndtri", device, torch.tensor([1e-38, 1e-30, 1e-10, 1e-4, 0.1353, 0.1354, 0.5, 0.864, 0.865, 0.999999]))


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str, device: str) -> None:
    x = torch.tensor([-7.3, -2.2, -1.0, -0.8, -0.1, 0.0, 0.3, 0.5, 0.97, 1.0, 1.5, 4.0])[:, None]
    degrees = torch.tensor([-3.0, 0.0, 0.5, 1.0, 2.0, 3.9, 5.0, 7.0, 9.0, 13.0])
    check(name, device, x, degrees)
    for degree in (-1, 0, 1, 6):
        check(name, device, x, degree)
    check(name, device, torch.arange(5), 3)


def test_degrees_beyond_the_recurrence(device: str) -> None:
    x = torch.tensor([-1.05, -1.0, -0.6, 0.2, 1.0, 1.02])[:, None]
    degrees = torch.tensor([31.0, 40.0, 57.0])
    for name in (
        "chebyshev_polynomial_t",
        "chebyshev_polynomial_u",
        "chebyshev_polynomial_v",
        "chebyshev_polynomial_w",
    ):
        ours = to_torch(getattr(core.special, name)(to_ours(x, device), to_ours(degrees, device)))
        exact = getattr(torch.special, name)(x.double(), degrees.double())
        torch.testing.assert_close(ours.double(), exact, rtol=2e-4, atol=2e-4)
    high = core.special.hermite_polynomial_h(core.ones(2, device=device), core.tensor([40.0, 41.0], device=device))
    assert [math.isnan(each) for each in high.tolist()] == [False, True]
    check("legendre_polynomial_p", device, torch.tensor([0.3, 0.9]), 60)


@pytest.mark.parametrize("name", ["zeta", "xlog1py", "xlogy", "gammainc", "gammaincc"])
def test_binary(name: str, device: str) -> None:
    first = torch.tensor([-3.0, -0.5, 0.0, 1e-4, 0.5, 1.0, 2.0, 3.0, 8.5, 30.0, 99.0, 101.0, 400.0, math.inf, math.nan])
    second = torch.tensor(
        [-8.5, -1.0, 0.0, 1e-4, 0.7, 1.0, 2.5, 9.0, 29.0, 98.0, 105.0, 380.0, 450.0, math.inf, math.nan]
    )
    for kind in kinds(device):
        check(name, device, first.to(kind)[:, None], second.to(kind))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_polygamma(order: int, device: str) -> None:
    x = torch.tensor([-4.5, -0.3, 0.0, 0.1, 1.0, 2.5, 9.0, 40.0])
    check_orders = torch.special.polygamma(order, x)
    exact = torch.special.polygamma(order, x.double()).float()
    ours = to_torch(core.special.polygamma(order, to_ours(x, device)))
    close = torch.isclose(ours, check_orders, 1.3e-6, 1e-5) | torch.isclose(ours, exact, 1.3e-6, 1e-5)
    assert close.all(), (order, ours, check_orders)
    with pytest.raises(RuntimeError, match="negative n"):
        core.polygamma(-1, core.ones(1, device=device))


GRADIENTS: list[tuple[str, Any]] = [
    *((name, lambda t, x, name=name: getattr(t.special, name)(x)) for name in (
        "entr", "erfcx", "erfinv", "expit", "gammaln", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "ndtri", "psi", "sinc",
    )),
    ("polygamma", lambda t, x: t.polygamma(2, x)),
    ("mvlgamma", lambda t, x: t.mvlgamma(x + 2, 3)),
    ("zeta", lambda t, x: t.special.zeta(x.detach() * 0 + 3, x)),
    ("xlog1py", lambda t, x: t.special.xlog1py(x, x)),
    ("gammainc", lambda t, x: t.special.gammainc(x.detach() * 4, x)),
    ("gammaincc", lambda t, x: t.special.gammaincc(x.detach() * 4, x)),
    ("frexp", lambda t, x: t.frexp(x * 9).mantissa),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), GRADIENTS)
def test_gradients(name: str, function: Any, device: str) -> None:
    x = torch.tensor([0.03, 0.2, 0.45, 0.6, 0.93], requires_grad=True)
    ours = to_ours(x, device)
    function(torch, x).sum().backward()
    function(core, ours).sum().backward()
    compare(ours.grad, x.grad, where=name)


def test_gradients_of_bessel_functions(device: str) -> None:
    x = torch.tensor([0.3, 1.7, 4.0, 9.5], dtype=torch.float64)
    for name in (
        "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
        "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
        "spherical_bessel_j0",
    ):  # fmt: skip
        oracle = getattr(torch.special, name)
        ours = to_ours(x.float().requires_grad_(), device)
        getattr(core.special, name)(ours).sum().backward()
        slope = (oracle(x + 1e-4) - oracle(x - 1e-4)) / 2e-4
        torch.testing.assert_close(to_torch(ours.grad).double(), slope, rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_divisors(kind: torch.dtype, device: str) -> None:
    a = torch.tensor([0, 0, 12, -12, 7, 100, 35, -9]).abs_().to(kind) if kind is torch.uint8 else None
    a = torch.tensor([0, 0, 12, -12, 7, 100, 35, -9]).to(kind) if a is None else a
    b = torch.tensor([0, 5, 18, 18, 7, 75, 12, 6]).to(kind)
    for name in ("gcd", "lcm"):
        compare(getattr(core, name)(to_ours(a, device), to_ours(b, device)), getattr(torch, name)(a, b))
        compare(getattr(to_ours(a, device), f"{name}_")(to_ours(b, device)), getattr(torch, name)(a, b))
    with pytest.raises(NotImplementedError, match="gcd"):
        core.gcd(core.ones(2, device=device), core.ones(2, device=device))


def test_large_divisors(device: str) -> None:
    a, b = torch.tensor([2**62, 3 * 2**40, -(7**20)]), torch.tensor([2**45, 9 * 2**30, 7**9])
    compare(core.gcd(to_ours(a, device), to_ours(b, device)), torch.gcd(a, b))


def test_fraction_and_exponent(device: str) -> None:
    powers = 2.0 ** torch.arange(-120.0, 127.0)
    x = torch.cat([arguments(torch.float32), powers, -powers * 1.9999999, torch.tensor([3e38])])
    compare(tuple(core.frexp(to_ours(x, device))), tuple(torch.frexp(x)))
    with pytest.raises(RuntimeError, match="floating-point"):
        core.frexp(core.arange(3, device=device))


def test_steps_and_signs(device: str) -> None:
    x = arguments(torch.float32)
    half = torch.full_like(x, 0.5)
    compare(core.heaviside(to_ours(x, device), to_ours(half, device)), torch.heaviside(x, half))
    for name in ("isposinf", "isneginf"):
        compare(getattr(core, name)(to_ours(x, device)), getattr(torch, name)(x))
        compare(getattr(core, name)(core.arange(3, device=device)), getattr(torch, name)(torch.arange(3)))
    with pytest.raises(RuntimeError, match="different dtypes"):
        core.heaviside(core.ones(2, device=device), core.ones(2, dtype=core.int64, device=device))


def test_forms(device: str) -> None:
    x = torch.tensor([[0.5, 1.5], [2.5, 3.5]])
    expected = torch.special.i0(x)
    ours = to_ours(x, device)
    compare(ours.i0(), expected)
    compare(core.special.i0(ours.t()), expected.t())
    out = core.empty(2, 2, device=device)
    assert core.special.i0(ours, out=out) is out
    compare(out, expected)
    compare(ours.clone().i0_(), expected)
    compare(ours.clone().igamma_(ours), torch.igamma(x, x))
    compare(ours.clone().polygamma_(2), torch.polygamma(2, x))
    compare(core.special.i0(core.empty(0, 3, device=device)), torch.special.i0(torch.empty(0, 3)))
    compare(core.special.zeta(3.0, ours), torch.special.zeta(3.0, x))
    compare(core.special.multigammaln(ours + 1, 3), torch.special.multigammaln(x + 1, 3))
    compare(core.special.softmax(ours, 1), torch.special.softmax(x, 1))
    compare(core.special.log_softmax(ours, 0), torch.special.log_softmax(x, 0))
    compare(core.special.logsumexp(ours, 0), torch.special.logsumexp(x, 0))
    compare(core.fill(ours, 3), torch.fill(x, 3))


def test_the_namespace_is_torch_special() -> None:
    hidden = {"Tensor", "common_args", "multi_dim_common", "torch"}
    theirs = {name for name in dir(torch.special) if not name.startswith("_")} - hidden
    assert theirs == set(core.special.__all__)


NUMBERS = {
    "maximum": lambda t, x: t.maximum(x, 2),
    "maximum first": lambda t, x: t.maximum(2, x),
    "atan2": lambda t, x: t.atan2(x, 1.0),
    "logical_and": lambda t, x: t.logical_and(x, True),
    "ldexp": lambda t, x: t.ldexp(x, 2),
    "heaviside": lambda t, x: t.heaviside(x, 2),
    "gcd": lambda t, x: t.gcd(x.long(), 2),
    "isclose": lambda t, x: t.isclose(x, 2),
    "isclose tolerance": lambda t, x: t.isclose(x, x, rtol=-1),
    "nextafter": lambda t, x: t.nextafter(x, 2),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_where_tensors_belong(name: str) -> None:
    messages = []
    for library, x in ((core, core.ones(2)), (torch, torch.ones(2))):
        with pytest.raises((TypeError, RuntimeError)) as caught:
            NUMBERS[name](library, x)
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]


def test_bits_of_floats_are_refused(device: str) -> None:
    with pytest.raises(NotImplementedError, match="bitwise_and"):
        core.ones(2, device=device) & core.ones(2, device=device)
    with pytest.raises(TypeError, match="clamp_min"):
        core.clamp_min(2, core.ones(2, device=device))


def test_in_place_operations_are_functions_too() -> None:
    for name in in_place_functions.NAMES:
        assert hasattr(torch, name), name
        assert getattr(core, name) is getattr(core.Tensor, name)
    x = core.tensor([-1.0, 2.0])
    assert core.relu_(x) is x
    compare(core.clamp_(x, max=1.5), torch.tensor([0.0, 1.5]))
    compare(core.logit_(core.tensor([0.3])), torch.logit(torch.tensor([0.3])))
    compare(core.lerp(x, x * 3, 0.25), torch.lerp(torch.tensor([0.0, 1.5]), torch.tensor([0.0, 4.5]), 0.25))
    assert not hasattr(core, "lerp_tensor_")
