"""Lazy copies: who shares memory with whom, before and after writes, is as in PyTorch."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

WRITES = {
    "add": lambda x: x.add_(1),
    "view": lambda x: x.view(-1).mul_(2),
    "item": lambda x: x.__setitem__((0, 1), 7),
    "copy": lambda x: x.copy_(x + 3),
    "zero": lambda x: x.zero_(),
}


def _run(lib, data, steps):
    tensors = [lib.tensor(data)]
    said = []
    for action, who in steps:
        target = tensors[who % len(tensors)]
        if action == "clone":
            tensors.append(target._lazy_clone())
        elif action == "see":
            tensors.append(target.view(-1).view(2, 3))
        else:
            WRITES[action](target)
        shared = [lib._C._is_cow_tensor(each) for each in tensors]
        storages = [lib._C._storage_address(each) for each in tensors]
        said.append((shared, [storages.index(each) for each in storages], [each.tolist() for each in tensors]))
    return said


@settings(max_examples=25, deadline=None)
@given(
    data=st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=2, max_size=2),
    steps=st.lists(st.tuples(st.sampled_from(["clone", "see", *WRITES]), st.integers(0, 5)), min_size=1, max_size=7),
)
def test_sharing_is_pytorchs(data, steps):
    assert _run(ours, data, steps) == _run(torch, data, steps)


def test_data_is_shared_until_it_is_written():
    x = ours.arange(6.0).reshape(2, 3)
    copy = x._lazy_clone()
    assert ours._C._data_address(x) == ours._C._data_address(copy) == x.data_ptr()
    copy += 1
    assert ours._C._data_address(x) != ours._C._data_address(copy)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("lib", [torch, ours], ids=["torch", "ours"])
def test_gradients_pass(lib):
    x = lib.ones(3, requires_grad=True)
    copy = x._lazy_clone()
    assert copy.grad_fn.name() == "LazyCloneBackward0"
    (copy * copy * 3).sum().backward()
    assert x.grad.tolist() == [6, 6, 6]


def test_meta():
    x = ours.ones(3, device="meta")
    assert ours._C._is_cow_tensor(x._lazy_clone())
