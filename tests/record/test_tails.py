"""Layers answer as PyTorch's whatever becomes of their parameters and options between two calls."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.replay import tails

LAYERS = {
    "linear": (lambda t: t.nn.Linear(6, 6), (6,)),
    "conv": (lambda t: t.nn.Conv1d(2, 2, 3, padding=1), (2, 6)),
    "layer norm": (lambda t: t.nn.LayerNorm(6), (6,)),
    "group norm": (lambda t: t.nn.GroupNorm(1, 6), (6,)),
    "batch norm": (lambda t: t.nn.BatchNorm1d(6).eval(), (6,)),
    "rms norm": (lambda t: t.nn.RMSNorm(6, eps=1e-5), (6,)),
}


def _written(t: Any, layer: Any) -> None:
    layer.weight.mul_(1.5)


def _other_data(t: Any, layer: Any) -> None:
    layer.weight.data = layer.weight.data * 2


def _other_parameter(t: Any, layer: Any) -> None:
    layer.weight = t.nn.Parameter(layer.weight.detach() + 1)


def _turned(t: Any, layer: Any) -> None:
    if layer.weight.ndim == 2:
        layer.weight.data = layer.weight.data.t()


def _other_bias(t: Any, layer: Any) -> None:
    if getattr(layer, "bias", None) is not None:
        layer.bias = t.nn.Parameter(layer.bias.detach() - 1)


def _written_bias(t: Any, layer: Any) -> None:
    if getattr(layer, "bias", None) is not None:
        layer.bias.add_(0.5)


def _no_bias(t: Any, layer: Any) -> None:
    if getattr(layer, "bias", None) is not None:
        layer.bias = None


def _other_option(t: Any, layer: Any) -> None:
    if hasattr(layer, "eps"):
        layer.eps = 0.1
    if hasattr(layer, "dilation"):
        layer.dilation, layer.padding = (2,), (2,)


def _other_statistics(t: Any, layer: Any) -> None:
    if hasattr(layer, "running_var"):
        layer.running_var.add_(1)


CHANGES = (
    _written, _other_data, _other_parameter, _turned, _other_bias, _written_bias, _no_bias, _other_option, _other_statistics,
)  # fmt: skip
ACTIONS = st.one_of(st.sampled_from(CHANGES), st.integers(1, 3), st.just("with gradients"), st.just("its own weight"))


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
@given(st.sampled_from(sorted(LAYERS)), st.lists(ACTIONS, min_size=3, max_size=12))
@settings(max_examples=60, deadline=None)
def test_layers_answer_alike(place: str, name: str, actions: list[Any]) -> None:
    def answers(t: Any) -> list[Any]:
        make, shape = LAYERS[name]
        t.manual_seed(0)
        layer, found = make(t), []
        inputs = {count: t.randn(count, *shape) for count in (1, 2, 3)}
        if t is ours:
            layer, inputs = layer.to(place), {count: each.to(place) for count, each in inputs.items()}
        for action in actions:
            if callable(action):
                with t.no_grad():
                    action(t, layer)
            elif action == "with gradients":
                found.append(layer(inputs[2]).tolist())
            elif action == "its own weight":
                with t.no_grad():
                    found.append(layer(layer.weight).tolist() if name == "linear" else None)
            else:
                with t.no_grad():
                    found += [layer(inputs[action]).tolist() for _ in range(3)]
        return found

    for one, other in zip(answers(ours), answers(torch), strict=True):
        if other is not None:
            torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-4, atol=1e-5)


def test_parameters_are_described_once_and_not_kept() -> None:
    with ours.device("cpu"), ours.no_grad():
        layer, x = ours.nn.Linear(4, 4), ours.randn(3, 4)
        for _ in range(3):
            layer(x).tolist()
        value = layer.weight._storage.value
        (tail,) = value.tails.values()
        assert isinstance(tail, tails.Tail)
        assert tail.others[0] is layer.bias
        references = [weakref.ref(each) for each in (value, layer.bias, layer.bias._storage.value)]
        del tail, value
        layer.weight.add_(1)
        assert references[0]() is None
        layer(x).tolist()
        del layer
        assert all(each() is None for each in references)


def test_what_is_made_for_a_call_keeps_nothing() -> None:
    with ours.device("cpu"), ours.no_grad():
        x = ours.randn(3, 4)
        weight = ours.randn(4, 4) * 2
        ours.nn.functional.linear(x, weight)
        assert weight._storage.value.tails is None
