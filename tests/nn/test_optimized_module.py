"""Modules as ``torch.compile`` returns them: names of what they hold, attributes, copies, hooks, results."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
import webgpu_torch._dynamo
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:torch.compile")

MODULES: dict[str, Callable[[Any], Any]] = {
    "sequential": lambda nn: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 2)),
    "linear": lambda nn: nn.Linear(3, 3),
    "list": lambda nn: nn.ModuleList([nn.Linear(1, 1)]),
    "norm": lambda nn: nn.BatchNorm1d(3),
    "nested": lambda nn: nn.Sequential(nn.Sequential(nn.Linear(3, 4)), nn.ReLU()),
}


def _save(t: Any, c: Any) -> list[str]:
    file = io.BytesIO()
    t.save(c.state_dict(), file)
    return list(t.load(io.BytesIO(file.getvalue())))


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "state": lambda t, c: [(name, tuple(each.shape)) for name, each in c.state_dict().items()],
    "parameters": lambda t, c: [name for name, _ in c.named_parameters()],
    "modules": lambda t, c: [(name, type(each).__name__) for name, each in c.named_modules()],
    "length": lambda t, c: len(c),
    "type": lambda t, c: (type(c).__name__, isinstance(c, t.nn.Module), isinstance(c, t._dynamo.OptimizedModule)),
    "set": lambda t, c: setattr(c, "extra", 3) or (c._orig_mod.extra, "extra" in c.__dict__),
    "delete": lambda t, c: delattr(c, "extra") or hasattr(c._orig_mod, "extra"),
    "missing": lambda t, c: c.nowhere,
    "buffer": lambda t, c: c.register_buffer("b", t.ones(2)) or (list(c.state_dict()), list(c._orig_mod.state_dict())),
    "train": lambda t, c: (c.train(not c.training) is c, c.training, c._orig_mod.training),
    "double": lambda t, c: (c.double() is c, {str(each.dtype) for each in c._orig_mod.parameters()}, c.float() is c),
    "pickled": lambda t, c: STEPS["state"](t, pickle.loads(pickle.dumps(c))),
    "copied": lambda t, c: (copy.deepcopy(c)._orig_mod is c._orig_mod, STEPS["state"](t, copy.deepcopy(c))),
    "saved": _save,
    "loaded": lambda t, c: str(c.load_state_dict(c.state_dict())),
    "loaded without": lambda t, c: c.load_state_dict(c._orig_mod.state_dict()),
    "submodule": lambda t, c: type(c.get_submodule("_orig_mod")).__name__,
    "in another": lambda t, c: list(t.nn.Sequential(c).state_dict()),
    "printed": lambda t, c: repr(c),
    "zeroed": lambda t, c: c.zero_grad(),
    "frozen": lambda t, c: (c.requires_grad_(False) is c, [each.requires_grad for each in c.parameters()]),
    "applied": lambda t, c: [type(each).__name__ for each in _applied(c)],
}  # fmt: skip


def _applied(c: Any) -> list[Any]:
    seen: list[Any] = []
    c.apply(seen.append)
    return seen


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(MODULES)), st.lists(st.sampled_from(sorted(STEPS)), max_size=8))
def test_steps(name: str, steps: list[str]) -> None:
    told = []
    for library in (webgpu_torch, torch):
        compiled = library.compile(MODULES[name](library.nn), backend="eager")
        found = []
        for step in steps:
            try:
                found.append(STEPS[step](library, compiled))
            except (AttributeError, TypeError, RuntimeError, NotImplementedError) as error:
                found.append((type(error).__name__, str(error)))
        told.append(found)
    assert told[0] == told[1]


def test_a_compiler_of_ones_own_is_not_called_and_a_warning_says_so() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        raise AssertionError("it is called")

    with pytest.warns(UserWarning, match="the backend backend is not called"):
        doubled = webgpu_torch.compile(lambda x: x * 2, backend=backend)
    assert doubled(webgpu_torch.ones(2)).tolist() == [2.0, 2.0]


def test_results_and_gradients() -> None:
    module = webgpu_torch.nn.Sequential(webgpu_torch.nn.Linear(3, 4), webgpu_torch.nn.Tanh())
    compiled = webgpu_torch.compile(module)
    x = webgpu_torch.randn(5, 3)
    compiled(x).sum().backward()
    gradient = module[0].weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    assert webgpu_torch.allclose(module[0].weight.grad, gradient)
    with webgpu_torch.no_grad():
        for _ in range(3):
            assert webgpu_torch.equal(compiled(x), module(x))
        module[0].weight.mul_(2)
        assert webgpu_torch.equal(compiled(x), module(x))
    assert compiled.forward.statistics["replayed"] >= 2
    # The original is not compiled, and what is compiled twice is compiled once.
    assert "forward" not in module.__dict__
    assert webgpu_torch.compile(compiled)._orig_mod is module


def test_hooks_of_both() -> None:
    order: list[str] = []
    compiled = webgpu_torch.compile(webgpu_torch.nn.Linear(3, 3))
    compiled.register_forward_hook(lambda *_: order.append("around"))
    compiled._orig_mod.register_forward_hook(lambda *_: order.append("inside"))
    with webgpu_torch.no_grad():
        compiled(webgpu_torch.ones(2, 3))
    assert order == ["inside", "around"]
