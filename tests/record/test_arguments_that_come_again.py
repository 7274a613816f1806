"""Objects among a compiled function's arguments that come again are looked at less; what changed in them is noticed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import webgpu_torch as torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.replay.guards import Description
from webgpu_torch_core.replay.lately import Lately

pytestmark = pytest.mark.filterwarnings("ignore:torch.compile")


class Layer:
    def __init__(self, number: int, device: str) -> None:
        self.keys: Any = torch.full((2, 3), float(number), device=device)
        self.values: Any = torch.full((3,), 0.5, device=device)
        self.scale: Any = 2
        self.options: Any = {"shift": [0.25, 1.0], "on": True}


class Cache:
    """Nested objects, as transformers' caches are."""

    def __init__(self, device: str) -> None:
        self.layers = [Layer(number, device) for number in range(3)]
        self.kinds = ("full", "full")
        self.first: Any = None


def step(x: Any, cache: Any, others: Any, bias: Any = None) -> Any:
    """Read all that a cache may hold, and write into some of it."""
    total = x * len(cache.layers) + (0 if bias is None else bias)
    for layer in cache.layers:
        keys = layer.keys if layer.keys.shape[-1] == 3 else layer.keys.T
        total = total + (keys.sum(0) * layer.scale + layer.values * layer.options["shift"][0]) * layer.options["on"]
        total = total + getattr(layer, "more", 0) + layer.keys.shape[0] + getattr(layer.values, "scale", 0)
        layer.keys.add_(1)
    if cache.first is not None:
        total = total * 3 if cache.first is cache.layers[0] else total - 1
    if others and others[0] is cache.layers[0]:
        total = total + 7
    return total + len(cache.kinds)


def change(cache: Cache, name: str, number: int, device: str) -> None:
    layer = cache.layers[number % len(cache.layers)]
    if name == "scale":
        layer.scale = number + 1000
    elif name == "equal scale":
        layer.scale = int(str(layer.scale))
    elif name == "keys":
        layer.keys = torch.full((2, 3), float(number), device=device)
    elif name == "shared keys":
        layer.keys = cache.layers[0].keys
    elif name == "written keys":
        layer.keys.mul_(2)
    elif name == "turned keys":
        layer.keys.t_()
    elif name == "other memory":
        layer.keys.data = torch.full((2, 3), -float(number), device=device)
    elif name == "a view":
        layer.values = torch.arange(6.0, device=device)[number % 3 :][:3]
    elif name == "shift":
        layer.options["shift"][0] = number / 4
    elif name == "on":
        layer.options["on"] = not layer.options["on"]
    elif name == "one more":
        cache.layers.append(Layer(number, device))
    elif name == "one less" and len(cache.layers) > 1:
        cache.layers.pop()
    elif name == "another order":
        cache.layers.reverse()
    elif name == "twice":
        cache.layers[-1] = cache.layers[0]
    elif name == "attribute":
        layer.more = number / 2  # type: ignore[attr-defined]
    elif name == "first":
        cache.first = cache.layers[number % len(cache.layers)] if number % 3 else None
    elif name == "kinds":
        cache.kinds = ("full",) * number
    elif name == "gradients":
        layer.values = layer.values.detach().requires_grad_(number % 2 == 0)
    elif name == "the same, gradients":
        layer.values.requires_grad_(number % 2 == 0)
    elif name == "a base's gradients" and layer.values._base is not None:
        layer.values._base.requires_grad_(number % 2 == 0)
    elif name == "tensor's attribute":
        layer.values.scale = number + 1
    elif name == "itself":
        cache.itself = cache  # type: ignore[attr-defined]


CHANGES = (
    "scale", "equal scale", "keys", "shared keys", "written keys", "turned keys", "other memory", "a view", "shift", "on",
    "one more", "one less", "another order", "twice", "attribute", "first", "kinds", "gradients", "the same, gradients", "a base's gradients",
    "tensor's attribute", "itself",
)  # fmt: skip
_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(("call", "call with a part", "call with another", "call in order")), st.integers(0, 3)
        ),
        st.tuples(st.sampled_from(CHANGES), st.integers(0, 5)),
    ),
    min_size=4,
    max_size=24,
)


def run(steps: list[tuple[str, int]], device: str, function: Any) -> list[Any]:
    """Return the results of calls and what caches hold afterwards."""
    caches, found = [Cache(device), Cache(device)], list[Any]()

    def call(*args: Any, **kwargs: Any) -> None:
        result = function(*args, **kwargs)
        found.extend((result.tolist(), result.requires_grad))

    for name, number in steps:
        cache = caches[number % 2]
        x = torch.full((3,), float(number), device=device)
        if name == "call":
            call(x, cache, ())
        elif name == "call with a part":
            # What was met before is the object that it was, or another one that is equal.
            part = cache.layers[0] if number % 3 else Layer(0, device)
            call(x, cache, others=[part], bias=1)
        elif name == "call with another":
            call(x, cache, [caches[1 - number % 2].layers[0]])
        elif name == "call in order":
            part = cache.layers[0] if number % 3 else Layer(0, device)
            call(others=[part], x=x, cache=cache)
        else:
            change(cache, name, number, device)
    return [*found, *[each.keys.tolist() for cache in caches for each in cache.layers]]


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS)
@example(steps=[("tensor's attribute", 0), ("call", 0), ("call", 0), ("tensor's attribute", 3), ("call", 0)])
@example(steps=[("a view", 0), ("call", 0), ("call", 0), ("a base's gradients", 0), ("call", 0)])
def test_what_changed_in_them_is_noticed(device: str, steps: list[tuple[str, int]]) -> None:
    steps = steps if device == "cpu" else steps[:8]
    compiled = torch.compile(step)
    assert run([("call", 0), *steps, ("call", 0)], device, compiled) == run(
        [("call", 0), *steps, ("call", 0)], device, step
    )


def test_they_are_described_once() -> None:
    cache, lately = Cache("cpu"), Lately()

    def described(*values: Any) -> tuple[Any, list[int], list[int], int]:
        found = Description(opens=False, lately=lately)
        key = found.of(values)
        observed = len(found.objects)
        return key, list(map(id, found.tensors)), list(map(id, found.objects)), observed

    first = described(cache)
    kept = lately._known[id(cache)]
    for _ in range(3):
        assert described(cache) == first
        assert lately._known[id(cache)] is kept
    cache.layers[1].scale = 3
    assert described(cache)[0] != first[0]
    assert lately._known[id(cache)] is not kept
    cache.layers[1].scale = 2
    assert described(cache) == first
    # The same, but for what was met before.
    part = described(cache.layers[1], cache)
    assert part[0] != described(Layer(1, "cpu"), cache)[0]
    assert described(cache.layers[1], cache) == part


@pytest.mark.parametrize("ring", [False, True])
def test_they_are_not_held(ring: bool) -> None:
    compiled = torch.compile(step)
    cache = Cache("cpu")
    if ring:
        change(cache, "itself", 0, "cpu")
    for _ in range(3):
        compiled(torch.ones(3), cache, ())
    assert compiled.statistics["replayed"] == 2
    gone, memory = weakref.ref(cache), weakref.ref(cache.layers[0].values)
    del cache
    gc.collect()
    assert gone() is None and memory() is None
