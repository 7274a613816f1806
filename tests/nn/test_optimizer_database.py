"""PyTorch's own database of optimisers: every option set, five steps, and state dicts that travel both ways."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from torch.testing._internal.common_optimizers import optim_db
from webgpu_torch import webgpu

DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]
#: what is out of reach, and why
#: its gradients are sparse: ``test_sparse_gradients.py``
ELSEWHERE = {"SparseAdam"}
SHAPES = {"Muon": ((6, 4), (3, 5))}
DEFAULT_SHAPES = ((6, 4), (5,), (2, 3, 4), ())
#: bfloat16 rounds differently wherever sums are taken in another order
TOLERANCES: dict[str, dict[str, float]] = {"Muon": {"rtol": 1.6e-2, "atol": 1e-4}}


#: a search along lines reads a value at every point; these take long
LONG = ("LBFGS-1", "LBFGS-2")


def cases(all_states: bool = True) -> list[Any]:
    """Return (name, options, device); two sets of options of each do at once where not all states travel."""
    found = []
    for info in optim_db:
        name = info.optim_cls.__name__
        if name in ELSEWHERE:
            continue
        for index, sample in enumerate(info.optim_inputs_func(device="cpu")):
            for device in DEVICES:
                later = f"{name}-{index}" in LONG or not (all_states or index in (0, 2))
                marks = [pytest.mark.slow] if later else []
                found.append(pytest.param(name, sample, device, id=f"{name}-{index}-{device}", marks=marks))
    return found


def translate(value: Any, device: str, seen: dict[int, Any] | None = None) -> Any:
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        # The same tensor twice is the same tensor twice.
        if id(value) not in seen:
            seen[id(value)] = _translate_tensor(value)
        return seen[id(value)]
    if isinstance(value, dict):
        return {key: translate(item, device, seen) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(translate(item, device, seen) for item in value)
    return value


def _translate_tensor(value: torch.Tensor) -> Any:
    return ours.tensor(value.tolist(), dtype=getattr(ours, str(value.dtype).removeprefix("torch.")))


class Run:
    """The same parameters, gradients and options under either library."""

    def __init__(self, library: Any, name: str, options: dict[str, Any], device: str) -> None:
        generator = torch.Generator().manual_seed(3)
        shapes = SHAPES.get(name, DEFAULT_SHAPES)
        self.library, self.device = library, device
        self.parameters = [
            library.tensor(torch.randn(shape, generator=generator).tolist(), device=device, requires_grad=True)
            for shape in shapes
        ]
        self.targets = [
            library.tensor(torch.randn(shape, generator=generator).tolist(), device=device) for shape in shapes
        ]
        options = {key: value for key, value in options.items() if key != "params"}
        self.optimizer = getattr(library.optim, name)(self.parameters, **options)

    def loss(self) -> Any:
        self.optimizer.zero_grad()
        terms = [
            ((each - target) ** 2 + 0.1 * (each * 3).sin()).sum()
            for each, target in zip(self.parameters, self.targets, strict=True)
        ]
        total = sum(terms[1:], terms[0])
        total.backward()
        return total

    def step(self) -> None:
        if type(self.optimizer).__name__ == "LBFGS":
            self.optimizer.step(self.loss)
        else:
            self.loss()
            self.optimizer.step()

    def values(self) -> list[torch.Tensor]:
        return [torch.tensor(each.detach().tolist()) for each in self.parameters]


def compare(mine: Run, theirs: Run, name: str) -> None:
    for found, wanted in zip(mine.values(), theirs.values(), strict=True):
        torch.testing.assert_close(found, wanted, **TOLERANCES.get(name, {}))


@pytest.mark.slow_on("Muon-2-webgpu")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "sample", "device"), cases())
def test_five_steps(name: str, sample: Any, device: str) -> None:
    theirs = Run(torch, name, copy.deepcopy(sample.kwargs), "cpu")
    mine = Run(ours, name, translate(sample.kwargs, device), device)
    for _ in range(5):
        theirs.step()
        mine.step()
        compare(mine, theirs, name)


def as_torch(value: Any) -> Any:
    if isinstance(value, ours.Tensor):
        return torch.tensor(value.tolist(), dtype=getattr(torch, str(value.dtype).removeprefix("torch.")))
    if isinstance(value, dict):
        return {key: as_torch(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_torch(item) for item in value)
    return value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow_on("Muon-2-webgpu")
@pytest.mark.parametrize(("name", "sample", "device"), cases(all_states=False))
def test_state_travels_both_ways(name: str, sample: Any, device: str) -> None:
    theirs = Run(torch, name, copy.deepcopy(sample.kwargs), "cpu")
    mine = Run(ours, name, translate(sample.kwargs, device), device)
    for _ in range(3):
        theirs.step()
        mine.step()
    saved = theirs.optimizer.state_dict()
    own = mine.optimizer.state_dict()
    assert set(saved["state"]) == set(own["state"])
    for key, state in saved["state"].items():
        assert set(state) == set(own["state"][key])
    resumed = Run(ours, name, translate(sample.kwargs, device), device)
    back = Run(torch, name, copy.deepcopy(sample.kwargs), "cpu")
    with ours.no_grad(), torch.no_grad():
        for target, source in zip(resumed.parameters, theirs.parameters, strict=True):
            target.copy_(ours.tensor(source.tolist()))
        for target, source in zip(back.parameters, mine.parameters, strict=True):
            target.copy_(torch.tensor(source.tolist()))
    resumed.optimizer.load_state_dict(translate(saved, device))
    back.optimizer.load_state_dict(as_torch(own))
    for _ in range(2):
        for each in (theirs, resumed, back):
            each.step()
        compare(resumed, theirs, name)
        compare(resumed, back, name)


@pytest.mark.parametrize(
    "info",
    [each for each in optim_db if each.optim_cls.__name__ not in ELSEWHERE],
    ids=lambda info: info.optim_cls.__name__,
)
def test_errors_are_pytorchs(info: Any) -> None:
    name = info.optim_cls.__name__
    for each in info.optim_error_inputs_func(device="cpu", dtype=torch.float32):
        if each.error_on != each.error_on.CONSTRUCTION_ERROR:
            continue
        given = each.optimizer_error_input
        if given.params is None:
            continue
        with pytest.raises(each.error_type) as theirs:
            info.optim_cls(given.params, **given.kwargs)
        with pytest.raises(each.error_type) as mine:
            getattr(ours.optim, name)(translate(given.params, "cpu"), **translate(given.kwargs, "cpu"))
        # PyTorch's longer ones go on with a link to its issues.
        assert str(theirs.value).startswith(str(mine.value))


def test_every_optimizer_is_there() -> None:
    names = {info.optim_cls.__name__ for info in optim_db}
    assert not {name for name in names if not hasattr(ours.optim, name)}
