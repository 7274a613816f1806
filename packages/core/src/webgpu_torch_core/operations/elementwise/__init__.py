"""Element-wise operations, one family per file; every operation of every family is found here by its name."""

from __future__ import annotations

from collections.abc import Callable

from ...tensors.tensor import Tensor
from . import (
    activation,
    arithmetic,
    bessel,
    comparison,
    exponential,
    gamma,
    gamma_sample_derivatives,
    number_parts,
    polynomials,
    probability,
    rounding,
)

_FAMILIES = (
    activation, arithmetic, bessel, comparison, exponential, gamma, gamma_sample_derivatives, number_parts, polynomials,
    probability, rounding,
)  # fmt: skip

globals().update(
    {name: each for family in _FAMILIES for name, each in vars(family).items() if hasattr(each, "operation")}
)


def __getattr__(name: str) -> Callable[..., Tensor]:
    # For type checkers: the names above are not written out.
    raise AttributeError(f"no family of element-wise operations has '{name}'")
