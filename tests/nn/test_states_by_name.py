"""States of models and optimisers by name are PyTorch's, with and without wrappers, and are loaded into others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed.checkpoint.state_dict as theirs
import webgpu_torch
import webgpu_torch.distributed.checkpoint.state_dict as ours

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning")
BOTH: tuple[tuple[Any, Any], ...] = ((webgpu_torch, ours), (torch, theirs))


def told(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, (torch.Tensor, webgpu_torch.Tensor)):
        return [value.shape, [round(each, 5) for each in value.flatten().tolist()]]
    return value


def made(library: Any) -> Any:
    torch_like = library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3))
    for number, each in enumerate(torch_like.parameters()):
        with library.no_grad():
            each.copy_(library.arange(float(each.numel())).reshape(each.shape) + number)
    return torch_like


OPTIMISERS = {
    "Adam": lambda library, model: library.optim.Adam(model.parameters(), amsgrad=True),
    "SGD": lambda library, model: library.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[1].parameters()}], lr=0.5, momentum=0.9
    ),
    "Adagrad": lambda library, model: library.optim.Adagrad(model.parameters()),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("flat", [False, True])
def test_optimisers(name: str, steps: int, flat: bool) -> None:
    found = []
    for library, states in BOTH:
        model = made(library)
        optimizer = OPTIMISERS[name](library, model)
        for _ in range(steps):
            optimizer.zero_grad()
            (model[0](library.ones(2, 2)).sum() + model[1].weight.sum() + model[1].bias.sum()).backward()
            optimizer.step()
        optimizer.zero_grad()
        options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
        state = states.get_state_dict(model, optimizer, options=options)
        other = made(library)
        its = OPTIMISERS[name](library, other)
        keys = states.set_state_dict(other, its, model_state_dict=state[0], optim_state_dict=state[1], options=options)
        found.append(told([state, list(keys), other.state_dict(), its.state_dict()]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options", [{"keep_submodule_prefixes": False}, {"ignore_frozen_params": True}, {"cpu_offload": True}]
)
def test_models(options: dict[str, bool]) -> None:
    found = []
    for library, states in BOTH:
        model = made(library)
        model[0].bias.requires_grad_(False)
        chosen = states.StateDictOptions(**options)
        state = states.get_model_state_dict(model, options=chosen)
        inside = states.get_model_state_dict(model, submodules={model[0]}, options=chosen)
        lenient = states.StateDictOptions(strict=False)
        missing = states.set_model_state_dict(
            model, {"0.bias": library.zeros(3), "other": library.zeros(1)}, options=lenient
        )
        with pytest.raises(RuntimeError, match="Missing key"):
            states.set_model_state_dict(model, {"0.bias": library.zeros(3)})
        found.append(told([state, inside, list(missing), model.state_dict()]))
    assert found[0] == found[1]


def test_wrappers_have_no_part_in_names() -> None:
    compiled = webgpu_torch.compile(made(webgpu_torch))
    state = ours.get_model_state_dict(compiled)
    assert list(state) == list(made(webgpu_torch).state_dict())
    assert told(list(ours.set_model_state_dict(compiled, state))) == [[], []]
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        ours.StateDictOptions(broadcast_from_rank0=True)
