"""Padded and packed sequences against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from functional_oracle import tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_oracle import close, to_ours, to_torch

LENGTHS = {"sorted": [4, 3, 1], "unsorted": [1, 4, 3], "equal": [4, 4, 4]}


def both(device: str, *shape: int) -> tuple[torch.Tensor, Any]:
    """Return the same numbers on both sides, needing gradients."""
    theirs = tensor(*shape)
    return theirs, to_ours(theirs, device).requires_grad_()


def same(actual: Any, expected: Any) -> None:
    """Check the fields of a packed sequence."""
    assert type(actual) is nn.utils.rnn.PackedSequence
    for have, want in zip(actual, expected, strict=True):
        assert (have is None) == (want is None)
        if want is not None:
            close(have, want)
    assert actual.batch_sizes.device.type == "cpu"


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_there_and_back(lengths: list[int], batch_first: bool, device: str) -> None:
    theirs, mine = both(device, *((3, 4, 2) if batch_first else (4, 3, 2)))
    ordered = lengths == sorted(lengths, reverse=True)
    expected = torch.nn.utils.rnn.pack_padded_sequence(theirs, torch.tensor(lengths), batch_first, ordered)
    actual = nn.utils.rnn.pack_padded_sequence(mine, ours.tensor(lengths), batch_first, ordered)
    same(actual, expected)
    assert actual.data.device == mine.device
    options = {"batch_first": batch_first, "padding_value": -3.0, "total_length": 6}
    want, sizes = torch.nn.utils.rnn.pad_packed_sequence(expected, **options)
    have, my_sizes = nn.utils.rnn.pad_packed_sequence(actual, **options)
    close(have, want)
    close(my_sizes, sizes)
    want.square().sum().backward()
    have.square().sum().backward()
    assert theirs.grad is not None
    close(mine.grad, theirs.grad)


@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_sequences(enforce_sorted: bool, device: str) -> None:
    pieces = [tensor(size, 2, seed=size) for size in ((3, 2, 2) if enforce_sorted else (2, 4, 1))]
    mine = [to_ours(each, device) for each in pieces]
    expected = torch.nn.utils.rnn.pack_sequence(pieces, enforce_sorted)
    actual = nn.utils.rnn.pack_sequence(mine, enforce_sorted)
    same(actual, expected)
    back = nn.utils.rnn.unpack_sequence(actual)
    for have, want in zip(back, torch.nn.utils.rnn.unpack_sequence(expected), strict=True):
        close(have, want)


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_padding(padding_side: str, batch_first: bool, rest: tuple[int, ...], device: str) -> None:
    pieces = [tensor(size, *rest, seed=size) for size in (2, 0, 4)]
    mine = [to_ours(each, device).requires_grad_() for each in pieces]
    options: dict[str, Any] = {"batch_first": batch_first, "padding_value": 7.0, "padding_side": padding_side}
    expected = torch.nn.utils.rnn.pad_sequence(pieces, **options)
    actual = nn.utils.rnn.pad_sequence(mine, **options)
    close(actual, expected)
    expected.square().sum().backward()
    actual.square().sum().backward()
    for have, want in zip(mine, pieces, strict=True):
        assert want.grad is not None
        close(have.grad, want.grad)


def test_types_of_padding() -> None:
    pieces = [torch.ones(2, dtype=torch.int64), torch.ones(3, dtype=torch.float64)]
    expected = torch.nn.utils.rnn.pad_sequence(pieces, padding_value=2)
    close(nn.utils.rnn.pad_sequence(to_ours(each) for each in pieces), torch.nn.utils.rnn.pad_sequence(pieces))
    close(nn.utils.rnn.pad_sequence([to_ours(each) for each in pieces], padding_value=2), expected)
    close(nn.utils.rnn.pad_sequence(to_ours(torch.ones(2, 3))), torch.nn.utils.rnn.pad_sequence(torch.ones(2, 3)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.booleans())
def test_what_is_packed_comes_back(lengths: list[int], batch_first: bool) -> None:
    pieces = [ours.rand(length, 2) for length in lengths]
    padded = nn.utils.rnn.pad_sequence(pieces, batch_first)
    again = nn.utils.rnn.unpad_sequence(padded, ours.tensor(lengths), batch_first)
    packed = nn.utils.rnn.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    assert packed.data.shape[0] == sum(lengths)
    unpacked, sizes = nn.utils.rnn.pad_packed_sequence(packed, batch_first)
    assert sizes.tolist() == lengths
    assert unpacked.tolist() == padded.tolist()
    for piece, one, other in zip(pieces, again, nn.utils.rnn.unpack_sequence(packed), strict=True):
        assert piece.tolist() == one.tolist() == other.tolist()


def test_conversions(device: str) -> None:
    packed = nn.utils.rnn.pack_padded_sequence(ours.ones(3, 2, 1), [1, 3], enforce_sorted=False)
    assert packed.to("cpu") is packed
    assert packed.to(ours.float32) is packed
    moved = packed.to(device)
    assert moved.data.device.type == device
    assert moved.sorted_indices is not None
    assert moved.sorted_indices.device.type == device
    assert moved.batch_sizes.device.type == "cpu"
    assert moved.cpu().data.device.type == "cpu"
    for name in ("half", "int", "short", "char", "byte", "long"):
        theirs = getattr(torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)]), name)()
        assert str(getattr(moved, name)().data.dtype) == str(theirs.data.dtype)
    assert moved.half().float().data.dtype is ours.float32
    assert packed.double().data.dtype is ours.float64
    assert not packed.is_cuda
    assert not packed.is_pinned()


def test_fields() -> None:
    packed = nn.utils.rnn.PackedSequence(ours.ones(3, 1), ours.tensor([2, 1]), ours.tensor([1, 0]))
    assert packed._fields == ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
    assert packed.unsorted_indices is not None
    assert packed.unsorted_indices.tolist() == [1, 0]
    assert nn.utils.rnn.PackedSequence((packed.data, packed.batch_sizes)).data is packed.data  # pyright: ignore
    order = torch.tensor([2, 0, 3, 1])
    expected = torch.nn.utils.rnn.invert_permutation(order)
    assert expected is not None
    actual: Any = nn.utils.rnn.invert_permutation(to_ours(order))
    assert torch.equal(to_torch(actual), expected)
    assert nn.utils.rnn.invert_permutation(None) is None


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "increasing": lambda t, rnn: rnn.pack_padded_sequence(t.zeros(3, 2, 1), [2, 3]),
    "a length of nothing": lambda t, rnn: rnn.pack_padded_sequence(t.zeros(3, 2, 1), [2, 0]),
    "too few lengths": lambda t, rnn: rnn.pack_padded_sequence(t.zeros(3, 2, 1), [2]),
    "no elements": lambda t, rnn: rnn.pack_padded_sequence(t.zeros(0, 2, 1), [2, 1]),
    "lengths of rank 2": lambda t, rnn: rnn.pack_padded_sequence(t.zeros(3, 2, 1), t.tensor([[2, 1]])),
    "total_length": lambda t, rnn: rnn.pad_packed_sequence(
        rnn.pack_padded_sequence(t.zeros(3, 2, 1), [2, 1]), total_length=1
    ),
    "nothing to pad": lambda t, rnn: rnn.pad_sequence([]),
    "not sequences": lambda t, rnn: rnn.pad_sequence(3),
    "side": lambda t, rnn: rnn.pad_sequence([t.zeros(1)], padding_side="middle"),
    "data": lambda t, rnn: rnn.PackedSequence(t.zeros(3)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_messages(call: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        call(torch, torch.nn.utils.rnn)
    with pytest.raises(type(expected.value)) as actual:
        call(ours, nn.utils.rnn)
    assert str(actual.value) == str(expected.value)


def test_batch_sizes_stay_on_the_cpu(device: str) -> None:
    if device != "cpu":
        with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
            nn.utils.rnn.PackedSequence(ours.zeros(1), ours.ones(1, dtype=ours.int64, device=device))
