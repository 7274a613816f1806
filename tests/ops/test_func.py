"""``torch.func``: the same programs on PyTorch and here, whole results compared: values, structures, types, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as facade
from func_programs import PROGRAMS, x
from webgpu_torch_core import overrides


def outcome(library: Any, name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return PROGRAMS[name](library)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return type(error)


def leaves(value: Any) -> list[Any]:
    """Return what a result holds, with what holds it."""
    if isinstance(value, tuple | list):
        return [type(value).__name__, *(leaf for each in value for leaf in leaves(each))]
    if isinstance(value, dict):
        return ["dict", *(leaf for key in sorted(value) for leaf in (key, *leaves(value[key])))]
    return [value]


def check(actual: Any, expected: Any) -> None:
    mine, theirs = leaves(actual), leaves(expected)
    assert len(mine) == len(theirs), (mine, theirs)
    for one, other in zip(mine, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert isinstance(one, facade.Tensor), one
        assert type(one) is facade.Tensor
        facts = (tuple(one.shape), str(one.dtype), one.requires_grad)
        assert facts == (tuple(other.shape), str(other.dtype), other.requires_grad)
        found = torch.tensor(one.detach().tolist(), dtype=other.dtype).reshape(other.shape)
        torch.testing.assert_close(found, other.detach())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    check(outcome(facade, name), outcome(torch, name))


@pytest.mark.slow_on("webgpu")
def test_programs_on_devices(device: str) -> None:
    with facade.device(device):
        for name in ("masks", "ensemble", "persample", "vhess", "conv", "attention", "cross_entropy_weighted"):
            if name in PROGRAMS:
                check(outcome(facade, name), outcome(torch, name))


def test_batches_are_computed_at_once() -> None:
    """Rules take whole batches: what is recorded does not grow with the number of examples."""
    engine = facade.ones(1)._engine
    counts = []
    for size in (4, 64):
        data, weight = x(facade, size, 3), x(facade, 3, 3)
        before = engine.statistics["recorded"]
        facade.vmap(lambda a, w=weight: facade.nn.functional.gelu(w @ a).softmax(-1).sum())(data)
        counts.append(engine.statistics["recorded"] - before)
    assert counts[0] == counts[1]


def test_random_numbers() -> None:
    data = facade.ones(3, 50)
    for function in (
        lambda a: facade.nn.functional.dropout(a, 0.5),
        lambda a: facade.rand_like(a),
        lambda a: a.clone().normal_(),
    ):
        with pytest.raises(RuntimeError, match="randomness"):
            facade.vmap(function)(data)
        drawn = facade.vmap(function, randomness="different")(data)
        assert drawn[0].tolist() != drawn[1].tolist()
    for function in (lambda a: facade.nn.functional.dropout(a, 0.5), lambda a: facade.rand_like(a)):
        drawn = facade.vmap(function, randomness="same")(data)
        assert drawn[0].tolist() == drawn[1].tolist()
    assert facade.vmap(lambda a: facade.nn.functional.dropout(a, 0.5, training=False))(data).tolist() == data.tolist()


def test_nothing_is_left_behind() -> None:
    with pytest.raises(RuntimeError, match="data-dependent"):
        facade.vmap(lambda a: a if a > 1 else -a)(x(facade, 3))
    assert not overrides._open_modes
    seen: list[str] = []
    facade.vmap(lambda a: seen.append(repr(a)) or a)(x(facade, 2))
    assert seen[0].startswith("BatchedTensor(lvl=1, bdim=0, value=")


MAPS: dict[str, Callable[[Any, Any], Any]] = {
    "element-wise": lambda t, v: v.sin(),
    "sums": lambda t, v: (v**3).sum(0),
    "a sum": lambda t, v: (v**3).sum(),
    "products": lambda t, v: v @ t.ones(2, 4),
    "several": lambda t, v: (v.sin(), (v * v).sum()),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("shape", [(3, 2), (1, 2), (0, 2)])
@pytest.mark.parametrize("name", MAPS)
def test_how_jacobians_lie(name: str, shape: tuple[int, ...]) -> None:
    def run(t: Any) -> list[Any]:
        def function(v: Any) -> Any:
            return MAPS[name](t, v)

        given = t.arange(float(torch.Size(shape).numel())).reshape(shape)
        found = [t.func.jacfwd(function)(given)]
        if given.numel():
            found.append(t.autograd.functional.jacobian(function, given, vectorize=True, strategy="forward-mode"))
        if name in ("sums", "a sum"):
            found.append(t.func.hessian(function)(given))
        return [part for each in found for part in (each if isinstance(each, tuple) else (each,))]

    for found, wanted in zip(run(facade), run(torch), strict=True):
        assert (tuple(found.shape), found.stride()) == (tuple(wanted.shape), wanted.stride())
        torch.testing.assert_close(torch.tensor(found.tolist()).reshape(wanted.shape), wanted)
