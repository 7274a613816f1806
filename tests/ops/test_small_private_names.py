"""Switches of the executor of scripts, which read back as they were set, and draws that torchvision asks for: as in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch as ours


def _turned(t: Any) -> list[Any]:
    switches = t._C
    found: list[Any] = []
    before = switches._jit_set_profiling_executor(False), switches._jit_set_profiling_mode(False)
    found += [before, switches._jit_set_profiling_executor(before[0]), switches._jit_set_profiling_mode(before[1])]
    runs = switches._jit_set_num_profiled_runs(2)
    found += [runs, switches._jit_get_num_profiled_runs(), switches._jit_set_num_profiled_runs(runs)]
    for setter, getter in (
        ("_jit_override_can_fuse_on_cpu", "_jit_can_fuse_on_cpu"),
        ("_jit_override_can_fuse_on_gpu", "_jit_can_fuse_on_gpu"),
        ("_jit_set_texpr_fuser_enabled", "_jit_texpr_fuser_enabled"),
        ("_set_graph_executor_optimize", "_get_graph_executor_optimize"),
        ("_debug_set_fusion_group_inlining", "_debug_get_fusion_group_inlining"),
    ):
        first = getattr(switches, getter)()
        found += [first, getattr(switches, setter)(not first), getattr(switches, getter)()]
        getattr(switches, setter)(first)
    return found


def test_switches() -> None:
    assert _turned(ours) == _turned(torch)
    assert _turned(ours) == _turned(torch)


def test_draws_by_concentrations() -> None:
    results = []
    for t in (ours, torch):
        t.manual_seed(0)
        drawn = [t._sample_dirichlet(t.tensor([1.0, 2.0, 3.0])), t._standard_gamma(t.tensor([1.0, 0.5]))]
        drawn.append(t._sample_dirichlet(t.ones(2, 2), generator=t.Generator().manual_seed(3)))
        concentration = t.tensor([1.5, 2.0], requires_grad=True)
        (t._standard_gamma(concentration) * t.tensor([1.0, 3.0])).sum().backward()
        results.append([each.tolist() for each in (*drawn, concentration.grad)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(torch.tensor(one), torch.tensor(other), rtol=1e-4)
