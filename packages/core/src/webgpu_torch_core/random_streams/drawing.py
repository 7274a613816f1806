"""Draws of a distribution that is told by its name: what devices are asked for."""

from __future__ import annotations

from array import array
from typing import Any

from ..ir.dtypes import dtype
from ..ir.host_bytes import unpack
from . import counts, gamma
from .distributions import (
    encode,
    fill_bernoulli,
    fill_cauchy,
    fill_exponential,
    fill_geometric,
    fill_integers,
    fill_log_normal,
    fill_multinomial,
    fill_normal,
    fill_permutation,
    fill_uniform,
    normal_doubles,
)
from .streams import MersenneTwister


def draw(kind: str, generator: MersenneTwister, count: int, element: dtype, first: Any, second: Any) -> array[Any]:
    """Return ``count`` draws of a distribution by name: what :meth:`~webgpu_torch_core.backend.interface.Device.draw` returns.

    ``first`` and ``second`` are the bounds of ``uniform`` and ``integers``, mean and standard deviation of ``normal``
    (and of ``normal_pairs``, drawn as fewer than 16 are) and of the logarithms of ``log_normal``, median and scale of ``cauchy``,
    the probability of ``bernoulli`` and ``geometric`` and the rate of ``exponential``; of ``permutation`` neither counts. Where each draw has
    an argument of its own, ``first`` is host bytes: probabilities of type ``second`` for ``bernoulli_of``, rates for
    ``poisson``, numbers of trials for ``binomial`` (``second``: their probabilities), concentrations for ``gamma``, and for
    ``multinomial`` weights, of which there are ``second``: rows, samples a row, with replacement or not. Errors as the ``fill_*`` functions.
    """
    if kind == "permutation":
        return fill_permutation(generator, count)
    if kind == "bernoulli_of":
        return fill_bernoulli(generator, count, unpack(first, second), element, second)
    if kind == "multinomial":
        rows, samples, replacement = second
        return fill_multinomial(generator, unpack(first, element), rows, samples, replacement, element)
    if kind == "poisson":
        return counts.fill_poisson(generator, unpack(first, element), element)
    if kind == "binomial":
        return counts.fill_binomial(generator, unpack(first, element), unpack(second, element), element)
    if kind == "gamma":
        return gamma.fill_gamma(generator, unpack(first, element), element)
    if kind == "uniform":
        return fill_uniform(generator, count, element, first, second)
    if kind == "normal":
        return fill_normal(generator, count, element, first, second)
    if kind == "normal_pairs":
        return encode(normal_doubles(generator, count, first, second), element)
    if kind == "bernoulli":
        return fill_bernoulli(generator, count, first, element)
    if kind == "integers":
        return fill_integers(generator, count, first, second, element)
    if kind == "log_normal":
        return fill_log_normal(generator, count, element, first, second)
    if kind == "cauchy":
        return fill_cauchy(generator, count, element, first, second)
    if kind == "geometric":
        return fill_geometric(generator, count, element, first)
    return fill_exponential(generator, count, element, first)
