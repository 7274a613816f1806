"""Steps of drawn optimisers: options, learning rates that change, shapes, layouts and types, parameters without a gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

BETAS = st.sampled_from([(0.9, 0.999), (0.8, 0.95), (0.0, 0.9)])
EPS = st.sampled_from([1e-8, 1e-3])
YES = st.booleans()
#: what each draws from besides ``maximize`` and, but for Rprop, ``weight_decay``
OPTIONS: dict[str, dict[str, st.SearchStrategy]] = {
    "SGD": {
        "momentum": st.sampled_from([0, 0.5, 0.9]), "dampening": st.sampled_from([0, 0.25]), "nesterov": YES,
    },
    "Adam": {"betas": BETAS, "eps": EPS, "amsgrad": YES, "decoupled_weight_decay": YES},
    "AdamW": {"betas": BETAS, "eps": EPS, "amsgrad": YES},
    "RMSprop": {
        "alpha": st.sampled_from([0.99, 0.5]), "eps": EPS, "momentum": st.sampled_from([0, 0.9]), "centered": YES,
    },
    "Adagrad": {"lr_decay": st.sampled_from([0, 0.1]), "initial_accumulator_value": st.sampled_from([0, 0.5]), "eps": EPS},
    "Adadelta": {"rho": st.sampled_from([0.9, 0.5]), "eps": st.sampled_from([1e-6, 1e-3])},
    "Adamax": {"betas": BETAS, "eps": EPS},
    "NAdam": {"betas": BETAS, "eps": EPS, "momentum_decay": st.sampled_from([4e-3, 0.1]), "decoupled_weight_decay": YES},
    "RAdam": {"betas": BETAS, "eps": EPS, "decoupled_weight_decay": YES},
    "ASGD": {"lambd": st.sampled_from([1e-4, 0.1]), "alpha": st.sampled_from([0.75, 1]), "t0": st.sampled_from([2, 1e6])},
    "Rprop": {"etas": st.sampled_from([(0.5, 1.2), (0.25, 2.0)]), "step_sizes": st.sampled_from([(1e-6, 50), (0.01, 0.02)])},
}  # fmt: skip


class Training:
    """The same parameters and gradients under either library."""

    def __init__(self, library: Any, device: str, values: list[torch.Tensor]) -> None:
        self.library, self.device = library, device
        self.parameters = [self.made(each).requires_grad_() for each in values]
        self.optimizer: Any = None

    def made(self, value: torch.Tensor) -> Any:
        """Return a tensor of the library with these values and strides."""
        kind = getattr(self.library, str(value.dtype).removeprefix("torch."))
        dense = self.library.empty_strided(value.shape, value.stride(), dtype=kind, device=self.device)
        return dense.copy_(self.library.tensor(value.tolist(), dtype=kind, device=self.device).reshape(value.shape))

    def step(self, grads: list[torch.Tensor | None]) -> None:
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = None if grad is None else self.made(grad)
        self.optimizer.step()

    def seen(self) -> list[Any]:
        """Return the parameters and all that is kept of them."""
        states = self.optimizer.state_dict()["state"]
        return [
            [(each.stride(), each.detach().tolist()) for each in self.parameters],
            {key: {name: self.told(value) for name, value in state.items()} for key, state in states.items()},
        ]

    def told(self, value: Any) -> Any:
        if not isinstance(value, self.library.Tensor):
            return value
        return str(value.dtype), tuple(value.shape), value.stride(), value.tolist()


def tensors(data: st.DataObject, device: str) -> list[torch.Tensor]:
    kinds = [torch.float32, torch.float32, torch.complex64, *([torch.float64] if device == "cpu" else [])]
    shapes = [(), (1,), (5,), (2, 3), (2, 3), (0, 2), (2, 1, 3)]
    made = []
    for shape in data.draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=4)):
        value = torch.randn(shape, dtype=data.draw(st.sampled_from(kinds)))
        made.append(value.t().contiguous().t() if value.dim() == 2 and data.draw(YES) else value)
    return made


def close(found: Any, wanted: Any, where: str = "") -> None:
    """Check that two structures are the same, but for the last bits of their numbers."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            close(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for at, pair in enumerate(zip(found, wanted, strict=True)):
            close(*pair, f"{where}.{at}")
    elif isinstance(wanted, (float, complex)):
        assert found == pytest.approx(wanted, rel=1e-5, abs=2e-6, nan_ok=True), where
    else:
        assert found == wanted, where


def any_steps(device: str, name: str, data: st.DataObject) -> None:
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    options = {key: data.draw(each, label=key) for key, each in OPTIONS[name].items()}
    options["maximize"] = data.draw(YES)
    if name != "Rprop":
        options["weight_decay"] = data.draw(st.sampled_from([0, 0.1]))
    if options.get("nesterov"):
        options |= {"momentum": 0.9, "dampening": 0}
    held = data.draw(st.sampled_from([None, None, (), (1,)])) if name not in ("ASGD", "Rprop") else None
    values = tensors(data, device)
    both = Training(torch, "cpu", values), Training(ours, device, values)
    for each in both:
        lr = 0.05 if held is None else each.library.full(held, 0.05, device=each.device)
        each.optimizer = getattr(each.library.optim, name)(each.parameters, lr=lr, **options)
    for _ in range(data.draw(st.integers(1, 8))):
        kept = [data.draw(st.sampled_from([True, True, True, False])) for _ in values]
        grads = [torch.randn_like(value) if has else None for value, has in zip(values, kept, strict=True)]
        for each in both:
            each.step(grads)
        close(both[1].seen(), both[0].seen())
        factor = data.draw(st.sampled_from([1.0, 1.0, 0.5]))
        for each in both:
            for group in each.optimizer.param_groups:
                group["lr"] = group["lr"] * factor


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("count", [pytest.param(4, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_any_steps(device: str, name: str, count: int) -> None:
    settings(max_examples=count)(given(data=st.data())(lambda data: any_steps(device, name, data)))()
