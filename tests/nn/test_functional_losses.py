"""Losses, distances and normalisations against PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn.functional as functional
from functional_oracle import check, classes, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_oracle import close, to_ours


def signs(*shape: int) -> torch.Tensor:
    return classes(*shape, count=2).float() * 2 - 1


REDUCTIONS = ["mean", "sum", "none"]
PAIRS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("mse_loss", (tensor(3, 4), tensor(3, 4, seed=1)), {"weight": tensor(3, 4, low=0.1, seed=2).detach()}),
    ("l1_loss", (tensor(3, 4), tensor(3, 4, seed=1)), {}),
    ("smooth_l1_loss", (tensor(3, 4), tensor(3, 4, seed=1)), {"beta": 0.7}),
    ("huber_loss", (tensor(3, 4), tensor(3, 4, seed=1)), {"delta": 0.7}),
    ("binary_cross_entropy", (tensor(3, 4, low=0.1, high=0.9), tensor(3, 4, low=0, high=1).detach()), {}),
    ("poisson_nll_loss", (tensor(3, 4, low=0.1), tensor(3, 4, low=0.1, high=4).detach()), {"full": True}),
    ("poisson_nll_loss", (tensor(3, 4, low=0.1), tensor(3, 4, low=0.1, high=4).detach()), {"log_input": False}),
    ("gaussian_nll_loss", (tensor(3, 4), tensor(3, 4, seed=1), tensor(3, 1, low=0.1)), {"full": True}),
    ("soft_margin_loss", (tensor(3, 4), signs(3, 4)), {}),
    ("hinge_embedding_loss", (tensor(3, 4), signs(3, 4)), {"margin": 0.5}),
    ("margin_ranking_loss", (tensor(5), tensor(5, seed=1), signs(5)), {"margin": 0.3}),
    ("cosine_embedding_loss", (tensor(4, 5), tensor(4, 5, seed=1), signs(4)), {"margin": 0.1}),
    ("cosine_embedding_loss", (tensor(5), tensor(5, seed=1), torch.tensor(1.0)), {}),
    ("multi_margin_loss", (tensor(4, 5), classes(4, count=5)), {"p": 2, "weight": tensor(5, low=0.1).detach()}),
    ("multi_margin_loss", (tensor(5), torch.tensor(3)), {}),
    ("multilabel_margin_loss", (tensor(2, 4), torch.tensor([[3, 0, -1, 1], [1, 1, 2, 0]])), {}),
    ("multilabel_soft_margin_loss", (tensor(3, 4), classes(3, 4, count=2).float()), {}),
    ("triplet_margin_loss", (tensor(3, 5), tensor(3, 5, seed=1), tensor(3, 5, seed=2)), {"swap": True}),
    ("triplet_margin_with_distance_loss", (tensor(3, 5), tensor(3, 5, seed=1), tensor(3, 5, seed=2)), {}),
    ("cross_entropy", (tensor(3, 5, 2), classes(3, 2, count=5)), {"label_smoothing": 0.2, "ignore_index": 1}),
    ("linear_cross_entropy", (tensor(4, 6), tensor(5, 6), classes(4, count=5)), {"linear_bias": tensor(5)}),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("name", "arguments", "options"), PAIRS)
def test_losses(device: str, name: str, arguments: tuple[Any, ...], options: Any, reduction: str) -> None:
    # PyTorch has no second gradients of these two.
    twice = reduction == "sum" and name not in ("multi_margin_loss", "multilabel_margin_loss")
    check(device, name, *arguments, reduction=reduction, twice=twice, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("joined", [False, True])
def test_ctc_loss(device: str, reduction: str, joined: bool) -> None:
    scores = tensor(7, 3, 5).log_softmax(2).detach().requires_grad_()
    lengths, sizes = torch.tensor([7, 5, 3]), torch.tensor([3, 0, 2])
    targets = torch.tensor([[1, 1, 4], [0, 0, 0], [2, 3, 0]])
    if joined:
        targets = torch.tensor([1, 1, 4, 2, 3])
    check(device, "ctc_loss", scores, targets, lengths, sizes, reduction=reduction, twice=False, zero_infinity=True)


@pytest.mark.slow_on("webgpu")
def test_distances(device: str) -> None:
    check(device, "cosine_similarity", tensor(1, 3, 4), tensor(2, 3, 1, seed=1), dim=-1)
    check(device, "pairwise_distance", tensor(3, 4), tensor(1, 4, seed=1), p=3.0, keepdim=True)
    for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
        check(device, "pdist", tensor(5, 3), p=p, twice=False)


def test_equal_rows_are_at_distance_zero_without_gradient(device: str) -> None:
    check(device, "pdist", torch.ones(3, 2).requires_grad_(), p=2.5, twice=False)


NORMS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("group_norm", (tensor(2, 6, 3, 4), 3, tensor(6), tensor(6, seed=1)), {}),
    ("group_norm", (tensor(3, 4), 2), {"eps": 1e-2}),
    ("instance_norm", (tensor(2, 3, 4, 5),), {"weight": tensor(3), "bias": tensor(3, seed=1)}),
    ("batch_norm", (tensor(4, 3, 5), None, None, tensor(3), tensor(3, seed=1)), {"training": True}),
    ("batch_norm", (tensor(4, 3), torch.zeros(3), torch.ones(3) * 2, tensor(3)), {}),
    ("layer_norm", (tensor(2, 3, 4), (3, 4), tensor(3, 4), tensor(3, 4, seed=1)), {}),
    ("rms_norm", (tensor(2, 3, 4), (4,), tensor(4)), {"eps": 1e-3}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), NORMS)
def test_normalisations(device: str, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    check(device, name, *arguments, atol=1e-4, **options)


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics_move(device: str, name: str) -> None:
    source = tensor(3, 2, 4, 5).detach()
    options = {"training": True} if name == "batch_norm" else {"use_input_stats": True}
    mean, variance = torch.zeros(2), torch.ones(2)
    mine = [to_ours(mean, device), to_ours(variance, device)]
    for _ in range(2):
        getattr(torch.nn.functional, name)(source, mean, variance, momentum=0.3, **options)
        getattr(functional, name)(to_ours(source, device), *mine, momentum=0.3, **options)
    close(mine[0], mean)
    close(mine[1], variance)


def test_one_value_per_channel_has_no_statistics() -> None:
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        functional.batch_norm(to_ours(torch.ones(1, 3)), None, None, training=True)


WORDINGS: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (
        "multi_margin_loss",
        (torch.ones(5, 4), torch.ones(5).long()),
        {"reduction": "abc"},
        ValueError,
        "abc is not a valid",
    ),
    ("multi_margin_loss", (torch.ones(5, 4), torch.ones(4).long()), {}, RuntimeError, "1-D with size equal to"),
    ("multilabel_margin_loss", (torch.ones(5, 0), torch.ones(5, 0).long()), {}, RuntimeError, "non-empty vector"),
    (
        "triplet_margin_loss",
        (torch.ones(3, 4), torch.ones(3, 4), torch.ones(4)),
        {},
        RuntimeError,
        "same number of dim",
    ),
    (
        "cosine_embedding_loss",
        (torch.ones(3), torch.ones(3), torch.ones(3)),
        {},
        RuntimeError,
        "1D target tensor expects",
    ),
    ("gaussian_nll_loss", (torch.ones(3), torch.ones(3), -1.0), {}, ValueError, "var has negative"),
    ("huber_loss", (torch.ones(3), torch.ones(3)), {"delta": 0.0}, RuntimeError, "non-positive values for delta"),
    ("group_norm", (torch.ones(2, 5, 3), 2), {}, RuntimeError, "divisible by num_groups"),
    ("rms_norm", (torch.ones(2, 2, 3), (2, 2)), {}, RuntimeError, "Given normalized_shape="),
]


@pytest.mark.parametrize(("name", "arguments", "options", "kind", "words"), WORDINGS)
def test_errors_are_worded_as_pytorchs(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        getattr(torch.nn.functional, name)(*arguments, **options)
    mine = [to_ours(each) if isinstance(each, torch.Tensor) else each for each in arguments]
    with pytest.raises(kind, match=words):
        getattr(functional, name)(*mine, **options)


HALVES: list[tuple[str, tuple[Any, ...]]] = [
    ("binary_cross_entropy", (tensor(5, 5, low=0.05, high=0.95), tensor(5, 5, low=0, high=1))),
    ("cosine_similarity", (tensor(5, 7), tensor(5, 7, seed=1))),
    ("group_norm", (tensor(2, 6, 3, 4), 3)),
    ("hardswish", (tensor(4, 5),)),
    ("avg_pool2d", (tensor(1, 2, 6, 6), 3)),
]


@pytest.mark.parametrize(("name", "arguments"), HALVES)
def test_bfloat16_rounds_once(device: str, name: str, arguments: tuple[Any, ...]) -> None:
    rounded = [each.detach().bfloat16() if isinstance(each, torch.Tensor) else each for each in arguments]
    exact = [each.double() if isinstance(each, torch.Tensor) else each for each in rounded]
    want = getattr(torch.nn.functional, name)(*exact)
    mine = [
        to_ours(each.float(), device).to(ours.bfloat16) if isinstance(each, torch.Tensor) else each for each in rounded
    ]
    have = getattr(functional, name)(*mine)
    assert have.dtype is ours.bfloat16
    close(have.to(ours.float32), want.float(), rtol=2.0**-8, atol=1e-6)


#: lengths of inputs, and of targets
LENGTHS = {
    "too long": ((5, 6), (2, 1)),
    "negative": ((5, -1), (2, 1)),
    "negative targets": ((5, 5), (2, -1)),
    "not whole": (torch.tensor([5.0, 5.0]), torch.tensor([2, 1])),
    "targets not whole": (torch.tensor([5, 5]), torch.tensor([2.0, 1.0])),
    "too long in a tensor": (torch.tensor([5, 6]), torch.tensor([2, 1])),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_do_not_fit(name: str) -> None:
    def given(library: Any, lengths: Any) -> Any:
        return library.tensor(lengths.tolist()) if isinstance(lengths, torch.Tensor) else lengths

    messages = []
    for library, losses in ((torch, torch.nn.functional), (ours, functional)):
        arguments = library.zeros(5, 2, 4), library.tensor([1, 2, 1]), *(given(library, each) for each in LENGTHS[name])
        with pytest.raises(RuntimeError) as raised:
            losses.ctc_loss(*arguments)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


#: scores and targets, which nobody keeps between 0 and 1
NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 3e38, -3e38, 1e10, 1e-30]), st.floats(-99, 99, width=32)
)


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40), weight=st.none() | st.floats(0.5, 4, width=32)
)
def test_logits_against_any_targets(pairs: list[tuple[float, float]], weight: float | None) -> None:
    found = []
    for library, function in ((torch, torch.nn.functional), (ours, functional)):
        x, y = (library.tensor(each, requires_grad=True) for each in zip(*pairs, strict=True))
        loss = function.binary_cross_entropy_with_logits(
            x, y, reduction="none", pos_weight=None if weight is None else library.tensor([weight])
        )
        loss.sum().backward()
        found.append([each.tolist() for each in (loss.detach(), x.grad, y.grad)])
    limits = {"rtol": 1e-5, "atol": 1e-6, "equal_nan": True}
    for number, (wanted, have) in enumerate(zip(*found, strict=True)):
        # With a weight PyTorch's gradient has another form, which overflows elsewhere.
        if weight is None or number == 0:
            torch.testing.assert_close(torch.tensor(have), torch.tensor(wanted), **limits)
