"""Modules whose first input decides their sizes, against PyTorch's."""

from __future__ import annotations

import copy
import itertools
import operator
from typing import Any

import pytest
import torch
import webgpu_torch as ours

CASES = {
    "LazyLinear": ((5,), {}, (3, 4)),
    "LazyConv2d": ((6, 3), {"padding": 1, "groups": 2}, (2, 4, 5, 5)),
    "LazyConvTranspose1d": ((6, 3), {"stride": 2, "bias": False}, (2, 4, 5)),
    "LazyBatchNorm2d": ((), {"momentum": 0.2}, (2, 4, 3, 3)),
    "LazyInstanceNorm1d": ((), {"affine": True, "track_running_stats": True}, (2, 4, 6)),
}


def made(library: Any, name: str) -> Any:
    arguments, options, _ = CASES[name]
    library.manual_seed(0)
    return getattr(library.nn, name)(*arguments, **options)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("name", CASES)
def test_sizes_come_with_the_first_input(name: str) -> None:
    theirs, mine = made(torch, name), made(ours, name)
    assert repr(mine) == repr(theirs)
    assert [str(each) for each in mine.state_dict().values() if ours.nn.parameter.is_lazy(each)] == [
        str(each) for each in theirs.state_dict().values() if torch.nn.parameter.is_lazy(each)
    ]
    data = torch.randn(CASES[name][2])
    ours.manual_seed(1)
    torch.manual_seed(1)
    found, wanted = mine(ours.tensor(data.tolist())), theirs(data)
    torch.testing.assert_close(torch.tensor(found.tolist()), wanted.detach())
    assert type(mine).__name__ == type(theirs).__name__
    assert repr(mine) == repr(theirs)
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(torch.tensor(mine.state_dict()[key].tolist()), value, check_dtype=False)


@pytest.mark.parametrize("name", CASES)
def test_states_load_into_either(name: str) -> None:
    full, empty = made(ours, name), made(ours, name)
    full(ours.randn(CASES[name][2]))
    empty.load_state_dict(full.state_dict())
    assert not empty.has_uninitialized_params()
    for key, value in full.state_dict().items():
        assert empty.state_dict()[key].tolist() == value.tolist()
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        full.load_state_dict(made(ours, name).state_dict())


def test_before_the_first_input() -> None:
    lazy = ours.nn.LazyLinear(3)
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        _ = lazy.weight.shape
    copied = copy.deepcopy(lazy)
    assert ours.nn.parameter.is_lazy(copied.weight)
    assert lazy.double().weight.dtype is ours.float64
    assert lazy(ours.ones(2, 4, dtype=ours.float64)).dtype is ours.float64
    assert ours.nn.parameter.is_lazy(copied.weight)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="Expected 3D"):
        ours.nn.LazyConv2d(4, 3)(ours.ones(4, 4))
    with pytest.raises(ValueError, match="divisible by groups"):
        ours.nn.LazyConv1d(4, 3, groups=2)(ours.ones(1, 3, 8))


@pytest.mark.parametrize(
    "module",
    [
        "nn",
        "optim",
        "optim.lr_scheduler",
        "utils.data",
        "nn.parameter",
        "distributions",
        "distributions.constraints",
        "distributions.transforms",
    ],
)
def test_classes_are_related_as_pytorchs(module: str) -> None:
    theirs, mine = operator.attrgetter(module)(torch), operator.attrgetter(module)(ours)
    names = [
        each for each in dir(theirs) if all(isinstance(getattr(side, each, None), type) for side in (theirs, mine))
    ]
    assert len(names) > 3
    for one, other in itertools.product(names, names):
        expected = issubclass(getattr(theirs, one), getattr(theirs, other))
        assert issubclass(getattr(mine, one), getattr(mine, other)) is expected, (one, other)


@pytest.mark.parametrize("conversion", ["half", "double", "float", "cpu"])
def test_lazy_modules_are_converted_before_they_have_sizes(conversion: str) -> None:
    answers = []
    for library in (torch, ours):
        nn = library.nn
        module = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5))
        getattr(module, conversion)()
        kinds = [type(each).__name__ for each in (*module.parameters(), *module.buffers())]
        module.float()
        shape = tuple(module(library.ones(2, 3, 5, 5)).shape)
        answers.append([kinds, shape, [tuple(each.shape) for each in module.buffers()]])
    assert answers[1] == answers[0]
