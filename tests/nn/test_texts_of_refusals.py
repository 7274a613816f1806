"""What layers refuse, they refuse in PyTorch's words: drawn sizes, windows and operands that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

Call = Callable[[Any], Any]


def refusal(library: Any, call: Call) -> str | None:
    """The type and the text of what a call raises; None if it returns."""
    try:
        call(library)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def refused_alike(call: Call) -> str | None:
    expected = refusal(torch, call)
    assert refusal(ours, call) == expected
    return expected


REFUSED: dict[str, Call] = {
    "bilinear batches": lambda t: t.nn.functional.bilinear(t.ones(2, 3, 2), t.ones(2, 4, 3), t.ones(4, 2, 3)),
    "bilinear ranks": lambda t: t.nn.functional.bilinear(t.ones(2, 2), t.ones(2, 1, 3), t.ones(4, 2, 3)),
    "bilinear bias": lambda t: t.nn.functional.bilinear(t.ones(2, 2), t.ones(2, 3), t.ones(4, 2, 3), t.ones(3)),
    "bilinear weight": lambda t: t.nn.functional.bilinear(t.ones(2, 2), t.ones(2, 3), t.ones(4, 2)),
    "output size": lambda t: t.nn.ConvTranspose2d(3, 4, 3, stride=2)(t.ones(1, 3, 4, 4), output_size=[20, 20]),
    "layer_norm of nothing": lambda t: t.nn.functional.layer_norm(t.ones(2, 4), ()),
    "layer_norm weight": lambda t: t.nn.functional.layer_norm(t.ones(2, 4), (4,), t.ones(3)),
    "layer_norm bias": lambda t: t.nn.functional.layer_norm(t.ones(2, 4), (4,), t.ones(4), t.ones(3)),
    "layer_norm sizes": lambda t: t.nn.functional.layer_norm(t.ones(2, 4), (2, 3)),
    "rms_norm sizes": lambda t: t.nn.functional.rms_norm(t.ones(2, 4), (2, 3)),
    "affine_grid matrices": lambda t: t.nn.functional.affine_grid(t.ones(1, 3, 4), [1, 1, 2, 2], False),
    "affine_grid size": lambda t: t.nn.functional.affine_grid(t.ones(1, 2, 3), [1, 1, 2], False),
    "ctc padded targets": lambda t: t.nn.functional.ctc_loss(t.zeros(6, 2, 4), t.ones(2, 2).long(), (6, 6), (2, 5)),
    "ctc joined targets": lambda t: t.nn.functional.ctc_loss(t.zeros(6, 2, 4), t.ones(4).long(), (6, 6), (2, 5)),
    "ctc targets' batch": lambda t: t.nn.functional.ctc_loss(t.zeros(6, 2, 4), t.ones(3, 2).long(), (6, 6), (2, 1)),
    "ctc targets' rank": lambda t: t.nn.functional.ctc_loss(t.zeros(6, 2, 4), t.ones(2, 2, 2).long(), (6, 6), (2, 1)),
    "attention ranks": lambda t: t.nn.functional.scaled_dot_product_attention(t.ones(2, 3), t.ones(3), t.ones(3)),
    "sequences": lambda t: t.nn.utils.rnn.pad_sequence([t.ones(2, 3), t.ones(2, 4)]),
    "sequences of numbers": lambda t: t.nn.utils.rnn.pad_sequence([t.ones(2), 3]),
    "margins": lambda t: t.nn.functional.soft_margin_loss(t.ones(3, 4), t.ones(2)),
    "embedding": lambda t: t.nn.Embedding(3, 4, _weight=t.ones(2, 2)),
    "pretrained": lambda t: t.nn.EmbeddingBag.from_pretrained(t.ones(3)),
    "copied sizes": lambda t: t.ones(4, 5).copy_(t.ones(7, 7)),
    "copied ranks": lambda t: t.ones(4, 5).copy_(t.ones(1, 4, 5)),
    "memory of a leaf": lambda t: t.ones(3, requires_grad=True).set_(t.ones(2)),
    "an array's product": lambda t: t.ones(2, 2) @ [1.0, 2.0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_the_same_words(name: str) -> None:
    assert refused_alike(REFUSED[name]) is not None


def test_smaller_sequences_repeat() -> None:
    found = ours.nn.utils.rnn.pad_sequence([ours.ones(2, 3), ours.tensor([5.0])])
    assert found.tolist() == torch.nn.utils.rnn.pad_sequence([torch.ones(2, 3), torch.tensor([5.0])]).tolist()


@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_products_with_arrays_are_numpys() -> None:
    array = np.arange(4.0, dtype=np.float32).reshape(2, 2)
    assert (ours.ones(2, 2) @ array).tolist() == (torch.ones(2, 2) @ array).tolist()


SIZES = st.lists(st.integers(1, 4), max_size=4)


@given(one=SIZES, other=SIZES)
def test_of_several_mismatches_the_same_is_told(one: list[int], other: list[int]) -> None:
    refused_alike(lambda t: t.ones(one) + t.ones(other))
    refused_alike(lambda t: t.where(t.ones(one) > 0, t.ones(other), t.ones(one)))
    refused_alike(lambda t: t.ones(one).copy_(t.ones(other)))
    refused_alike(lambda t: t.ones(one).mul_(t.ones(other)))


@given(
    name=st.sampled_from(["conv", "conv_transpose"]),
    spatial=st.integers(1, 3),
    taps=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    dilation=st.lists(st.integers(0, 2), min_size=3, max_size=3),
)
def test_convolutions(name: str, spatial: int, taps: list[int], dilation: list[int]) -> None:
    def call(t: Any) -> Any:
        function = getattr(t.nn.functional, f"{name}{spatial}d")
        return function(t.ones(1, 2, *(4,) * spatial), t.ones(2, 2, *taps), dilation=dilation[:spatial])

    told = refused_alike(call)
    assert told is not None or (len(taps) == spatial and min(taps) > 0)


@given(
    name=st.sampled_from(["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"]),
    spatial=st.integers(1, 3),
    wrong=st.sampled_from(["rank", "size", "stride"]),
    number=st.integers(0, 3) | st.lists(st.integers(1, 3), min_size=1, max_size=4),
)
def test_pools(name: str, spatial: int, wrong: str, number: Any) -> None:
    # One of them at a time: which of several PyTorch looks at first depends on the pool.
    def call(t: Any) -> Any:
        function = getattr(t.nn.functional, f"{name}{spatial}d")
        numbers = (
            number if wrong == "size" else 2,
            *([] if name.startswith("adaptive") else [number if wrong == "stride" else 2]),
        )
        rank = max(number, 1) if wrong == "rank" and isinstance(number, int) else spatial + 1
        return function(t.ones((5,) * rank), *numbers)

    refused_alike(call)


@given(sizes=st.lists(st.integers(0, 2), min_size=2, max_size=5), size=st.integers(-1, 2))
def test_interpolation(sizes: list[int], size: int) -> None:
    refused_alike(lambda t: t.nn.functional.interpolate(t.ones(sizes), size=size))
