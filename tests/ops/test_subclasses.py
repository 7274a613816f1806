"""Subclasses of Tensor that define nothing of the protocol: made, shown, copied and computed with as in PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import webgpu_torch as facade


class TheirSub(torch.Tensor):
    pass


class OurSub(facade.Tensor):
    pass


def classes(lib: Any) -> Any:
    """Return classes of tensors with every kind of constructor."""

    class Initialised(lib.Tensor):
        def __init__(self, data: Any, label: Any = None) -> None:
            self.label = label

    class New(lib.Tensor):
        @staticmethod
        def __new__(cls: Any, x: Any, label: Any, *args: Any, **kwargs: Any) -> Any:
            return lib.Tensor.__new__(cls, x, *args, **kwargs)

        def __init__(self, x: Any, label: Any) -> None:
            self.label = label

    class Made(lib.Tensor):
        @staticmethod
        def __new__(cls: Any, x: Any, label: int = 0) -> Any:
            result = lib.Tensor._make_subclass(cls, lib.as_tensor(x), True)
            result.label = label
            return result

    return SimpleNamespace(Sub=type("Sub", (lib.Tensor,), {}), Initialised=Initialised, New=New, Made=Made)


def saved(t: Any) -> str:
    file = io.BytesIO()
    t.save({"a": t.nn.Parameter(t.ones(2))}, file)
    file.seek(0)
    return type(t.load(file)["a"]).__name__


def parameters(t: Any, c: Any) -> Any:
    class Model(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = t.nn.Parameter(c.Made([1.0, 2.0]))

    return [type(each).__name__ for each in Model().parameters()]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "of a list": lambda t, c: (c.Sub([0]), c.Sub([[1, 2], [3, 4]])),
    "of sizes": lambda t, c: (c.Sub(2, 3).shape, c.Sub(t.Size([2, 2])).shape, c.Sub(), t.Tensor(), t.Tensor(3).shape),
    "of a tensor": lambda t, c: (t.Tensor(t.ones(2)), c.Sub(t.ones(2)), type(c.Sub(t.ones(2)) + 1).__name__),
    "constructors": lambda t, c: (c.Initialised([1, 2]), c.Initialised([1, 2], "a").label, c.New(t.ones(2), "a").label),
    "new": lambda t, c: c.New([1.0, 2], "a"),
    "made": lambda t, c: (c.Made([1.0, 2], "b"), c.Made([1.0, 2]).label, c.Made([1.0, 2]) * 2),
    "copied": lambda t, c: (type(copy.copy(c.Made([1.0, 2], 3))).__name__, copy.copy(c.Made([1.0, 2], 3)).label),
    "cloned": lambda t, c: (c.Made([1.0, 2], 3).clone(), c.Made([1.0, 2], 3).detach()),
    "stacked": lambda t, c: t.stack([c.Sub([1.0]), c.Sub([2.0])]),
    "parts": lambda t, c: (list(c.Sub([1.0, 2])), c.Sub([1.0])[0], c.Sub([1.0, 2]).tolist(), c.Sub([1.0, 2]).numpy()),
    "several results": lambda t, c: c.Sub([[1.0, 2], [3, 4]]).max(0),
    "parameter": lambda t, c: (t.nn.Parameter(c.Sub([1.0])), type(t.nn.Parameter(c.Sub([1.0]))).__name__),
    "isinstance": lambda t, c: (
        isinstance(c.Sub([1.0]), t.Tensor), isinstance(t.nn.Parameter(c.Sub([1.0])), t.nn.Parameter),
    ),
    "module": lambda t, c: type(t.nn.Linear(2, 2)(c.Sub([[1.0, 2]]))).__name__,
    "parameters": parameters,
    "saved parameter": lambda t, c: saved(t),
    "compared": lambda t, c: c.Sub([1.0, 2]) == c.Sub([1.0, 2]),
    "backward": lambda t, c: c.Sub([1.0]).requires_grad_().sum().backward(),
    "converted": lambda t, c: (c.Sub([1.0, 2]).to(t.float64), c.Sub([1.0, 2]).new_zeros(2), t.zeros_like(c.Sub([1.0]))),
    "shown": lambda t, c: (f"{c.Sub([1.0])[0]}", str(c.Sub([1.0])), repr(c.Sub([[1.0]])), c.Sub([1, 2]).data),
    "formatted": lambda t, c: format(c.Sub([1.0])[0], ".1f"),
    "back": lambda t, c: (type(c.Sub([1.0]).as_subclass(t.Tensor)).__name__, c.Sub([1.0]).as_subclass(c.Made).shape),
    "named results": lambda t, c: (t.ones(2, 2).max(0), t.linalg.qr(t.eye(2)), t.tensor([3, 1]).sort()),
}  # fmt: skip


def outcome(lib: Any, name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(PROGRAMS[name](lib, classes(lib)))
        except (RuntimeError, TypeError) as error:
            return type(error).__name__


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    assert outcome(facade, name) == outcome(torch, name)


@pytest.mark.parametrize(("lib", "kind"), [(torch, TheirSub), (facade, OurSub)], ids=["torch", "ours"])
def test_pickles(lib: Any, kind: Any) -> None:
    tensor = kind([1.0, 2.0])
    tensor.label = "a"
    restored = pickle.loads(pickle.dumps(tensor))
    assert type(restored) is kind
    assert restored.label == "a"
    assert restored.tolist() == [1.0, 2.0]


def test_named_results_travel() -> None:
    result = pickle.loads(pickle.dumps(facade.tensor([3, 1]).sort()))
    assert result.values.tolist() == [1, 3]
    assert copy.deepcopy(result).indices.tolist() == [1, 0]
