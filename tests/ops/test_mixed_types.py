"""Operands of several element types: what PyTorch refuses is refused, what it takes has its type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "complex64")
ROW, TABLE = (3,), (2, 3)
CHANNELS = (2, 3, 4)
#: functions and the shapes of their operands
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "batch_norm": (lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b), [CHANNELS, ROW, ROW, ROW, ROW]),
    "batch_norm in training": (
        lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b, True), [CHANNELS, ROW, ROW, ROW, ROW],
    ),
    "batch_norm without statistics": (
        lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True), [CHANNELS, ROW, ROW],
    ),
    "instance_norm": (lambda t, x, w, b: t.nn.functional.instance_norm(x, None, None, w, b), [CHANNELS, ROW, ROW]),
    "layer_norm": (lambda t, x, w, b: t.nn.functional.layer_norm(x, (4,), w, b), [CHANNELS, (4,), (4,)]),
    "group_norm": (lambda t, x, w, b: t.nn.functional.group_norm(x, 3, w, b), [CHANNELS, ROW, ROW]),
    "conv1d": (lambda t, *a: t.nn.functional.conv1d(*a), [(2, 3, 5), (4, 3, 2), (4,)]),
    "conv_transpose1d": (lambda t, *a: t.nn.functional.conv_transpose1d(*a), [(2, 3, 5), (3, 4, 2), (4,)]),
    "bilinear": (lambda t, *a: t.nn.functional.bilinear(*a), [TABLE, (2, 4), (5, 3, 4), (5,)]),
    "mm": (lambda t, *a: t.mm(*a), [TABLE, (3, 2)]),
    "bmm": (lambda t, *a: t.bmm(*a), [(1, 2, 3), (1, 3, 2)]),
    "cross": (lambda t, *a: t.linalg.cross(*a), [ROW, ROW]),
    "cdist": (lambda t, *a: t.cdist(*a), [TABLE, (4, 3)]),
    "grid_sample": (lambda t, *a: t.nn.functional.grid_sample(*a, align_corners=False), [(1, 2, 3, 3), (1, 2, 2, 2)]),
    "attention": (lambda t, *a: t.nn.functional.scaled_dot_product_attention(*a), [(1, 2, 3, 4)] * 3),
    "masked attention": (
        lambda t, *a: t.nn.functional.scaled_dot_product_attention(*a), [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (3, 3)],
    ),
    "histc": (lambda t, x: x.histc(4), [ROW]),
    "isin": (lambda t, *a: t.isin(*a), [ROW, ROW]),
    "index_reduce": (lambda t, x, s: x.index_reduce(0, t.tensor([0, 1, 1]), s, "amax"), [ROW, ROW]),
    "mse_loss": (lambda t, *a: t.nn.functional.mse_loss(*a), [TABLE, TABLE]),
    "l1_loss": (lambda t, *a: t.nn.functional.l1_loss(*a), [TABLE, TABLE]),
    "smooth_l1_loss": (lambda t, *a: t.nn.functional.smooth_l1_loss(*a), [TABLE, TABLE]),
    "huber_loss": (lambda t, *a: t.nn.functional.huber_loss(*a), [TABLE, TABLE]),
    "kl_div": (lambda t, *a: t.nn.functional.kl_div(*a), [TABLE, TABLE]),
    "soft_margin_loss": (lambda t, *a: t.nn.functional.soft_margin_loss(*a), [TABLE, TABLE]),
    "hinge_embedding_loss": (lambda t, *a: t.nn.functional.hinge_embedding_loss(*a, reduction="sum"), [TABLE, TABLE]),
    "binary_cross_entropy": (lambda t, *a: t.nn.functional.binary_cross_entropy(*a), [TABLE, TABLE, TABLE]),
    "binary_cross_entropy_with_logits": (
        lambda t, *a: t.nn.functional.binary_cross_entropy_with_logits(*a), [TABLE, TABLE],
    ),
    "nll_loss": (lambda t, x, w: t.nn.functional.nll_loss(x, t.tensor([0, 1]), w), [TABLE, ROW]),
    "gaussian_nll_loss": (lambda t, *a: t.nn.functional.gaussian_nll_loss(*a), [TABLE, TABLE, TABLE]),
    "multilabel_margin_loss": (lambda t, *a: t.nn.functional.multilabel_margin_loss(*a), [TABLE, TABLE]),
}  # fmt: skip
#: taken here and refused by PyTorch on the CPU, whose kernels lack a type that other devices have, or that nobody can mistake
TAKEN = {
    "cdist": ("float16", "bfloat16"), "multilabel_margin_loss": ("float16", "bfloat16"), "attention": ("int64",),
    "masked attention": ("int64",),
}  # fmt: skip
#: refused here and taken by PyTorch where the processor multiplies 16-bit numbers, whose kernel converts a bias of another type
REFUSED = ("conv1d", "conv_transpose1d")


def _answer(library: Any, name: str, kinds: list[str]) -> Any:
    """Return the type of a function's result, or its error."""
    function, shapes = CASES[name]
    operands = [library.ones(shape, dtype=getattr(library, kind)) for shape, kind in zip(shapes, kinds, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(library, *operands)
            result.tolist()
        except Exception as error:
            return error
    return str(result.dtype)


def _check(name: str, kinds: list[str]) -> None:
    wanted, found = _answer(torch, name, kinds), _answer(ours, name, kinds)
    case = f"{name} of {kinds}: {found!r} instead of {wanted!r}"
    if isinstance(wanted, str):
        by_processor = (
            name in REFUSED and kinds[0] == kinds[1] and kinds[0] in ("float16", "bfloat16") and kinds[2] != kinds[0]
        )
        assert found == wanted or (by_processor and isinstance(found, RuntimeError)), case
    elif isinstance(found, str):
        assert any(kind in TAKEN.get(name, ()) for kind in kinds), case
    else:
        assert isinstance(found, RuntimeError) and isinstance(wanted, RuntimeError), case


@pytest.mark.parametrize("name", CASES)
def test_one_operand_of_another_type(name: str) -> None:
    count = len(CASES[name][1])
    for base in ("float32", "float16"):
        for place in range(count):
            for kind in TYPES:
                kinds = [base] * count
                kinds[place] = kind
                _check(name, kinds)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_operands_of_any_types(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    few = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    _check(name, [data.draw(st.sampled_from(few)) for _ in CASES[name][1]])


def test_words_of_types() -> None:
    x, y = ours.ones(2, 2), ours.ones(2, 2, dtype=ours.float64)
    with pytest.raises(RuntimeError, match="got: float != double"):
        x @ y
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        x[None] @ y[None]
