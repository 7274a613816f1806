"""Traced functions, modules and changed graphs have PyTorch's code and compute what PyTorch's do."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import re
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.fx
import torch.fx.passes.shape_prop
import webgpu_torch
import webgpu_torch.fx
import webgpu_torch.fx.passes.shape_prop

Framework = types.ModuleType | Any
BOTH = (webgpu_torch, torch)


def plain(text: str) -> str:
    """Return code with one name for functions that PyTorch has in a private module."""
    text = text.replace("torch._C._nn.", "torch.nn.functional.").replace("torch.functional.", "torch.")
    return re.sub(r", _stacklevel(: | = )3", "", text)


def alike(make: Callable[[Framework], Any], *shapes: tuple[int, ...]) -> None:
    """Compare the code, the graph's text and the results of a graph's module, made with each framework."""
    ours, reference = (make(framework) for framework in BOTH)
    assert plain(str(ours.graph)) == plain(str(reference.graph))
    assert plain(ours.code) == plain(reference.code)
    ours.graph.lint()
    generator = torch.Generator().manual_seed(0)
    arguments = [torch.rand(shape, generator=generator) for shape in shapes]
    if not shapes:
        return
    expected = reference(*arguments)
    found = ours(*(webgpu_torch.tensor(each.tolist()) for each in arguments))
    for one, other in zip(
        *(each if isinstance(each, (tuple, list)) else [each] for each in (found, expected)), strict=True
    ):
        torch.testing.assert_close(torch.tensor(one.tolist()), other.detach(), rtol=1e-4, atol=1e-5)


class Pair(NamedTuple):
    first: Any
    second: Any


def negated(x: Any) -> Any:
    return -x if x.sum() > 0 else x


webgpu_torch.fx.wrap("negated")
torch.fx.wrap("negated")


def filled(module: Any) -> Any:
    """Give each parameter values that do not depend on the framework."""
    for place, each in enumerate(module.parameters()):
        count = each.numel()
        values = [math.sin(place + 1 + index) for index in range(count)]
        framework = webgpu_torch if isinstance(each, webgpu_torch.Tensor) else torch
        with framework.no_grad():
            each.copy_(framework.tensor(values).reshape(tuple(each.shape)))
    return module


def network(t: Framework) -> Any:
    class Block(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = t.nn.Linear(4, 4)
            self.scale = t.nn.Parameter(t.ones(4))
            self.register_buffer("shift", t.ones(4))

        def forward(self, x: Any) -> Any:
            return t.nn.functional.gelu(self.linear(x)) * self.scale + self.shift

    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = t.nn.Sequential(Block(), t.nn.ReLU(), Block())
            self.extra = t.ones(4)
            self.norm = t.nn.LayerNorm(4)

        def forward(self, x: Any, mask: Any = None) -> Any:
            y = self.blocks(x).view(x.shape[0], -1)
            y, z = self.norm(y).chunk(2, dim=-1)
            return {"y": y + z, "rest": (self.extra, t.cat([y, z], 1)[:, 1:3])}["y"] + self.extra[:2]

    # Annotations in quotes would be names of the code.
    Network.forward.__annotations__ = Block.forward.__annotations__ = {}
    return filled(Network())


FUNCTIONS: dict[str, tuple[Callable[[Framework], Callable[..., Any]], tuple[tuple[int, ...], ...]]] = {
    "operators": (lambda t: lambda x, y: (-x + y * 2 - 1 / x) @ (y**2).t() // 1 % 3, ((3, 3), (3, 3))),
    "comparisons": (lambda t: lambda x, y: ((x < y) & (x != 0.5) | ~(y >= x)).float(), ((3,), (3,))),
    "reflected": (lambda t: lambda x: 2 - x + (3 + x) * (1 // (x + 1)), ((3,),)),
    "functions": (lambda t: lambda x: t.relu(t.sin(x)).add(1, alpha=2).sum(dim=-1, keepdim=True), ((2, 3),)),
    "networks": (lambda t: lambda x: t.nn.functional.relu(t.nn.functional.softmax(x, dim=-1) - 0.3), ((2, 3),)),
    "indexing": (lambda t: lambda x: x[0, 1:, None] + x[1:, -1:], ((3, 3),)),
    "unpacked": (lambda t: lambda x: [each for each in (lambda a, b: (b, a))(*_two(x))], ((4,),)),
    "attributes": (lambda t: lambda x: x.reshape(x.shape[0] * x.size(1)) * x.ndim + x.mT.numel(), ((2, 3),)),
    "magic names": (lambda t: lambda input, len: abs(input) + len.abs() + input.add(len), ((3,), (3,))),
    "wrapped": (lambda t: lambda x: negated(x + 1) * 2, ((3,),)),
    "math": (lambda t: lambda x: x.expand(3, x.size(0)) * math.sqrt(2), ((3,),)),
    "of types": (lambda t: lambda x: x.to(t.float64).to(dtype=t.float32, device=t.device("cpu")), ((3,),)),
    "unused": (lambda t: lambda x, y: (x + 1, y * 2)[0], ((3,), (3,))),
    "same names": (lambda t: lambda x: t.relu(t.relu(t.relu(x - 0.1) - 0.2) - 0.3), ((3,),)),
    "named tuples": (lambda t: lambda x: Pair(x + 1, x * 2), ((3,),)),
    "in place": (lambda t: lambda x: operator.iadd(x.clone(), 1), ((3,),)),
    "written": (lambda t: lambda x: _written(x.clone()), ((3,),)),
}


def _two(x: Any) -> Any:
    first, second = x.chunk(2)
    return first, second


def _written(x: Any) -> Any:
    x += 1
    x.mul_(2)
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    make, shapes = FUNCTIONS[name]

    def traced(t: Framework) -> Any:
        function = make(t)
        function.__name__ = "traced"
        return t.fx.symbolic_trace(function)

    alike(traced, *shapes)


def test_modules() -> None:
    alike(lambda t: t.fx.symbolic_trace(network(t)), (2, 4))


def with_types(t: Framework) -> Callable[..., Any]:
    def typed(x: int, *rest: Any, y: float = 1.0, **options: Any) -> tuple[int, float]:
        return x + y, rest, options  # type: ignore[return-value]

    typed.__annotations__ = {"x": int, "y": float, "return": tuple[int, float]}
    return typed


def test_parameters_of_functions() -> None:
    alike(lambda t: t.fx.symbolic_trace(with_types(t)))


def test_given_arguments() -> None:
    def function(x: Any, flag: bool, size: Any = None) -> Any:
        return x + 1 if flag and size is None else x

    alike(lambda t: t.fx.symbolic_trace(function, concrete_args={"flag": True, "size": None}))


def test_graph_by_hand() -> None:
    def make(t: Framework) -> Any:
        graph = t.fx.Graph()
        tracer = t.fx.proxy.GraphAppendingTracer(graph)
        x, w = (t.fx.Proxy(graph.placeholder(name), tracer) for name in ("x", "w"))
        y = t.einsum("ij,jk->ik", x, w)
        product = t.fx.Proxy(graph.call_module("inner", (y.node,)), tracer)
        constant = t.fx.Proxy(graph.get_attr("constants.one"), tracer)
        graph.output((product.reshape(-1) + constant).node)
        return t.fx.GraphModule({"inner": t.nn.ReLU(), "constants.one": t.ones(1)}, graph, "Made")

    alike(make, (2, 3), (3, 2))
    assert type(make(webgpu_torch)).__name__ == "Made"


def test_changed_graphs() -> None:
    def make(t: Framework) -> Any:
        module = t.fx.symbolic_trace(network(t))
        graph = module.graph
        for node in graph.nodes:
            if node.op == "call_function" and node.target is t.nn.functional.gelu:
                with graph.inserting_after(node):
                    made = graph.call_function(t.tanh, (node.args[0],))
                node.replace_all_uses_with(made)
                graph.erase_node(node)
            if node.op == "placeholder" and node.name == "mask":
                graph.erase_node(node)
        first = next(iter(graph.nodes))
        with graph.inserting_before(first.next):
            graph.call_function(t.neg, (first,))
        assert graph.eliminate_dead_code()
        module.add_submodule("added.inner", t.nn.ReLU())
        graph.output_node().update_arg(0, (graph.output_node().args[0],) * 2)
        module.delete_all_unused_submodules()
        assert not hasattr(module.added, "inner") if hasattr(module, "added") else True
        module.recompile()
        return module

    alike(make, (2, 4))


def test_copies_and_files() -> None:
    for t in BOTH:
        module = t.fx.symbolic_trace(network(t))
        for made in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
            assert made.code == module.code
            assert bool((made(t.ones(2, 4)) == module(t.ones(2, 4))).all())
            assert [name for name, _ in made.named_parameters()] == [name for name, _ in module.named_parameters()]


PATTERNS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "once": (lambda t: lambda x, y: (x + y).relu() * 2, lambda x, y: (x + y).relu(), lambda x, y: x.sub(y)),
    "twice": (lambda t: lambda x, y: (x * y + 1) + (y * x + 1), lambda a, b: a * b + 1, lambda a, b: a - b),
    "in a row": (lambda t: lambda x: x.neg().neg().neg(), lambda a: a.neg(), lambda a: a.sin()),
    "overlapping": (lambda t: lambda x: x.neg().neg().neg(), lambda a: a.neg().neg(), lambda a: a.sin()),
    "literals": (lambda t: lambda x: x.add(1) + x.add(2), lambda a: a.add(1), lambda a: a.mul(3)),
    "used outside": (lambda t: lambda x: x.neg().abs() + x.neg(), lambda a: a.neg().abs(), lambda a: a * 5),
    "not contained": (lambda t: lambda x: (lambda n: n.abs() + n)(x.neg()), lambda a: a.neg().abs(), lambda a: a * 5),
    "two results": (
        lambda t: lambda x, y: sum([x.sin() + y, x.sin().cos()]), lambda a: (a.sin(), a.cos()), lambda a: (a + 1, a - 1),
    ),
    "the input": (lambda t: lambda x: x.neg(), lambda a: a.neg(), lambda a: a),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_replaced_patterns(name: str) -> None:
    function, pattern, replacement = PATTERNS[name]
    counts = []

    def make(t: Framework) -> Any:
        traced = function(t)
        traced.__name__ = "traced"
        module = t.fx.symbolic_trace(traced)
        counts.append(len(t.fx.replace_pattern(module, pattern, replacement)))
        return module

    alike(make)
    assert counts[0] == counts[1]


def test_interpreters_and_transformers() -> None:
    def make(t: Framework) -> Any:
        class Changed(t.fx.Transformer):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target is t.sigmoid:
                    return t.neg(*args, **kwargs)
                return super().call_function(target, args, kwargs)

            def call_method(self, target: str, args: Any, kwargs: Any) -> Any:
                return super().call_method("relu" if target == "neg" else target, args, kwargs)

        def function(x: Any, y: Any = 2) -> Any:
            return t.sigmoid(x).neg() * y

        return Changed(t.fx.symbolic_trace(function)).transform()

    alike(make, (3,))
    module = webgpu_torch.fx.symbolic_trace(network(webgpu_torch))
    x = webgpu_torch.ones(2, 4)
    assert bool((webgpu_torch.fx.Interpreter(module).run(x) == module(x)).all())
    with pytest.raises(RuntimeError, match="x"):
        webgpu_torch.fx.Interpreter(module).run()


def test_shapes() -> None:
    found = []
    for t in BOTH:
        module = t.fx.symbolic_trace(network(t))
        t.fx.passes.shape_prop.ShapeProp(module).propagate(t.ones(2, 4))
        metas = [(each.name, each.meta.get("tensor_meta")) for each in module.graph.nodes]
        found.append([
            (name, tuple(meta.shape), str(meta.dtype).rpartition(".")[2], meta.stride, meta.requires_grad)
            for name, meta in metas if hasattr(meta, "shape")
        ])  # fmt: skip
    assert found[0] == found[1]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "branch": lambda x: x if x else 1,
    "loop": lambda x: [each for each in x],
    "length": lambda x: len(x),
    "arguments": lambda x: max(*x),
    "function of an object": lambda x: x + object(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    errors = []
    for t in BOTH:
        with pytest.raises(Exception) as raised:  # noqa: PT011
            t.fx.symbolic_trace(REFUSED[name])
        errors.append(type(raised.value).__name__)
    assert errors[0] == errors[1]


def test_refusals_of_graphs() -> None:
    for t in BOTH:
        graph = t.fx.symbolic_trace(lambda x: x.neg().abs()).graph
        _, negated_node, absolute, _ = graph.nodes
        with pytest.raises(RuntimeError, match="users"):
            graph.erase_node(negated_node)
        with pytest.raises(TypeError, match="mutation"):
            t.fx.immutable_collections.immutable_list([1]).append(2)
        absolute.append(negated_node)
        with pytest.raises(RuntimeError, match="before it has been defined"):
            graph.lint()
        with pytest.raises(RuntimeError, match="not provided"):
            other = t.fx.Graph()
            other.get_attr("there")
            t.fx.GraphModule({}, other)


def test_tracers() -> None:
    def make(t: Framework) -> Any:
        class Deep(t.fx.Tracer):
            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return isinstance(m, t.nn.LayerNorm)

        module = network(t)
        tracer = Deep(param_shapes_constant=True)
        graph = tracer.trace(module)
        stacks = {name: list(each.meta.get("nn_module_stack", {})) for each in graph.nodes for name in [each.name]}
        made = t.fx.GraphModule(module, graph)
        made.stacks = stacks
        return made

    alike(make, (2, 4))
    assert make(webgpu_torch).stacks == make(torch).stacks


def test_a_program_may_ask_whether_what_is_traced_overrides() -> None:
    """Every attribute of what is traced is traced as well, and has no truth value."""

    def make(framework: Framework) -> Any:
        def asserted(x: Any) -> Any:
            framework._assert(x.shape[0] == 2, "two rows")
            assert framework.overrides.has_torch_function((x,))
            assert framework.overrides.has_torch_function_variadic(1, x)
            return framework.relu(x)

        return framework.fx.symbolic_trace(asserted)

    alike(make, (2, 3))
