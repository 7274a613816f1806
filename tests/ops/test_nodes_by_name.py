"""Nodes that programs make themselves (``torch._C._functions``), weak references, and bases of several tensors."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH = pytest.mark.parametrize("lib", [torch, ours], ids=["torch", "ours"])


@BOTH
def test_delayed_errors(lib):
    x = lib.ones(2, requires_grad=True)
    y = lib._C._functions.DelayedError("Boom!", 1)(x)
    assert y.tolist() == [1, 1]
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="Boom!"):
        y.sum().backward()


@BOTH
def test_undefined_gradients(lib):
    x = lib.ones(2, requires_grad=True)
    (lib._C._functions.UndefinedGrad()(x * 2)).sum().backward()
    assert x.grad is None or x.grad.tolist() == [0, 0]
    leaf = (x + 1).grad_fn.next_functions[0][0]
    assert isinstance(leaf, lib._C._functions.AccumulateGrad)


@BOTH
def test_weak_references(lib):
    x = lib.ones(2)
    reference = lib._C._WeakTensorRef(x)
    assert not reference.expired()
    del x
    assert reference.expired()


@settings(max_examples=10, deadline=None)
@given(shapes=st.lists(st.lists(st.integers(1, 3), max_size=2), min_size=1, max_size=3))
def test_standard_basis(shapes):
    def basis(lib):
        tensors = tuple(lib.zeros(tuple(shape)) for shape in shapes)
        found = lib.autograd.functional._construct_standard_basis_for(tensors, tuple(each.numel() for each in tensors))
        return [each.tolist() for each in found]

    assert basis(ours) == basis(torch)
