"""Bags of embeddings, adaptive softmax, distances and the losses that PyTorch's database of modules leaves out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_oracle import close, copy_weights, to_ours

BAGS: list[tuple[dict[str, Any], bool, bool]] = [
    ({"mode": "sum"}, True, False),
    ({"mode": "sum"}, True, True),
    ({"mode": "mean", "padding_idx": 2}, True, False),
    ({"mode": "max", "padding_idx": -1}, True, False),
    ({"mode": "max"}, False, False),
    ({"mode": "mean", "include_last_offset": True}, True, False),
    ({"mode": "mean", "max_norm": 1.0}, False, False),
    ({"mode": "sum"}, False, True),
]


@settings(max_examples=25, deadline=None)
@given(
    index=st.lists(st.integers(0, 4), min_size=1, max_size=9), padding=st.integers(-5, 4), worst=st.sampled_from([math.nan, math.inf])
)  # fmt: skip
def test_what_arrives_at_padding_is_left_out(index: list[int], padding: int, worst: float) -> None:
    for lib, functional in ((torch, torch.nn.functional), (ours, nn.functional)):
        weight = lib.arange(15.0).reshape(5, 3).requires_grad_()
        positions = lib.tensor(index)
        slope = lib.ones(len(index), 3)
        slope[positions == padding % 5] = worst
        found = lib.autograd.grad(functional.embedding(positions, weight, padding_idx=padding), weight, slope)[0]
        counts = [0.0 if each == padding % 5 else float(index.count(each)) for each in range(5)]
        assert found.tolist() == [[each] * 3 for each in counts]


@pytest.mark.parametrize(("options", "flat", "weighted"), BAGS)
def test_embedding_bags(options: dict[str, Any], flat: bool, weighted: bool, device: str) -> None:
    torch.manual_seed(0)
    expected = torch.nn.EmbeddingBag(7, 4, **options)
    ours.manual_seed(0)
    actual = nn.EmbeddingBag(7, 4, **options, device=device)
    copy_weights(expected, actual, device)
    assert repr(actual) == repr(expected)
    index = torch.tensor([1, 2, 6, 2, 0, 5]) if flat else torch.tensor([[1, 2, 6], [2, 0, 5]])
    offsets = torch.tensor([0, 2, 2, 6] if options.get("include_last_offset") else [0, 2, 2]) if flat else None
    scales = torch.rand(index.shape, requires_grad=True) if weighted else None
    given = to_ours(scales, device).requires_grad_() if scales is not None else None
    left = actual(to_ours(index, device), None if offsets is None else to_ours(offsets, device), given)
    right = expected(index, offsets, scales)
    close(left, right)
    slope = torch.randn(right.shape)
    (left * to_ours(slope, device)).sum().backward()
    (right * slope).sum().backward()
    close(actual.weight.grad, expected.weight.grad)
    if scales is not None and given is not None:
        close(given.grad, scales.grad)


def test_gradients_of_frequent_rows() -> None:
    # PyTorch's CPU kernel divides the gradient of the last position's row by a frequency that is not its own.
    bag = nn.EmbeddingBag(7, 1, mode="sum", scale_grad_by_freq=True)
    bag(ours.tensor([[1, 2, 6], [2, 2, 5]])).sum().backward()
    close(bag.weight.grad, torch.tensor([[0.0], [1], [1], [0], [0], [1], [1]]))


def test_embedding_bags_from_tables() -> None:
    table = torch.randn(5, 3)
    bag = nn.EmbeddingBag.from_pretrained(to_ours(table), mode="sum")
    assert not bag.weight.requires_grad
    close(bag(to_ours(torch.tensor([[0, 4]]))), table[0:1] + table[4:5])
    ours.manual_seed(1)
    torch.manual_seed(1)
    close(nn.EmbeddingBag(4, 3, padding_idx=1).weight, torch.nn.EmbeddingBag(4, 3, padding_idx=1).weight)
    for library, kinds in ((nn, ours), (torch.nn, torch)):
        with pytest.raises(AssertionError, match="padding_idx must be within num_embeddings"):
            library.EmbeddingBag(4, 3, padding_idx=4)
        with pytest.raises(AssertionError, match="Shape of weight"):
            library.EmbeddingBag(4, 3, _weight=kinds.ones(3, 3))


@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_softmax(head_bias: bool, device: str) -> None:
    torch.manual_seed(0)
    expected = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 5], div_value=2.0, head_bias=head_bias)
    ours.manual_seed(0)
    actual = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 5], div_value=2.0, head_bias=head_bias, device="cpu")
    assert repr(actual) == repr(expected)
    for key, value in expected.state_dict().items():
        close(actual.state_dict()[key], value)
    actual.to(device)
    x = torch.randn(9, 8) * 3
    target = torch.tensor([0, 11, 4, 2, 7, 3, 1, 4, 9])
    y = to_ours(x, device).requires_grad_()
    x.requires_grad_()
    left, right = actual(y, to_ours(target, device)), expected(x, target)
    assert left._fields == right._fields
    close(left.output, right.output, atol=1e-5)
    close(left.loss, right.loss)
    left.loss.backward()
    right.loss.backward()
    close(y.grad, x.grad)
    for (name, a), (_, b) in zip(actual.named_parameters(), expected.named_parameters(), strict=True):
        assert a.grad is not None, name
        close(a.grad, b.grad, atol=1e-5)
    close(actual.log_prob(y), expected.log_prob(x), atol=1e-5)
    assert actual.predict(y).tolist() == expected.predict(x).tolist()
    close(actual(y[0], to_ours(target[1], device)).output, expected(x[0], target[1]).output, atol=1e-5)


@pytest.mark.parametrize("library", [nn, torch.nn], ids=["ours", "torch"])
def test_adaptive_softmax_errors(library: Any) -> None:
    kinds = ours if library is nn else torch
    for cutoffs in ([], [3, 2], [0, 2], [2, 2], [9], [2.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            library.AdaptiveLogSoftmaxWithLoss(4, 9, cutoffs)
    layer = library.AdaptiveLogSoftmaxWithLoss(4, 9, [3])
    for x, y, message in (
        (kinds.ones(2, 4), kinds.tensor([1, 9]), r"Target values should be in \[0, 8\]"),
        (kinds.ones(2, 4), kinds.tensor([1]), "same size in the batch dimension"),
        (kinds.ones(2, 4), kinds.tensor(1), "0D target tensor expects 1D input"),
        (kinds.ones(2, 4), kinds.tensor([[1], [1]]), "multi-target not supported"),
    ):
        with pytest.raises(RuntimeError, match=message):
            layer(x, y)


def test_distances(device: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    for p in (1.0, 2.0, float("inf")):
        expected = torch.nn.PairwiseDistance(p, keepdim=True)
        close(nn.PairwiseDistance(p, keepdim=True)(to_ours(x, device), to_ours(y, device)), expected(x, y))
    close(nn.CosineSimilarity(0)(to_ours(x, device), to_ours(y, device)), torch.nn.CosineSimilarity(0)(x, y))
    assert repr(nn.PairwiseDistance()) == repr(torch.nn.PairwiseDistance())


def _absolute(x: Any, y: Any) -> Any:
    return (x - y).abs().sum(-1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("swap", [False, True])
def test_triplets(swap: bool, reduction: str, device: str) -> None:
    torch.manual_seed(0)
    given = [torch.randn(4, 5) for _ in range(3)]
    for name, options in (
        ("TripletMarginLoss", {"margin": 0.7, "p": 3.0}),
        ("TripletMarginWithDistanceLoss", {}),
        ("TripletMarginWithDistanceLoss", {"distance_function": _absolute}),
    ):
        expected = getattr(torch.nn, name)(swap=swap, reduction=reduction, **options)
        actual = getattr(nn, name)(swap=swap, reduction=reduction, **options)
        assert repr(actual) == repr(expected)
        moved = [to_ours(each, device).requires_grad_() for each in given]
        leaves = [each.clone().requires_grad_() for each in given]
        left, right = actual(*moved), expected(*leaves)
        close(left, right)
        left.sum().backward()
        right.sum().backward()
        for a, b in zip(moved, leaves, strict=True):
            close(a.grad, b.grad)
        with pytest.raises(ValueError, match="expected margin to be greater than 0, got 0"):
            getattr(nn, name)(margin=0)


def test_losses_of_images_and_slopes() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 4, 4).log_softmax(1), torch.randint(0, 3, (2, 4, 4))
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        left = nn.NLLLoss2d()(to_ours(x), to_ours(y))
    close(left, torch.nn.NLLLoss()(x, y))
    torch.manual_seed(2)
    ours.manual_seed(2)
    for mode in (True, False):
        expected, actual = torch.nn.RReLU().train(mode), nn.RReLU().train(mode)
        close(actual(to_ours(x)), expected(x))
    assert repr(nn.RReLU(inplace=True)) == repr(torch.nn.RReLU(inplace=True))
    for library in (nn, torch.nn):
        with pytest.raises(ValueError, match="only p == 1 and p == 2 supported"):
            library.MultiMarginLoss(p=3)
        with pytest.warns(FutureWarning, match="min_val"):
            assert library.Hardtanh(min_value=-2.0).min_val == -2.0


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_impossible_alignments(zero_infinity: bool, device: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 3, 5).log_softmax(2)
    labels, frames, sizes = (
        torch.tensor([[1, 1, 1], [1, 2, 3], [2, 2, 2]]),
        torch.tensor([4, 4, 3]),
        torch.tensor([3, 3, 0]),
    )
    y = to_ours(x, device).requires_grad_()
    x.requires_grad_()
    left = nn.CTCLoss(reduction="none", zero_infinity=zero_infinity)(
        y, to_ours(labels, device), frames.tolist(), [3, 3, 0]
    )
    right = torch.nn.CTCLoss(reduction="none", zero_infinity=zero_infinity)(x, labels, frames, sizes)
    close(left, right)
    left.sum().backward()
    right.sum().backward()
    torch.testing.assert_close(torch.tensor(y.grad.tolist()), x.grad, equal_nan=True)


def test_options_of_the_linear_cross_entropy() -> None:
    for options in ({}, {"batch_chunk_size": 2, "chunking_method": None}, {"chunking_method": "aspect_ratio:2"}):
        expected = torch.nn.LinearCrossEntropyOptions(**options)
        assert repr(nn.LinearCrossEntropyOptions(**options)) == repr(expected)
    for library in (nn, torch.nn):
        for options in ({"batch_chunk_size": 0}, {"chunking_method": "half"}, {"acc_policy": "best"}, {"acc_dtype": 3}):
            with pytest.raises(ValueError, match=next(iter(options))):
                library.LinearCrossEntropyOptions(**options)
        with pytest.raises(RuntimeError, match="expected label_smoothing to be in range"):
            library.LinearCrossEntropyLoss(2, 3, label_smoothing=2.0)
