"""Element types that PyTorch's kernels have not are refused in its words, and those that they have are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
INTEGERS = ("uint8", "int8", "int16", "int32")
#: what is computed of a type where PyTorch refuses it, or refused in other words
OTHERWISE = {
    "local_response_norm": ("complex64",),
    "interpolate linear": TYPES,
    "interpolate nearest": TYPES,
    "conv_transpose2d": INTEGERS,
    "igamma": ("complex64",),
    "igammac": ("complex64",),
    "histogram": ("bool", "complex64"),
    "histogramdd": ("bool", "complex64"),
    "index_reduce": ("complex64",),
    "rrelu": ("complex64",),
    "scaled_dot_product_attention": ("complex64",),
}
SPECIAL = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "erfcx", "log_ndtr", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "ndtri", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
)  # fmt: skip
OF_DEGREES = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "zeta",
)  # fmt: skip
#: calls of a library and of what makes its tensors of ones of a shape
Call = Callable[[Any, Callable[..., Any]], Any]
CALLS: dict[str, Call] = {
    "cdist": lambda t, of: t.cdist(of(3, 2), of(4, 2)),
    "pdist": lambda t, of: t.nn.functional.pdist(of(3, 2)),
    "conv2d": lambda t, of: t.nn.functional.conv2d(of(1, 2, 5, 5), of(3, 2, 2, 2)),
    "conv3d": lambda t, of: t.nn.functional.conv3d(of(1, 2, 3, 3, 3), of(3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda t, of: t.nn.functional.conv_transpose2d(of(1, 2, 5, 5), of(2, 3, 2, 2)),
    "avg_pool3d": lambda t, of: t.nn.functional.avg_pool3d(of(1, 2, 4, 4, 4), 2),
    "local_response_norm": lambda t, of: t.nn.functional.local_response_norm(of(1, 4, 4), 2),
    "pad reflect": lambda t, of: t.nn.functional.pad(of(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "pad replicate": lambda t, of: t.nn.functional.pad(of(1, 2, 4), (1, 1), mode="replicate"),
    "unfold": lambda t, of: t.nn.functional.unfold(of(1, 2, 4, 4), 2),
    "fold": lambda t, of: t.nn.functional.fold(of(1, 8, 9), (4, 4), 2),
    "interpolate nearest": lambda t, of: t.nn.functional.interpolate(of(1, 2, 4), scale_factor=2),
    "interpolate linear": lambda t, of: t.nn.functional.interpolate(of(1, 2, 4), scale_factor=2, mode="linear"),
    "multi_margin_loss": lambda t, of: t.nn.functional.multi_margin_loss(of(3, 4), t.tensor([0, 1, 2])),
    "multilabel_margin_loss": lambda t, of: t.nn.functional.multilabel_margin_loss(of(3, 4), t.zeros(3, 4).long()),
    "linear": lambda t, of: t.nn.functional.linear(of(3, 4), of(2, 4), of(2)),
    "rrelu": lambda t, of: t.nn.functional.rrelu(of(3), training=True),
    "scaled_dot_product_attention": lambda t, of: t.nn.functional.scaled_dot_product_attention(*[of(1, 2, 3, 4)] * 3),
    "igamma": lambda t, of: t.igamma(of(3), of(3)),
    "igammac": lambda t, of: t.igammac(of(3), of(3)),
    "polar": lambda t, of: t.polar(of(3), of(3)),
    "histogram": lambda t, of: t.histogram(of(3), 3),
    "histogramdd": lambda t, of: t.histogramdd(of(3, 2), [3, 3]),
    "index_reduce": lambda t, of: of(3).index_reduce(0, t.tensor([0, 1]), of(2), "prod"),
    "native_batch_norm": lambda t, of: t.native_batch_norm(of(3, 2), None, None, None, None, True, 0.1, 1e-5),
    "gradient": lambda t, of: t.gradient(of(5)),
    **{name: lambda t, of, name=name: getattr(t.special, name)(of(3)) for name in SPECIAL},
    **{name: lambda t, of, name=name: getattr(t.special, name)(of(3), of(3)) for name in OF_DEGREES},
}


def refusal(library: Any, call: Call, kind: str) -> tuple[type[Exception], str] | None:
    """Return what a call raises for tensors of a type, None where it computes."""
    with library.device("cpu"):
        try:
            call(library, lambda *shape: library.ones(shape).to(getattr(library, kind)))
        except Exception as error:
            return type(error), str(error).splitlines()[0]
    return None


@pytest.mark.parametrize("name", CALLS)
def test_types_are_refused_in_pytorch_s_words(name: str) -> None:
    otherwise = OTHERWISE.get(name, ())
    for kind in TYPES:
        expected, found = (refusal(each, CALLS[name], kind) for each in (torch, ours))
        if kind not in otherwise:
            assert found == expected, kind
        # What PyTorch computes is computed, whatever is else.
        assert expected is not None or found is None, kind
        if otherwise is TYPES:
            assert (found is None) == (expected is None), kind
