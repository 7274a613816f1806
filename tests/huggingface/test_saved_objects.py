"""``torch.save`` of objects that are no plain containers: PyTorch reads them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WRITE = """
import collections, functools, pathlib, pickle, sys
import webgpu_torch
webgpu_torch.install_as_torch()
import torch

torch.manual_seed(0)
linear = torch.nn.Linear(2, 3)
nested = {"self": None, "list": [linear, linear]}
nested["self"] = nested
objects = {
    "model": torch.nn.Sequential(linear, torch.nn.ReLU(), torch.nn.Linear(3, 1)),
    "nested": nested,
    "device": torch.device("cpu"),
    "function": torch.nn.functional.gelu,
    "partial": functools.partial(max, 3),
    "counter": collections.Counter("aab"),
    "default": collections.defaultdict(list, {1: [2]}),
    "path": pathlib.PurePosixPath("a/b"),
    "frozen": frozenset([1]),
    "nothing": type(None),
    "type": torch.float16,
}
torch.save(objects, sys.argv[1])
print(objects["model"](torch.ones(1, 2)).tolist())
for bad, refusal in ((lambda: 1, pickle.PicklingError), (sys.stdout, TypeError)):
    try:
        torch.save({"here": bad}, sys.argv[1] + "2")
    except refusal as error:
        assert str(error).startswith(("cannot save ", "Can't pickle ")), error
    else:
        raise AssertionError("saved what cannot be read back")
assert not pathlib.Path(sys.argv[1] + "2").exists()
"""

READ = """
import collections, pathlib, sys
import torch

found = torch.load(sys.argv[1], weights_only=False)
assert found["nested"]["self"] is found["nested"] and found["nested"]["list"][0] is found["model"][0]
assert found["device"] == torch.device("cpu") and found["function"] is torch.nn.functional.gelu
assert found["partial"](5) == 5 and found["counter"] == collections.Counter("aab")
assert found["default"][7] == [] and found["path"] == pathlib.PurePosixPath("a/b")
assert found["frozen"] == {1} and found["nothing"] is type(None) and found["type"] is torch.float16
print(found["model"](torch.ones(1, 2)).tolist())
"""


def test_pytorch_reads_objects(run_code: Callable[..., str], tmp_path: Path) -> None:
    """Modules, functions, collections and cycles; what has no name anywhere is refused and leaves no file."""
    ours = eval(run_code(WRITE, tmp_path / "objects.pt"))
    theirs = eval(run_code(READ, tmp_path / "objects.pt"))
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6)


def test_element_types_are_found_under_either_name(run_code: Callable[..., str], tmp_path: Path) -> None:
    """Under the name of PyTorch, types are pickled by its names, and a plan kept there is none for who has its own PyTorch."""
    program = """
import pickle, sys
{start}
for kind in torch.float32, torch.bool, torch.uint16, torch.complex64:
    assert pickle.loads(pickle.dumps(kind)) is kind
x = torch.arange(40.0).reshape(5, 8)
for number in range(70):
    x = (x.softmax(1) > 0.125).sum(0) + x.mean(1, keepdim=True) * number
print(x.sum().item())
"""
    cache = {"WEBGPU_TORCH_CACHE": str(tmp_path)}
    installed = run_code(program.format(start="import webgpu_torch.as_torch; import torch"), **cache)
    beside = run_code(program.format(start="import torch as pytorch; import webgpu_torch as torch"), **cache)
    assert installed == beside
    assert list(tmp_path.glob("cpu/*.plan"))
