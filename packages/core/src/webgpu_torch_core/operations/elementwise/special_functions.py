"""Functions of torch.special and their kin that choose between element-wise operations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import OPERATIONS, operation
from ...ir.dtypes import bfloat16, bool_, float16, int16, int32
from ...tensors.tensor import Tensor
from .. import elementwise as e
from .. import return_types
from ..common import attach, require_tensor, type_title
from ..in_place.writing import make_in_place
from ..neural import layers
from ..outputs import finish_out, into
from ..reduction.reductions import sum_to_size
from .call import default_float
from .choosing import where
from .polynomials import LARGEST_DEGREE
from .promotion import result_type

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("elementwise")
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next number that the element type has, after ``input`` towards ``other``."""
    require_tensor("nextafter", "input", 1, input)
    require_tensor("nextafter", "other", 2, other)
    kind = result_type(input, other)
    if (kind is float16 or kind is bfloat16) and input.numel() and other.numel():
        return into(_next_of_half(input.to(kind), other.to(kind)), out)
    return e.nextafter_(input, other, out=out)


def _next_of_half(input: Tensor, other: Tensor) -> Tensor:
    """Return the next 16-bit numbers: as integers in the order of the numbers, they are one apart."""

    def place(value: Tensor) -> Tensor:
        bits = value.detach().view(int16).to(int32)
        return where(bits < 0, -(bits & 0x7FFF), bits)

    first, second = place(input), place(other)
    moved = first + (second - first).sign()
    bits = where(moved < 0, -moved - 0x8000, moved).to(int16)
    result = where(first == second, other.detach(), bits.view(input.dtype))
    result = where(input.detach().isnan() | other.detach().isnan(), math.nan, result)
    saved = [each.detach() for each in (input, other)]

    def run_backward(grad: Tensor) -> tuple[Tensor, Tensor]:
        stays = saved[0] == saved[1]
        return sum_to_size(grad.masked_fill(stays, 0.0), saved[0].shape), grad.new_zeros(saved[1].shape)

    return attach(result, "NextafterBackward0", (input, other), run_backward)


Tensor.nextafter_ = make_in_place(nextafter, "nextafter_")  # type: ignore[attr-defined]
OPERATIONS["nextafter"].in_place = "nextafter_"


@operation("elementwise")
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 where ``input`` is negative, ``values`` where it is 0, 1 where it is positive.

    Raises:
        RuntimeError: the two have different element types.
    """
    require_tensor("heaviside", "input", 1, input)
    require_tensor("heaviside", "values", 2, values)
    if input.dtype.is_complex or values.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return finish_out(e.heaviside_(input, values), out, (input, values), exact=True)


def _require_integers(name: str, *operands: Any) -> None:
    require_tensor(name, "input", 1, operands[0])
    require_tensor(name, "other", 2, operands[1])
    kind = result_type(*operands)
    if kind.category != 1:
        what = "Bool" if kind.category == 0 else type_title(next(each for each in operands if isinstance(each, Tensor)))
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{what}'")


@operation("elementwise")
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor of integers, 0 of two zeros.

    Raises:
        NotImplementedError: the operands are no integers.
    """
    _require_integers("gcd", input, other)
    return finish_out(e.gcd_(input, other), out)


@operation("elementwise")
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of integers, 0 where either is 0.

    Raises:
        NotImplementedError: the operands are no integers.
    """
    _require_integers("lcm", input, other)
    return finish_out(e.lcm_(input, other), out)


@operation("elementwise")
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Any:
    """Mantissa in [0.5, 1) and int32 exponent of ``mantissa * 2**exponent``.

    Raises:
        RuntimeError: integers, which have no mantissa.
    """
    if input.dtype.category != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = e.frexp_mantissa_(input), e.frexp_exponent_(input)
    if out is not None:
        mantissa, exponent = finish_out(mantissa, out[0], (input,)), finish_out(exponent, out[1])
    return return_types.make("frexp", mantissa=mantissa, exponent=exponent)


@operation("elementwise", method=False)
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of digamma of order ``n``.

    Raises:
        RuntimeError: ``n`` is negative.
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return finish_out(e.digamma(input) if n == 0 else e.polygamma_(input, order=(int(n),)), out, (input,))


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The derivative of digamma of order ``n``."""
    return polygamma(n, self)


Tensor.polygamma = _polygamma_method  # type: ignore[attr-defined]


@operation("elementwise", title="MvlgammaBackward0")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The multivariate log-gamma function of dimension ``p``: ``log(pi) p (p - 1) / 4 + sum(lgamma(input - j / 2))``.

    Raises:
        RuntimeError: ``p`` is less than 1.
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    # As in PyTorch, whose terms lie side by side until they are summed, the rows of the result do.
    base = (input if input.dtype.category >= 2 else input.to(default_float[0])).contiguous()
    total = e.lgamma(base)
    for index in range(1, p):
        total = total + e.lgamma(base - index / 2)
    return finish_out(total + p * (p - 1) / 4 * math.log(math.pi), out)


for _name in ("heaviside", "gcd", "lcm", "mvlgamma"):
    setattr(Tensor, f"{_name}_", make_in_place(globals()[_name], f"{_name}_"))
Tensor.polygamma_ = make_in_place(_polygamma_method, "polygamma_")  # type: ignore[attr-defined]


# Polynomials whose degree, where it is one number, shapes the kernel


def _polynomial(name: str, core: Any, doc: str) -> None:
    def function(input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        if isinstance(n, Tensor):
            return finish_out(core(input, n), out, (input, n))
        return finish_out(core(input, n, degree=(int(n),)), out, (input,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} A tensor of degrees may hold degrees up to {LARGEST_DEGREE} (NaN for higher ones)."
    operation("elementwise", namespace="special")(function)


_polynomial("hermite_polynomial_h", e.hermite_h_, "The physicists' Hermite polynomial of degree ``n``.")
_polynomial("hermite_polynomial_he", e.hermite_he_, "The probabilists' Hermite polynomial of degree ``n``.")
_polynomial("laguerre_polynomial_l", e.laguerre_l_, "The Laguerre polynomial of degree ``n``.")
_polynomial("legendre_polynomial_p", e.legendre_p_, "The Legendre polynomial of degree ``n``.")


# What torch.special calls otherwise, or takes with other arguments


@operation("composite", namespace="special")
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension."""
    return layers.softmax(input, dim, dtype=dtype)


@operation("composite", namespace="special")
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of :func:`softmax`."""
    return layers.log_softmax(input, dim, dtype=dtype)
