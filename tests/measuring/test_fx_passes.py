"""Passes over graph modules that fold, leave out and cut: as PyTorch's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _network(t: Any) -> Any:
    class Network(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm, self.other_norm = (
                t.nn.Conv2d(1, 2, 3),
                t.nn.BatchNorm2d(2),
                t.nn.BatchNorm2d(2),
            )
            self.drop, self.linear, self.last = t.nn.Dropout(), t.nn.Linear(18, 3), t.nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.convolution(x))
            z = self.other_norm(y)
            return self.last(self.linear(self.drop((y + z).flatten(1))))

    t.manual_seed(0)
    network = Network()
    network(t.randn(4, 1, 5, 5))
    return network.eval()


def _close(found: Any, known: Any) -> None:
    assert torch.allclose(torch.tensor(found.tolist()), torch.tensor(known.tolist()), atol=1e-5)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`")
@pytest.mark.parametrize("name", ["fuse", "remove_dropout"])
def test_optimization(name: str) -> None:
    results = []
    for t in (ours, torch):
        network, x = _network(t), t.ones(2, 1, 5, 5)
        made = getattr(import_module(f"{t.__name__}.fx.experimental.optimization"), name)(network)
        _close(made(x), network(x))
        results.append([[each.name for each in made.graph.nodes], [each for each, _ in made.named_children()]])
    # PyTorch leaves the modules that no node calls.
    assert results[0][0] == results[1][0]
    assert set(results[0][1]) <= set(results[1][1])


def test_a_layer_that_is_called_twice_is_folded_where_it_is_normalised() -> None:
    class Twice(ours.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = ours.nn.Linear(3, 3), ours.nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            return self.norm(self.linear(x)) + self.linear(x)

    network, x = Twice(), ours.randn(5, 3)
    network(x * 3 + 1)
    network.eval()
    _close(ours.fx.experimental.optimization.fuse(network)(x), network(x))


def _split(t: Any, **options: bool) -> Any:
    class Parts(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.p = t.nn.Linear(2, 2), t.nn.Linear(2, 2), t.nn.Parameter(t.ones(2))

        def forward(self, x: Any, y: Any) -> Any:
            z = self.a(x + y)
            w = z + self.p
            return self.b(w) + t.relu(z), w

    t.manual_seed(0)
    parts = Parts()
    names: dict[str, str] = {}
    first = ("add", "a", "add_1", "relu")
    whole = t.fx.symbolic_trace(parts)
    cut = import_module(f"{t.__name__}.fx.passes.split_module").split_module(
        whole, parts, lambda node: 0 if node.name in first else 1, names, **options
    )
    x = t.tensor([[1.0, -2.0]])
    for found, known in zip(cut(x, x), parts(x, x), strict=True):
        _close(found, known)
    return [cut.code, cut.submod_0.code, cut.submod_1.code, names, list(cut.state_dict())]


@pytest.mark.parametrize("options", [{}, {"keep_original_node_name": True}])
def test_pieces(options: dict[str, bool]) -> None:
    assert _split(ours, **options) == _split(torch, **options)


@pytest.mark.parametrize("t", [torch, ours], ids=["PyTorch", "ours"])
def test_pieces_that_need_each_other(t: Any) -> None:
    whole = t.fx.symbolic_trace(lambda x: x.sin().cos().tan())
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        import_module(f"{t.__name__}.fx.passes.split_module").split_module(
            whole, whole, lambda node: int(node.name == "cos")
        )


@pytest.mark.parametrize("t", [torch, ours], ids=["PyTorch", "ours"])
def test_tracers_whose_proxies_are_made_without_a_factory(t: Any) -> None:
    class Older(t.fx.Tracer):  # type: ignore[misc,name-defined]
        def create_proxy(
            self, kind: Any, target: Any, args: Any, kwargs: Any, name: Any = None, type_expr: Any = None
        ) -> Any:
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(t.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = t.nn.Parameter(t.ones(3))

        def forward(self, x: Any) -> Any:
            return x * self.scale

    graph = Older(param_shapes_constant=True).trace(Scaled())
    assert [each.op for each in graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]
