"""Second derivatives of functions whose first are other special functions, and of products of what is zero, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from ops_oracle import to_ours, to_torch

POSITIVE = [0.3, 0.9, 1.7, 3.2, 9.5]
FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], list[float]]] = {
    "lgamma": (lambda t, x: t.lgamma(x), [*POSITIVE, -0.4, -1.3]),
    "digamma": (lambda t, x: t.digamma(x), [*POSITIVE, -0.4, -1.3]),
    "polygamma": (lambda t, x: t.polygamma(1, x), POSITIVE),
    "mvlgamma": (lambda t, x: t.mvlgamma(x + 1, 2), POSITIVE),
    "erf": (lambda t, x: t.erf(x), POSITIVE),
    "erfinv": (lambda t, x: t.erfinv(x / 10), POSITIVE),
    "log_ndtr": (lambda t, x: t.special.log_ndtr(x), POSITIVE),
    "xlogy": (lambda t, x: t.xlogy(x, x + 1), POSITIVE),
    "logit": (lambda t, x: t.logit(x / 10), POSITIVE),
    "i0": (lambda t, x: t.special.i0(x), POSITIVE),
    "i1e": (lambda t, x: t.special.i1e(x), POSITIVE),
    "sinc": (lambda t, x: t.sinc(x), POSITIVE),
    "prod": (lambda t, x: x.prod().reshape(1), POSITIVE),
    "prod with a zero": (lambda t, x: x.prod().reshape(1), [0.0, 2.0, 3.0, 4.0]),
    "prod with two zeros": (lambda t, x: x.prod().reshape(1), [0.0, 0.0, 3.0, 4.0]),
    "prod with three zeros": (lambda t, x: x.prod().reshape(1), [0.0, 0.0, 0.0, 4.0]),
    "cumprod with zeros": (lambda t, x: x.cumprod(0), [2.0, 0.0, 3.0, 0.0, 4.0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str, device: str) -> None:
    function, numbers = FUNCTIONS[name]
    kind = torch.float64 if device == "cpu" else torch.float32
    x = torch.tensor(numbers, dtype=kind)
    seed = torch.arange(1.0, len(numbers) + 1, dtype=kind)

    def second(library: Any, x: Any, seed: Any) -> tuple[Any, Any]:
        result = function(library, x)
        (first,) = library.autograd.grad((result * seed[: len(result)]).sum(), x, create_graph=True)
        return first.detach(), library.autograd.grad((first * seed).sum(), x)[0]

    wanted = second(torch, x.clone().requires_grad_(), seed)
    found = second(ours, to_ours(x, device).requires_grad_(), to_ours(seed, device))
    rtol = 1e-7 if device == "cpu" else 1e-3
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(to_torch(one), other, rtol=rtol, atol=rtol)


#: linear functions of a matrix: what comes back depends on what is sent, and on nothing else
LINEAR: dict[str, Callable[[Any, Any], Any]] = {
    "diag": lambda t, x: t.diag(x, 1),
    "diag of a vector": lambda t, x: t.diag(x[0]),
    "diagonal": lambda t, x: x.diagonal(-1),
    "diagonal_copy": lambda t, x: t.diagonal_copy(x),
    "diag_embed": lambda t, x: t.diag_embed(x),
    "trace": lambda t, x: x.trace().reshape(1),
    "select_scatter": lambda t, x: t.select_scatter(x, x[0] * 2, 0, 1),
    "diagonal_scatter": lambda t, x: t.diagonal_scatter(x, x[0]),
    "as_strided_scatter": lambda t, x: t.as_strided_scatter(t.ones_like(x), x[:2, :2].contiguous(), (2, 2), (3, 1)),
    "cov": lambda t, x: t.cov(x),
    "corrcoef": lambda t, x: t.corrcoef(x),
}


@pytest.mark.parametrize("name", LINEAR)
def test_gradients_of_what_is_sent_back(name: str, device: str) -> None:
    """The gradient of a gradient by the gradient that it was made of: where it is missing, products of Hessians are wrong."""
    kind = torch.float64 if device == "cpu" else torch.float32
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0], [2.0, 1.0, 1.0]], dtype=kind)

    def second(library: Any, x: Any) -> tuple[Any, Any, Any]:
        result = LINEAR[name](library, x)
        sent = (
            (library.arange(result.numel(), dtype=x.dtype, device=x.device) + 1).reshape(result.shape).requires_grad_()
        )
        (back,) = library.autograd.grad(result, x, sent, create_graph=True)
        by_sent, by_x = library.autograd.grad((back**2).sum(), (sent, x), allow_unused=True)
        return back.detach(), by_sent, x.detach() * 0 if by_x is None else by_x

    wanted = second(torch, x.clone().requires_grad_())
    found = second(ours, to_ours(x, device).requires_grad_())
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(to_torch(one), other, rtol=1e-4, atol=1e-4)
