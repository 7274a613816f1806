"""Floating-point operations are counted as PyTorch counts them, by module and operation, backward passes included."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.flop_counter
import torch.utils.module_tracker
import webgpu_torch
import webgpu_torch.utils.flop_counter
import webgpu_torch.utils.module_tracker

Framework = types.ModuleType | Any


def counts(framework: Framework, work: Callable[[Framework], object]) -> dict[str, dict[str, int]]:
    with framework.utils.flop_counter.FlopCounterMode(display=False) as counter:
        work(framework)
    found = counter.get_flop_counts()
    assert counter.get_total_flops() == sum(found.get("Global", {}).values())
    names = {name: {str(op).rpartition(".")[2]: count for op, count in each.items()} for name, each in found.items()}
    return {name: each for name, each in names.items() if each}


def block(t: Framework) -> Framework:
    return t.nn.Sequential(
        t.nn.Conv2d(2, 4, 3, stride=2, groups=2), t.nn.ReLU(), t.nn.Flatten(), t.nn.Linear(36, 5), t.nn.Linear(5, 3, bias=False)
    )  # fmt: skip


WORK: dict[str, Callable[[Framework], object]] = {
    "linear": lambda t: t.nn.Linear(4, 5)(t.ones(3, 4)).sum().backward(),
    "linear of a batch": lambda t: t.nn.Linear(4, 5)(t.ones(2, 3, 4, requires_grad=True)).sum().backward(),
    "products": lambda t: [t.ones(2, 3) @ t.ones(3, 4), t.bmm(t.ones(2, 3, 4), t.ones(2, 4, 5)), t.ones(3) @ t.ones(3)],
    "batches of products": lambda t: t.ones(2, 1, 3, 4) @ t.ones(5, 4, 2),
    "sums of products": lambda t: [
        t.addmm(t.ones(2), t.ones(3, 4), t.ones(4, 2)),
        t.baddbmm(t.ones(2), t.ones(2, 3, 4), t.ones(2, 4, 2)),
    ],
    "reflected": lambda t: t.ones(3, 4).__rmatmul__(t.ones(2, 3)),
    "einsum": lambda t: t.einsum("ijk,ijk->i", t.ones(2, 3, 4), t.ones(2, 3, 4)),
    "attention": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.ones(3, 1, 4)] * 3)[0].sum().backward(),
    "modules": lambda t: block(t)(t.ones(2, 2, 7, 7)).sum().backward(),
    "gradient of an image": lambda t: block(t)(t.ones(2, 2, 7, 7, requires_grad=True)).sum().backward(),
    "transposed": lambda t: t.nn.ConvTranspose1d(2, 3, 3)(t.ones(2, 2, 5, requires_grad=True)).sum().backward(),
    "without a graph": lambda t: t.no_grad()(lambda: t.nn.Linear(4, 5)(t.ones(3, 4)))(),
}


@pytest.mark.parametrize("name", WORK)
def test_counts(name: str) -> None:
    assert counts(webgpu_torch, WORK[name]) == counts(torch, WORK[name])


def test_table() -> None:
    counter = webgpu_torch.utils.flop_counter.FlopCounterMode(display=False)
    with counter:
        webgpu_torch.nn.Linear(36, 50)(webgpu_torch.ones(2, 36))
        webgpu_torch.ones(10, 36) @ webgpu_torch.ones(36, 10)
    assert counter.get_table().splitlines() == [
        "Module               FLOP    % Total",
        "--------------  ---------  ---------",
        "Global            14.400K    100.00%",
        " - aten.addmm      7.200K     50.00%",
        " - aten.mm         7.200K     50.00%",
        " Linear            7.200K     50.00%",
        "  - aten.addmm     7.200K     50.00%",
    ]


def test_custom_formula() -> None:
    for framework in (webgpu_torch, torch):
        mapping = {framework.ops.aten.add: lambda a, b, out_shape=None: 7 * a[0] + out_shape[0]}
        with framework.utils.flop_counter.FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            framework.add(framework.ones(3), framework.ones(3))
        assert counter.get_total_flops() == 24


def test_modules_that_run() -> None:
    for framework in (webgpu_torch, torch):
        seen: list[set[str]] = []

        class Inner(framework.nn.Module):
            def forward(self, x: Any) -> Any:
                seen.append(set(tracker.parents))
                return x * 2

        class Outer(framework.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = Inner()

            def forward(self, x: Any) -> Any:
                return self.inner(x) + 1

        with framework.utils.module_tracker.ModuleTracker() as tracker:
            result = Outer()(framework.ones(2, requires_grad=True))
            assert tracker.parents == {"Global"} and not tracker.is_bw
            result.sum().backward()
        assert seen == [{"Global", "Outer", "Outer.inner"}]
