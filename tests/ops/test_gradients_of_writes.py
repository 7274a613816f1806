"""Gradients around writes and views: what is overwritten, `.data`, views made without recording, equal medians."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import webgpu_torch as ours

LIBRARIES = (torch, ours)


def _same(program: Any, device: str) -> None:
    """Check that a program of a library and a device gives numbers, flags and errors alike."""
    found = []
    for library in LIBRARIES:
        try:
            result = _plain(program(library, "cpu" if library is torch else device))
        except Exception as error:  # noqa: BLE001 - whatever the oracle raises is the expectation
            result = (type(error), str(error))
        found.append(result)
    assert repr(found[1]) == repr(found[0])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.tolist() if hasattr(value, "tolist") else value


OVERWRITES = {
    "zero_": lambda t, y: y.zero_(),
    "fill_": lambda t, y: y.fill_(3.0),
    "()": lambda t, y: y.__setitem__((), 3.0),
    "[:]": lambda t, y: y.__setitem__(slice(None), 3.0),
    "copy_": lambda t, y: y.copy_(t.ones(3, device=y.device)),
    "normal_": lambda t, y: y.normal_(),
    "bernoulli_": lambda t, y: y.bernoulli_(0.5),
    "view": lambda t, y: y.view(3, 1).zero_(),
    "mul_": lambda t, y: y.mul_(0),
}


@pytest.mark.parametrize("name", sorted(OVERWRITES))
def test_what_is_overwritten_has_a_gradient_of_zeros(name: str, device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w = t.ones(3, requires_grad=True, device=place)
        y = w * 1
        OVERWRITES[name](t, y)
        y.sum().backward()
        return w.grad, y.requires_grad

    _same(program, device)


def test_copying_sends_the_gradient_to_the_source_and_zeros_to_the_target(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w, x = (t.ones(3, requires_grad=True, device=place) for _ in range(2))
        y = w * 1
        y.copy_(x)
        (y * y).sum().backward()
        return w.grad, x.grad, y.grad_fn.name() == "MulBackward0"

    _same(program, device)


def test_data_has_a_version_of_its_own(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        x = t.ones(3, requires_grad=True, device=place)
        y = x * 2
        z = y * y
        data = y.data
        data.mul_(3)
        data[0] = 7
        z.sum().backward()
        return x.grad, y._version, data._version, y.data._version, y, y.detach()._version

    _same(program, device)


def test_data_of_a_parameter_trained_in_place(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w = t.ones(3, requires_grad=True, device=place)
        v = w[:2]
        for _ in range(3):
            (w * w).sum().backward()
            w.data.add_(w.grad.data, alpha=-0.25)
            w.grad.zero_()
        w.data = w.data * 2
        return w, v, w.is_leaf, w.requires_grad

    _same(program, device)


VIEWS = {
    "flags": lambda t, w, v: (v.requires_grad, v.is_leaf, v.grad_fn is None, (v * 2).requires_grad),
    "backward": lambda t, w, v: ((v * 3).sum().backward(), w.grad, v.grad),
    "write": lambda t, w, v: (v.mul_(2), w),
}


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("name", sorted(VIEWS))
def test_views_made_without_recording(name: str, leaf: bool, device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w = t.ones(4, requires_grad=True, device=place)
        y = w if leaf else w * 2
        with t.no_grad():
            v = y[:2]
        return VIEWS[name](t, w, v)

    _same(program, device)


def test_a_view_made_without_recording_and_written_there(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w = t.ones(4, requires_grad=True, device=place)
        with t.no_grad():
            v = w[:2]
            v.mul_(2)
        return v * 1

    _same(program, device)


def test_a_view_follows_its_base_that_gets_a_gradient(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        x = t.ones(3, device=place)
        v = x[:2]
        w = t.ones(3, requires_grad=True, device=place)
        x.mul_(w)
        (v * 2).sum().backward()
        return w.grad, v.requires_grad

    _same(program, device)


def test_a_view_of_a_leaf_that_an_optimizer_changes(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        w = t.ones(4, requires_grad=True, device=place)
        v = w[:2]
        with t.no_grad():
            w.mul_(3)
        (v * v).sum().backward()
        return w.grad

    _same(program, device)


PICKS = {
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
}


@pytest.mark.parametrize("name", sorted(PICKS))
@pytest.mark.parametrize("row", [[1.0, 2, 2, 2, 5], [3.0, 1, 4, 2], [2.0, 2, 2], [1.0, math.nan, 2, 2, math.nan]])
def test_equal_elements_share_the_gradient(name: str, row: list[float], device: str) -> None:
    def program(t: Any, place: str) -> Any:
        x = t.tensor(row, requires_grad=True, device=place)
        PICKS[name](x).backward()
        y = t.tensor(row, requires_grad=True, device=place)
        PICKS[name](y).backward(t.tensor(math.nan, device=place))
        return x.grad, y.grad

    _same(program, device)


def test_resizing_counts_as_a_write_and_needs_no_gradient(device: str) -> None:
    def program(t: Any, place: str) -> Any:
        x = t.ones(4, device=place)
        x.resize_(2)
        version = x._version
        x.resize_(9)
        return version, x._version

    _same(program, device)
    _same(lambda t, place: t.ones(4, requires_grad=True, device=place).resize_(2), device)


def test_logcumsumexp_at_infinities(device: str) -> None:
    inf = math.inf
    for row in ([-inf, -inf, 1.0, 2.0, -1.0, -1000.0], [-inf, 1.0, inf, 3.0, 2.0], [5.0, -inf, 7.0, 1.0]):
        grads = []
        for library, place in ((torch, "cpu"), (ours, device)):
            x = library.tensor(row, requires_grad=True, device=place)
            x.logcumsumexp(0).backward(library.ones(len(row), device=place))
            grads.append(torch.tensor(x.grad.tolist()))
        torch.testing.assert_close(grads[1], grads[0], equal_nan=True)


def test_region_of_a_strided_scatter_has_no_gradient(device: str) -> None:
    """PyTorch gives the input the gradient of the region that was replaced, and none for the rest."""
    x = ours.arange(6.0, device=device).requires_grad_()
    source = ours.zeros(2, 2, device=device, requires_grad=True)
    x.as_strided_scatter(source, (2, 2), (2, 1), 1).mul(ours.arange(6.0, device=device)).sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0, 0, 5]
    assert source.grad.tolist() == [[1, 2], [3, 4]]
