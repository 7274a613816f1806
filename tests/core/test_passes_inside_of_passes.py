"""Backward passes that functions ask for while they go backward: as deep as in PyTorch, with the thread's switches as they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours


def inner(library: Any, end: Any) -> Any:
    """Return a function that goes backward through itself until its number is below zero, and calls ``end`` then."""

    class Inner(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with library.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            if ctx.x < 0:
                end()
                return gradient
            with library.enable_grad():
                Inner.apply(ctx.x).sum().backward()
            return gradient

    return Inner.apply


@pytest.mark.parametrize("library", [ours, torch], ids=["ours", "torch"])
def test_passes_go_as_deep_as_they_are_asked_for(library: Any) -> None:
    seen: list[Any] = []
    start = library.tensor(600.0, requires_grad=True)
    function = inner(library, lambda: seen.append((library.is_grad_enabled(), library.is_autocast_enabled("cpu"))))
    with library.autocast("cpu"):
        function(start).sum().backward()
    assert start.grad == 1
    assert seen == [(False, True)]


@pytest.mark.parametrize("library", [ours, torch], ids=["ours", "torch"])
def test_what_an_inner_pass_raises_arrives_outside(library: Any) -> None:
    def end() -> None:
        raise KeyError("deep inside")

    start = library.tensor(100.0, requires_grad=True)
    with pytest.raises(KeyError, match="deep inside"):
        inner(library, end)(start).sum().backward()
    assert start.grad is None
    assert library.is_grad_enabled()
