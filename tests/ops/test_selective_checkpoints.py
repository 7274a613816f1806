"""Checkpoints that keep some results, and modes that answer with other tensors than the operation's: as in PyTorch."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _parts(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.checkpoint")


def _network(t: Any) -> tuple[Any, Any]:
    t.manual_seed(0)
    return t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Tanh(), t.nn.Linear(4, 2)), t.randn(3, 4, requires_grad=True)


def _gradients(t: Any, policy: Any) -> list[Any]:
    network, x = _network(t)
    contexts = functools.partial(_parts(t).create_selective_checkpoint_contexts, policy)
    result = _parts(t).checkpoint(network, x, use_reentrant=False, context_fn=contexts)
    result.square().sum().backward()
    return [x.grad.tolist(), *(each.grad.tolist() for each in network.parameters())]


POLICIES: dict[str, Callable[[Any, list[str]], Any]] = {
    "a list": lambda t, _: [t.ops.aten.addmm.default],
    "all": lambda t, _: lambda context, op, *args, **kwargs: _parts(t).CheckpointPolicy.MUST_SAVE,
    "none": lambda t, _: lambda context, op, *args, **kwargs: False,
    "some": lambda t, seen: lambda context, op, *args, **kwargs: seen.append(str(op)) or len(seen) % 2 == 0,
}


@pytest.mark.parametrize("name", POLICIES)
def test_gradients(name: str) -> None:
    seen: dict[Any, list[str]] = {torch: [], ours: []}
    known, found = (_gradients(t, POLICIES[name](t, seen[t])) for t in (torch, ours))
    for one, other in zip(found, known, strict=True):
        assert torch.allclose(torch.tensor(one), torch.tensor(other), rtol=1e-5, atol=1e-6)
    # Which operations a policy is asked about, and that a repetition asks nothing.
    assert seen[ours] == seen[torch]


def test_what_is_kept_is_not_computed_again() -> None:
    calls = []

    class Counting(ours.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    network, x = _network(ours)
    contexts = functools.partial(_parts(ours).create_selective_checkpoint_contexts, [ours.ops.aten.addmm.default])
    with Counting():
        result = _parts(ours).checkpoint(network, x, use_reentrant=False, context_fn=contexts)
        result.sum().backward()
    assert calls.count(ours.ops.aten.addmm.default) == 2
    assert calls.count(ours.ops.aten.tanh.default) >= 2


@pytest.mark.parametrize("t", [torch, ours], ids=["PyTorch", "ours"])
def test_backward_once_more(t: Any) -> None:
    network, x = _network(t)
    contexts = functools.partial(_parts(t).create_selective_checkpoint_contexts, [t.ops.aten.addmm.default])
    result = _parts(t).checkpoint(network, x, use_reentrant=False, context_fn=contexts).sum()
    result.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        result.backward()


@pytest.mark.parametrize("t", [torch, ours], ids=["PyTorch", "ours"])
def test_what_is_kept_is_not_written(t: Any) -> None:
    x = t.ones(3, requires_grad=True)
    for allowed in (False, True):
        contexts = functools.partial(
            _parts(t).create_selective_checkpoint_contexts, [t.ops.aten.sin.default], allow_cache_entry_mutation=allowed
        )
        result = _parts(t).checkpoint(lambda a: a.sin().mul_(2).exp(), x, use_reentrant=False, context_fn=contexts)
        if allowed:
            result.sum().backward()
        else:
            with pytest.raises(RuntimeError, match="has been mutated"):
                result.sum().backward()


@pytest.mark.parametrize("t", [torch, ours], ids=["PyTorch", "ours"])
def test_no_policy(t: Any) -> None:
    make = _parts(t).create_selective_checkpoint_contexts
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        make(3)
    with pytest.raises(ValueError, match="to be an OpOverload"):
        make([t.ops.aten.mm])
    assert [each.name for each in _parts(t).CheckpointPolicy][:2] == ["MUST_SAVE", "PREFER_SAVE"]


def _answered(t: Any) -> list[Any]:
    class Doubling(importlib.import_module(f"{t.__name__}.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result.detach() * 2 if func.overloadpacket.__name__ in ("sin", "mm", "erf") else result

    x = t.tensor([[0.5, 1.0], [1.5, 2.0]], requires_grad=True)
    with Doubling():
        result = x.sin() @ x + x.erf()
    detached = x.argmax().requires_grad or x.detach().requires_grad
    result.sum().backward()
    return [result.tolist(), x.grad.tolist(), detached]


def test_gradients_of_answers() -> None:
    known, found = _answered(torch), _answered(ours)
    assert torch.allclose(torch.tensor(found[:2]), torch.tensor(known[:2]), rtol=1e-5)
    assert not found[2] and not known[2]
