"""Hashes of drawn bits over drawn dimensions equal PyTorch's."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch
from hypothesis import given
from hypothesis import strategies as st
from ops_oracle import both_raise, to_ours

WORDS = {
    torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16,
}  # fmt: skip
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    kind = draw(st.sampled_from([*WORDS, *INTEGERS]))
    word = WORDS.get(kind, torch.int64)
    limits = torch.iinfo(word)
    special = [
        0,
        -1,
        limits.min,
        limits.max,
        *(torch.tensor(x, dtype=torch.float32).view(torch.int32).item() for x in (1e-40, 1.5)),
    ]
    element = st.integers(limits.min, limits.max) | st.sampled_from([each for each in special if each <= limits.max])
    number = int(torch.Size(shape).numel())
    found = torch.tensor(draw(st.lists(element, min_size=number, max_size=number)), dtype=word).reshape(shape)
    return found.view(kind) if kind in WORDS else found.to(kind)


def outcome(t: Any, value: Any, dim: Any, keepdim: bool) -> Any:
    try:
        found = t.hash_tensor(value, dim, keepdim=keepdim)
    except (RuntimeError, IndexError) as error:
        return type(error)
    return found.tolist(), tuple(found.shape), str(found.dtype)


@given(tensors(), st.sampled_from([(), None, 0, 1, -1, (0, 1)]), st.booleans())
def test_hashes(value: torch.Tensor, dim: Any, keepdim: bool) -> None:
    assert outcome(webgpu_torch, to_ours(value, "cpu"), dim, keepdim) == outcome(torch, value, dim, keepdim)


def test_hashes_refuse() -> None:
    for kind in (torch.uint16, torch.uint32, torch.uint64, torch.complex64):
        both_raise(lambda t, x: t.hash_tensor(x), [torch.ones(2).to(kind)], "cpu", "not implemented for")
    both_raise(lambda t, x: t.hash_tensor(x, mode=1), [torch.ones(2)], "cpu", "Unknown hash_tensor mode: 1")
    wrong = lambda t, x: t.hash_tensor(x, out=t.empty(0, dtype=t.int64))  # noqa: E731
    both_raise(wrong, [torch.ones(2)], "cpu")
