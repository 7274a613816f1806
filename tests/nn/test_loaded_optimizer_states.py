"""What optimisers share with the states they load, and which options exclude each other: as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "RMSprop": {"centered": True, "momentum": 0.5}, "Adagrad": {},
    "Adadelta": {}, "Rprop": {},
}  # fmt: skip


def _stepped(library: Any, name: str, load: str) -> dict[str, list[float]]:
    """Step a second optimiser that loaded the first one's state, and return the first one's."""
    weights = [library.tensor([1.0, -2.0], requires_grad=True) for _ in range(2)]
    first, second = (getattr(library.optim, name)([each], lr=0.1, **OPTIMIZERS[name]) for each in weights)
    weights[0].grad = library.tensor([0.5, 0.25])
    first.step()
    saved = first.state_dict()
    if load == "double":
        weights[1].data = weights[1].data.double()
    second.load_state_dict(saved)
    weights[1].grad = weights[1].detach() * 2
    second.step()
    state = first.state_dict()["state"][0]
    return {key: value.tolist() for key, value in state.items() if hasattr(value, "ndim") and value.ndim}


@pytest.mark.parametrize("load", ["same", "double"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loaded_states_are_shared_where_types_agree(name: str, load: str) -> None:
    wanted, found = _stepped(torch, name, load), _stepped(ours, name, load)
    assert wanted.keys() == found.keys()
    for key in wanted:
        torch.testing.assert_close(torch.tensor(found[key]), torch.tensor(wanted[key]))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_options_that_exclude_each_other(name: str) -> None:
    for library in (torch, ours):
        for option in ("foreach", "differentiable"):
            with pytest.raises(RuntimeError, match="fused"):
                getattr(library.optim, name)([library.ones(1)], fused=True, **{option: True})


@pytest.mark.parametrize("most", [2, 3, 5, None])
def test_evaluations_of_line_searches_are_limited(most: int | None) -> None:
    def path(library: Any) -> tuple[list[float], int]:
        weight = library.tensor([-1.2, 1.0], requires_grad=True)
        optimizer = library.optim.LBFGS([weight], lr=0.7, max_iter=6, max_eval=most, line_search_fn="strong_wolfe")
        calls = 0

        def closure() -> Any:
            nonlocal calls
            calls += 1
            optimizer.zero_grad()
            loss = (1 - weight[0]) ** 2 + 100 * (weight[1] - weight[0] ** 2) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)
        return weight.tolist(), calls

    (wanted, expected), (found, calls) = path(torch), path(ours)
    assert calls == expected
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize(("most", "steps"), [(1, 1), (1, 3), (2, 1), (5, 2)])
def test_what_lbfgs_keeps(most: int, steps: int, search: str | None) -> None:
    def kept(library: Any) -> list[tuple[str, Any]]:
        weight = library.tensor([1.0, -2.0, 0.5], requires_grad=True)
        optimizer = library.optim.LBFGS([weight], lr=0.3, max_iter=most, line_search_fn=search, history_size=3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((weight - library.tensor([0.3, 0.1, 0.2])) ** 4).sum() + (weight**2).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return list(optimizer.state_dict()["state"][0].items())

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        return torch.tensor(value.tolist()) if hasattr(value, "tolist") else value

    wanted, found = kept(torch), kept(ours)
    assert [(name, type(each).__name__) for name, each in found] == [
        (name, type(each).__name__) for name, each in wanted
    ]
    for (_, expected), (_, each) in zip(wanted, found, strict=True):
        for one, other in zip(plain([each]), plain([expected]), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
