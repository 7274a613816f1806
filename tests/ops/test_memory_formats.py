"""Memory formats order the elements as PyTorch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import compare, to_ours

CASES = {
    "clone": lambda t, x: x.clone(memory_format=t.channels_last),
    "contiguous": lambda t, x: x.contiguous(memory_format=t.channels_last),
    "back": lambda t, x: x.contiguous(memory_format=t.channels_last).contiguous(),
    "to": lambda t, x: x.to(memory_format=t.channels_last),
    "to and type": lambda t, x: x.to(t.float16, memory_format=t.channels_last),
    "contiguous type": lambda t, x: x.permute(0, 2, 1, 3).half(memory_format=t.contiguous_format),
    "preserved type": lambda t, x: x.permute(0, 2, 1, 3).half(memory_format=t.preserve_format),
    "stays": lambda t, x: x.to(memory_format=t.channels_last) * 2,
    "3d": lambda t, x: x.unsqueeze(0).clone(memory_format=t.channels_last_3d),
    "view": lambda t, x: x[:, 1:].to(memory_format=t.channels_last),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str, device: str) -> None:
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    compare(CASES[name](core, to_ours(x, device)), CASES[name](torch, x), strides=True, where=name)


def test_itself_where_nothing_changes(device: str) -> None:
    x = core.ones(2, 3, 4, 5, device=device)
    last = x.to(memory_format=core.channels_last)
    assert last is not x and last.to(memory_format=core.channels_last) is last
    assert last.contiguous(memory_format=core.channels_last) is last
    assert x.permute(0, 2, 1, 3).to(memory_format=core.contiguous_format).stride() == (60, 5, 20, 1)
    assert repr(core.channels_last) == "torch.channels_last" and isinstance(core.channels_last, core.memory_format)


def test_questions() -> None:
    shapes: list[tuple[int, ...]] = [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (0, 3, 2, 2), (3,)]
    for shape in shapes:
        for change in ("clone", "permuted"):
            answers: list[Any] = []
            for library in (core, torch):
                x = library.ones(shape)
                if change == "permuted" and len(shape) == 4:
                    x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
                formats = (library.contiguous_format, library.channels_last, library.channels_last_3d)
                answers.append([x.is_contiguous(memory_format=each) for each in formats])
            assert answers[0] == answers[1], (shape, change)


def test_other_ranks_are_refused() -> None:
    for library in (core, torch):
        with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
            library.ones(3).clone(memory_format=library.channels_last)


def test_gradients_pass(device: str) -> None:
    x = core.ones(1, 2, 2, 2, device=device, requires_grad=True)
    (x.to(memory_format=core.channels_last) * 3).sum().backward()
    assert x.grad.flatten().tolist() == [3.0] * 8


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
@pytest.mark.parametrize("device", ["cpu", "webgpu", "meta"])
def test_likes_keep_dense_strides(name: str, device: str) -> None:
    number = (2.5,) if name == "full_like" else ()
    for make in (
        lambda library, place: library.zeros((3, 5), device=place).t(),
        lambda library, place: library.zeros((2, 3, 4, 4), device=place).to(memory_format=library.channels_last),
        lambda library, place: library.zeros((1, 3), device=place).expand(4, 3),
        lambda library, place: library.zeros((6, 4), device=place)[::2],
    ):
        found, expected = (
            getattr(library, name)(make(library, place), *number) for library, place in ((core, device), (torch, "cpu"))
        )
        assert found.stride() == expected.stride()
        if name != "empty_like" and device != "meta":
            assert found.tolist() == expected.tolist()
    plain = getattr(core, name)(core.zeros((3, 5), device=device).t(), *number, memory_format=core.contiguous_format)
    assert plain.stride() == (3, 1)
