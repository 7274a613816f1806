"""One module of PyTorch's and one of ours, made alike from one seed, and what they answer side by side."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, to_ours


def leaves(value: Any, kind: type) -> list[Any]:
    """Return the tensors inside of tuples, lists and dictionaries, in order."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for each in value for leaf in leaves(each, kind)] if isinstance(value, list | tuple) else []


def moved(value: Any, device: str, known: dict[int, Any] | None = None) -> Any:
    """Return a copy on our side: tensors, packed sequences and what holds them; one tensor given twice stays one."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        order = None if value.sorted_indices is None else to_ours(value.sorted_indices, device)
        return nn.utils.rnn.PackedSequence(moved(value.data, device), to_ours(value.batch_sizes), order)
    if isinstance(value, torch.Tensor):
        result = to_ours(value, device)
        known[id(value)] = result.requires_grad_() if value.requires_grad else result
        return known[id(value)]
    if isinstance(value, dict):
        return {key: moved(each, device, known) for key, each in value.items()}
    return type(value)(moved(each, device, known) for each in value) if isinstance(value, list | tuple) else value


def seeded(seed: int) -> None:
    """Start both libraries' random numbers anew."""
    torch.manual_seed(seed)
    ours.manual_seed(seed)


class Pair:
    """The same module twice, with the same starting values, which the constructor of this class checks."""

    def __init__(self, name: str, device: str, *args: Any, **kwargs: Any) -> None:
        self.device = device
        seeded(3)
        self.theirs = getattr(torch.nn, name)(*args, **kwargs)
        self.ours = getattr(nn, name)(*args, **kwargs)
        assert repr(self.ours) == repr(self.theirs)
        state, expected = self.ours.state_dict(), self.theirs.state_dict()
        assert list(state) == list(expected)
        for key, value in expected.items():
            close(state[key], value, 0.0, 0.0)
        self.ours.to(device)

    def eval(self) -> Pair:
        """Set evaluation mode."""
        self.theirs.eval()
        self.ours.eval()
        return self

    def check(self, *args: Any, rtol: float = 1e-4, atol: float = 2e-5, **kwargs: Any) -> Any:
        """Compare results and the gradients of inputs and weights; return our result."""
        expected = self.theirs(*args, **kwargs)
        my_args, my_kwargs = moved(args, self.device), moved(kwargs, self.device)
        actual = self.ours(*my_args, **my_kwargs)
        wanted, found = leaves(expected, torch.Tensor), leaves(actual, ours.Tensor)
        assert len(found) == len(wanted)
        for have, want in zip(found, wanted, strict=True):
            close(have, want, rtol, atol)
        self._check_gradients(wanted, found, (args, kwargs), (my_args, my_kwargs), rtol * 10, atol * 10)
        return actual

    def _check_gradients(
        self, wanted: list[Any], found: list[Any], given: Any, my_given: Any, rtol: float, atol: float
    ) -> None:
        inputs = [each for each in leaves(given, torch.Tensor) if each.requires_grad]
        my_inputs = [each for each in leaves(my_given, ours.Tensor) if each.requires_grad]
        inputs, my_inputs = [*inputs, *self.theirs.parameters()], [*my_inputs, *self.ours.parameters()]
        total = sum((each * (each * 0.3 + 1)).sum() for each in wanted if each.requires_grad)
        my_total: Any = sum((each * (each * 0.3 + 1)).sum() for each in found if each.requires_grad)
        expected = torch.autograd.grad(total, inputs, allow_unused=True)
        actual = ours.autograd.grad(my_total, my_inputs, allow_unused=True)
        for have, want in zip(actual, expected, strict=True):
            assert (have is None) == (want is None)
            if want is not None:
                close(have, want, rtol, atol)
