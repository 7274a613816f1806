"""Subscripts that come again give the views that they gave, and what they have in common with others is not confused."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.operations.indexing import remembered_subscripts
from webgpu_torch_core.operations.indexing.subscripts import _getitem_by_any

_ENDS = st.one_of(st.none(), st.integers(-4, 4), st.booleans())
_PARTS = st.one_of(
    st.integers(-3, 3),
    st.booleans(),
    st.none(),
    st.just(Ellipsis),
    st.builds(slice, _ENDS, _ENDS, st.sampled_from([None, 1, 2])),
)
_SUBSCRIPTS = st.one_of(
    _PARTS, st.lists(_PARTS, max_size=4).filter(lambda parts: sum(each is Ellipsis for each in parts) < 2).map(tuple)
)


def taken(library: Any, shape: list[int], turned: bool, subscript: Any, how: str) -> Any:
    """Return what a subscript gives: what is there, how it lies and what it is a view of; or what is refused."""
    base = library.arange(float(torch.Size(shape).numel())).reshape(shape)
    x = base.T if turned and base.ndim == 2 else base
    try:
        if how == "gradients":
            x = x.detach().requires_grad_()
            view = x[subscript]
            return view.tolist(), view.shape, view.grad_fn is not None
        with library.set_grad_enabled(how != "without"):
            view = x[subscript]
        # How nothing lies that was copied is not the matter here.
        strides = view.stride() if view.numel() or view._base is not None else None
        told = view.tolist(), strides, view.storage_offset(), view._base is None, view.requires_grad
        if view._base is not None:
            view.add_(1)
        return *told, base.tolist(), base._version
    except (IndexError, ValueError, RuntimeError) as error:
        return type(error).__name__


@settings(deadline=None)
@example(shape=[2], turned=False, subscripts=[((1,), "plain"), ((True,), "plain")])
@example(shape=[3], turned=False, subscripts=[(slice(1, None), "plain"), (slice(True, None), "plain")])
@given(
    shape=st.lists(st.integers(0, 3), max_size=3),
    turned=st.booleans(),
    subscripts=st.lists(st.tuples(_SUBSCRIPTS, st.sampled_from(["plain", "without", "gradients"])), max_size=6),
)
def test_views_are_those_of_pytorch_each_time(shape: list[int], turned: bool, subscripts: list[Any]) -> None:
    for subscript, how in subscripts * 2:
        expected = taken(torch, shape, turned, subscript, how)
        assert taken(webgpu_torch, shape, turned, subscript, how) == expected, (subscript, how)


def test_a_view_is_worked_out_once(monkeypatch: Any) -> None:
    x, called = webgpu_torch.arange(12.0).reshape(3, 4), []
    monkeypatch.setattr(remembered_subscripts, "_layouts", {})
    monkeypatch.setattr(
        "webgpu_torch_core.operations.indexing.subscripts._getitem_by_any",
        lambda *args: called.append(1) or _getitem_by_any(*args),
    )
    for _ in range(3):
        assert x[1:, None].tolist() == [[[4, 5, 6, 7]], [[8, 9, 10, 11]]]
        assert x[:, -1].tolist() == [3, 7, 11]
    assert len(called) == 2
    # Of which a gradient is followed, each step is one.
    assert x.detach().requires_grad_()[1:, None].grad_fn is not None
    assert len(called) == 3


def test_modes_see_each_step() -> None:
    from webgpu_torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = webgpu_torch.arange(6.0)
    found = []
    for _ in range(2):
        names: list[str] = []
        with Seen():
            x[None, 1:]
        found.append(names)
        x[None, 1:]
    assert found[0] == found[1] and found[0]
