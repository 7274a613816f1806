"""What PyTorch's own tests and other libraries' code found: each case gives PyTorch's value, or its kind of error."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as reference
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

Case = Callable[[Any], Any]

CASES: dict[str, Case] = {
    "a list of tensors is a tuple of subscripts": lambda t: tuple(t.arange(6.0).reshape(3, 2)[[t.tensor([0, 0]), t.tensor([0, 1])]].shape),
    "a true scalar adds a dimension": lambda t: tuple(t.zeros(2, 3)[t.tensor(True)].shape),
    "a false scalar leaves nothing": lambda t: tuple(t.zeros(2, 3)[t.tensor(False)].shape),
    "a true scalar of a scalar": lambda t: t.tensor(3.0)[t.tensor(True)],
    "new takes a size": lambda t: tuple(t.ones(15, 10).new(t.ones(15, 10).shape).shape),
    "new takes numbers": lambda t: tuple(t.ones(2).new(2, 3).shape),
    "new takes data": lambda t: t.ones(2).new([1, 2]),
    "an array beside a tensor": lambda t: t.tensor([1]) + np.array([1.5]),
    "an array taken away": lambda t: t.tensor([1.0, 2.0]) - np.array([1.5, 2]),
    "a conjugate pair is one number": lambda t: t.tensor(1 + 2j).flip(0),
    "a source too short": lambda t: t.zeros(4).masked_scatter_(t.ones(4, dtype=t.bool), t.ones(2)),
    "a source of another type": lambda t: t.zeros(4).masked_scatter(t.ones(4, dtype=t.bool), t.ones(4, dtype=t.int32)),
    "a source just long enough": lambda t: t.zeros(4).masked_scatter(t.tensor([True, False, True, False]), t.tensor([1.0, 2.0])),
    "the next bfloat16": lambda t: t.nextafter(t.tensor(1.0, dtype=t.bfloat16), t.tensor(2.0, dtype=t.bfloat16)).item(),
    "linspace of bytes wraps": lambda t: t.linspace(-2, 2, 5, dtype=t.uint8),
    "linspace of NumPy's integer": lambda t: t.linspace(0, 1, np.int64(3)),
    "linspace of a tensor": lambda t: t.linspace(0, 1, t.tensor(3)),
    "linspace of a fraction": lambda t: t.linspace(0, 1, 3.0),
    "randperm of a tensor": lambda t: t.randperm(t.tensor(3)).shape,
    "sizes are integers": lambda t: t.zeros(2.0),
    "pooling by NumPy's integer": lambda t: t.nn.functional.max_pool2d(t.ones(1, 1, 4, 4), np.int64(2)).shape,
    "positions into floats": lambda t: t.nonzero(t.ones(2), out=t.zeros(2)),
    "a choice into another type": lambda t: t.masked_select(t.ones(2, dtype=t.int8), t.tensor([True, False]), out=t.zeros(1, dtype=t.int64)),
    "positions of int32 along a dimension": lambda t: t.take_along_dim(t.ones(2, 2), t.zeros(2, 2, dtype=t.int32), 0),
    "positions that are floats": lambda t: t.unravel_index(t.tensor([1.0]), (2, 2)),
    "vstack of one tensor": lambda t: t.vstack(t.ones(2)),
    "hstack of one tensor": lambda t: t.hstack(t.ones(2)),
    "dstack of one tensor": lambda t: t.dstack(t.ones(2)),
    "column_stack of one tensor": lambda t: t.column_stack(t.ones(2)),
    "stack of one tensor": lambda t: t.stack(t.ones(2, 2)),
    "a complex factor of floats": lambda t: t.addr(t.ones(2, 2), t.ones(2), t.ones(2), beta=2j),
    "a fraction of integers": lambda t: t.addcdiv(t.tensor([1, 1]), t.tensor([1, 1]), t.tensor([1, 1])),
    "bags that do not begin at 0": lambda t: t.nn.EmbeddingBag(4, 2)(t.tensor([0, 1]), t.tensor([1])).shape,
    "weights of another type": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0, 1]), t.ones(3, 2), t.tensor([0]), per_sample_weights=t.ones(2, dtype=t.float64), mode="sum"),
    "a scalar position in a vector": lambda t: t.gather(t.tensor([1.0, 2.0]), 0, t.tensor(0)),
    "random integers up to what float16 holds": lambda t: t.empty(2, dtype=t.float16).random_(32752).shape,
    "residuals of the CPU's driver": lambda t: t.linalg.lstsq(t.tensor([[1.0, 0], [0, 1], [1, 1]]), t.ones(3, 1)).residuals.shape,
    "least squares of a number": lambda t: t.linalg.lstsq(t.ones(2, 2), t.tensor(1.0)),
    "a probability of 0 that never succeeds": lambda t: t.distributions.Geometric(0.0),
    "a list with None": lambda t: [each is None for each in t.nn.ModuleList([t.nn.Linear(2, 2), None])],
    "a network times 2": lambda t: len(t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh()) * 2),
    "a network times 0": lambda t: t.nn.Sequential(t.nn.ReLU()) * 0,
    "a network times a fraction": lambda t: t.nn.Sequential(t.nn.ReLU()) * 1.5,
    "channels last after resizing": lambda t: t.rand(2, 3, 4, 5).resize_(10, 3, 32, 32, memory_format=t.channels_last).stride(),
    "resized as another": lambda t: t.rand(2).resize_as_(t.zeros(2, 3, 4, 5), memory_format=t.channels_last).stride(),
    "a scale by its private name": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.eye(2))._unbroadcasted_scale_tril,
    "a parameter by its private name": lambda t: t.distributions.Categorical(probs=t.tensor([0.2, 0.8]))._param,
    "logits by their private name": lambda t: t.distributions.Bernoulli(logits=t.tensor([0.5]))._param,
    "a lazy module pickled": lambda t: type(pickle.loads(pickle.dumps(t.nn.LazyBatchNorm1d()))).__name__,
    "a lazy module copied": lambda t: type(copy.deepcopy(t.nn.LazyLinear(3))).__name__,
    "a product of another type": lambda t: t.mm(t.ones(2, 2), t.ones(2, 2), t.float32) if t is ours else t.full((2, 2), 2.0),
}  # fmt: skip


def _outcome(case: Case, module: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(case(module))
        except Exception as error:
            # Of errors, the kind counts; one that is told late is of several kinds.
            return " ".join(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name: str) -> None:
    expected, found = _outcome(CASES[name], reference), _outcome(CASES[name], ours)
    assert found == expected or ("Error" in expected and expected.partition(" ")[0] in found.split())


@pytest.mark.parametrize("module", [reference, ours])
def test_behaviours_of_tensors(module: Any, tmp_path: Path) -> None:
    """Reading without gradients, the legacy constructor, subclasses with properties, sizes in memory, files still open."""
    x = module.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with module.no_grad():
        assert x.numpy().tolist() == [1, 1]
    with module.device("meta"):
        assert module.Tensor([1.0, 2.0]).device.type == "cpu" and module.tensor([1.0]).device.type == "meta"
    assert sys.getsizeof(module.zeros(1000).untyped_storage()) >= 4000

    class Renamed(module.Tensor):
        @property
        def dtype(self) -> Any:
            return super().dtype

        @property
        def device(self) -> Any:
            return super().device

    made = module.zeros(2).as_subclass(Renamed)
    assert made.dtype is module.float32 and made.device.type == "cpu" and type(made + 1) is Renamed
    with open(tmp_path / "file.pt", "wb") as file:
        module.save({"a": module.ones(2)}, file)
        assert os.path.getsize(tmp_path / "file.pt") > 0
        assert module.load(tmp_path / "file.pt")["a"].tolist() == [1, 1]


@pytest.mark.parametrize("module", [reference, ours])
def test_contracts_of_classes(module: Any) -> None:
    """Divergences of any classes, transforms that are modules, defaults of custom functions."""
    distributions = module.distributions

    class Left:
        pass

    class Right:
        pass

    distributions.kl.register_kl(Left, Right)(lambda p, q: 3)

    class Learned(distributions.transforms.Transform, module.nn.Module):
        __hash__ = module.nn.Module.__hash__

        def __init__(self) -> None:
            super().__init__()
            self.weight = module.nn.Parameter(module.ones(1))

    assert len(list(Learned().parameters())) == 1

    class Scaled(module.autograd.Function):
        @staticmethod
        def forward(x: Any, y: float = 2.0) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.factor = inputs

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.factor, None

    x = module.ones(2, requires_grad=True)
    Scaled.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


WHOLE = st.sampled_from([int, np.int64, np.int32, np.uint8, "tensor"])


@settings(deadline=None, max_examples=25)
@given(WHOLE, WHOLE)
def test_integer_likes(first: Any, second: Any) -> None:
    """Sizes, counts and dimensions may be NumPy's integers and tensors of one."""

    def like(module: Any, kind: Any, value: int) -> Any:
        return module.tensor(value) if kind == "tensor" else kind(value)

    shapes = []
    for module in (reference, ours):
        one, two = like(module, first, 1), like(module, second, 2)
        x = module.ones(4, 6)
        with contextlib.suppress(StopIteration):
            shapes.append([
                tuple(each.shape) for each in (
                    module.zeros(one, two), module.zeros((two, one)), x.repeat(one, two), x.reshape(two, 12), x.narrow(one, 0, two),
                    x.select(one, two), x.sum(one), x.topk(two).values, x.unfold(one, two, one), x.transpose(0, one),
                    module.arange(two), module.eye(two), module.full((two,), 1.0), module.linspace(0, 1, two), module.randperm(two),
                    module.randint(0, 3, (two, one)), x.roll(one, 0), x.unsqueeze(one), x.expand(two, 4, 6), x.cumsum(one),
                )
            ])  # fmt: skip
    assert shapes[0] == shapes[1]
