"""Parametrised tensors against PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from webgpu_torch import webgpu

DEVICES = ["cpu", *(["webgpu"] if webgpu.is_available() else [])]


def same(mine: Any, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(mine.detach().tolist()), theirs.detach())


def pair(kind: str, *arguments: Any, device: str = "cpu") -> tuple[Any, Any]:
    torch.manual_seed(0)
    ours.manual_seed(0)
    theirs, mine = getattr(torch.nn, kind)(*arguments), getattr(ours.nn, kind)(*arguments).to(device)
    return mine, theirs


def check_step(mine: Any, theirs: Any, shape: tuple[int, ...], device: str) -> None:
    data = torch.randn(shape)
    found = mine(ours.tensor(data.tolist(), device=device))
    wanted = theirs(data)
    same(found, wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    assert [name for name, _ in mine.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    for (_, left), (_, right) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(torch.tensor(left.grad.tolist()), right.grad, rtol=1e-4, atol=1e-5)
    assert list(mine.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.filterwarnings("ignore")
def test_weight_norm_both_forms(dim: int | None, device: str) -> None:
    for place in ("parametrizations", None):
        mine, theirs = pair("Conv1d", 3, 4, 2, device=device)
        for library, module in ((ours, mine), (torch, theirs)):
            utils = library.nn.utils
            (getattr(utils, place) if place else utils).weight_norm(module, dim=dim)
        check_step(mine, theirs, (2, 3, 6), device)


@pytest.mark.filterwarnings("ignore")
def test_weight_norm_is_undone_and_older_files_load() -> None:
    mine, _ = pair("Linear", 3, 4)
    before = mine.weight.tolist()
    ours.nn.utils.weight_norm(mine)
    older = mine.state_dict()
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        ours.nn.utils.weight_norm(mine)
    ours.nn.utils.remove_weight_norm(mine)
    torch.testing.assert_close(torch.tensor(mine.weight.tolist()), torch.tensor(before))
    with pytest.raises(ValueError, match="not found"):
        ours.nn.utils.remove_weight_norm(mine)
    newer = ours.nn.utils.parametrizations.weight_norm(ours.nn.Linear(3, 4))
    newer.load_state_dict(older)
    torch.testing.assert_close(torch.tensor(newer.weight.tolist()), torch.tensor(before))


@pytest.mark.parametrize("device", DEVICES)
def test_spectral_norm(device: str) -> None:
    mine, theirs = pair("Conv2d", 3, 4, 2)
    ours.manual_seed(1)
    torch.manual_seed(1)
    ours.nn.utils.parametrizations.spectral_norm(mine, n_power_iterations=2)
    torch.nn.utils.parametrizations.spectral_norm(theirs, n_power_iterations=2)
    mine.to(device)
    check_step(mine, theirs, (2, 3, 5, 5), device)
    mine.eval()
    theirs.eval()
    same(mine.weight, theirs.weight)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.filterwarnings("ignore")
def test_orthogonal(kind: str, shape: tuple[int, int]) -> None:
    mine, theirs = pair("Linear", *shape)
    for library, module in ((ours, mine), (torch, theirs)):
        library.manual_seed(1)
        library.nn.utils.parametrizations.orthogonal(module, orthogonal_map=kind)
    with torch.no_grad(), ours.no_grad():
        change = torch.randn(shape[1], shape[0])
        theirs.parametrizations.weight.original.add_(change.tril(-1))
        mine.parametrizations.weight.original.add_(ours.tensor(change.tril(-1).tolist()))
    torch.testing.assert_close(torch.tensor(mine.weight.tolist()), theirs.weight.detach(), rtol=1e-4, atol=1e-5)
    weight = mine.weight
    short = weight @ weight.T if weight.shape[0] < weight.shape[1] else weight.T @ weight
    torch.testing.assert_close(torch.tensor(short.tolist()), torch.eye(min(shape)), rtol=1e-4, atol=1e-5)


class Symmetric:
    """Made for either library."""

    def __new__(cls, library: Any) -> Any:
        class Inner(library.nn.Module):
            def forward(self, x: Any) -> Any:
                return x.triu() + x.triu(1).T

            def right_inverse(self, x: Any) -> Any:
                return x.triu()

        return Inner()


def test_own_parametrization() -> None:
    mine, theirs = pair("Linear", 4, 4)
    for library, module in ((ours, mine), (torch, theirs)):
        library.nn.utils.parametrize.register_parametrization(module, "weight", Symmetric(library))
        assert type(module).__name__ == "ParametrizedLinear"
        assert library.nn.utils.parametrize.is_parametrized(module, "weight")
    check_step(mine, theirs, (2, 4), "cpu")
    value = torch.arange(16.0).reshape(4, 4)
    value = value + value.T
    theirs.weight = value
    mine.weight = ours.tensor(value.tolist())
    same(mine.weight, theirs.weight)
    copied = copy.deepcopy(mine)
    assert copied.weight.tolist() == mine.weight.tolist()
    with ours.nn.utils.parametrize.cached():
        assert mine.weight is mine.weight
    assert mine.weight is not mine.weight
    ours.nn.utils.parametrize.remove_parametrizations(mine, "weight")
    assert type(mine) is ours.nn.Linear
    assert isinstance(mine.weight, ours.nn.Parameter)
    torch.testing.assert_close(torch.tensor(mine.weight.tolist()), value)


def test_errors() -> None:
    linear = ours.nn.Linear(2, 3)
    with pytest.raises(ValueError, match="does not have a parameter"):
        ours.nn.utils.parametrize.register_parametrization(linear, "nothing", ours.nn.Identity())

    class Wider(ours.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.repeat(2, 1)

    with pytest.raises(ValueError, match="may not change the shape"):
        ours.nn.utils.parametrize.register_parametrization(linear, "weight", Wider())
    with pytest.raises(ValueError, match="does not have a parametrization on"):
        ours.nn.utils.parametrize.remove_parametrizations(linear, "weight")


def test_skip_init() -> None:
    made = ours.nn.utils.skip_init(ours.nn.Linear, 3, 4)
    assert made.weight.shape == (4, 3)
    assert made.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected a Module"):
        ours.nn.utils.skip_init(int)
