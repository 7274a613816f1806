"""Classes say PyTorch's modules and names once this library is installed as ``torch``, and are found there."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
import torch as pytorch

MODULES = (
    "torch", "torch.amp", "torch.autograd", "torch.autograd.function", "torch.autograd.graph", "torch.distributions", "torch.linalg",
    "torch.distributions.constraints", "torch.distributions.transforms", "torch.nn", "torch.nn.parameter", "torch.nn.utils.parametrize",
    "torch.nn.utils.prune", "torch.nn.utils.rnn", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils",
    "torch.utils.benchmark", "torch.utils.checkpoint", "torch.utils.data", "torch.utils.hooks",
)  # fmt: skip
#: what has no class of its own here, or another one in PyTorch
LEFT_OUT = ("ScriptFunction", "FunctionCtx", "BackwardCFunction")
PROGRAM = """
import webgpu_torch.as_torch
import importlib, json, pickle, sys
import torch
found = {}
for path, names in json.loads(sys.argv[1]).items():
    module = importlib.import_module(path)
    for name in names:
        value = getattr(module, name)
        if not isinstance(value, type) or getattr(value, "is_stub", False):
            continue
        found[f"{path}:{name}"] = [value.__module__, value.__qualname__]
        home = importlib.import_module(value.__module__)
        if getattr(home, value.__qualname__, None) is not value:
            raise AssertionError(f"{value} is not in {home}")
step = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
copied = pickle.loads(pickle.dumps(torch.optim.lr_scheduler.StepLR(step, 2)))
print(json.dumps([found, str(type(copied)), repr(torch.optim.SGD), pickle.loads(pickle.dumps(torch.Size([1]))) == (1,)]))
"""


def defined(path: str) -> list[str]:
    """Return the public classes that a module of PyTorch's has."""
    members = vars(sys.modules[path]) if path in sys.modules else vars(__import__(path, fromlist=["*"]))
    return [
        name
        for name, value in members.items()
        if inspect.isclass(value) and value.__module__.startswith("torch") and name not in LEFT_OUT and name[0] != "_"
    ]


@pytest.fixture(scope="module")
def told() -> list[object]:
    asked = json.dumps({path: defined(path) for path in MODULES})
    return json.loads(
        subprocess.run([sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=True).stdout
    )


def test_modules_and_names(told: list[object]) -> None:
    found = told[0]
    assert isinstance(found, dict)
    assert len(found) > 300
    wanted = {}
    for each in found:
        path, _, name = each.partition(":")
        value = getattr(sys.modules[path], name)
        wanted[each] = [value.__module__, value.__qualname__]
    differing = {each: (found[each], wanted[each]) for each in found if found[each] != wanted[each]}
    assert not differing


def test_objects_are_found_again(told: list[object]) -> None:
    assert told[1:] == ["<class 'torch.optim.lr_scheduler.StepLR'>", repr(pytorch.optim.SGD), True]
