"""The Module base class: registration, state, hooks, conversion, text and error messages, as PyTorch's."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, to_ours, to_torch

BOTH = pytest.mark.parametrize("library", [nn, torch.nn], ids=["ours", "torch"])


def tensors(library: Any) -> Any:
    return ours if library is nn else torch


def network(library: Any) -> Any:
    class Network(library.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = library.Linear(3, 4)
            self.rest = library.Sequential(library.ReLU(), library.LayerNorm(4))
            self.tied = self.first
            self.register_buffer("count", tensors(library).zeros(2))
            self.register_buffer("scratch", tensors(library).zeros(1), persistent=False)
            self.scale = library.Parameter(tensors(library).ones(1))

        def forward(self, x: Any) -> Any:
            return self.rest(self.first(x)) * self.scale

    return Network()


def test_names_and_text_are_those_of_torch() -> None:
    actual, expected = network(nn), network(torch.nn)
    assert [n for n, _ in actual.named_parameters()] == [n for n, _ in expected.named_parameters()]
    assert [n for n, _ in actual.named_parameters(remove_duplicate=False)] == [
        n for n, _ in expected.named_parameters(remove_duplicate=False)
    ]
    assert [n for n, _ in actual.named_modules()] == [n for n, _ in expected.named_modules()]
    assert [n for n, _ in actual.named_children()] == [n for n, _ in expected.named_children()]
    assert [n for n, _ in actual.named_buffers()] == [n for n, _ in expected.named_buffers()]
    assert list(actual.state_dict()) == list(expected.state_dict())
    assert dict(actual.state_dict()._metadata) == dict(expected.state_dict()._metadata)
    assert repr(actual) == repr(expected)
    assert actual.state_dict(prefix="model.").keys() == expected.state_dict(prefix="model.").keys()


def test_state_travels_both_ways() -> None:
    actual, expected = network(nn), network(torch.nn)
    actual.load_state_dict({key: to_ours(value) for key, value in expected.state_dict().items()})
    x = torch.randn(5, 3)
    close(actual(to_ours(x)), expected(x))
    with ours.no_grad():
        actual.first.weight.mul_(2)
    expected.load_state_dict({key: to_torch(value) for key, value in actual.state_dict().items()})
    close(actual(to_ours(x)), expected(x))


def test_assign_puts_the_given_tensors_in_place() -> None:
    actual = network(nn)
    given = {key: value.clone() for key, value in actual.state_dict().items()}
    kept = actual.first.weight
    actual.load_state_dict(given, assign=True)
    assert actual.first.weight is not kept
    assert isinstance(actual.first.weight, nn.Parameter)
    with ours.no_grad():
        actual.first.weight.fill_(7.0)
    assert to_torch(given["tied.weight"])[0, 0] == 7.0


def _message(library: Any, action: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is part of what is compared
        action(library, network(library))
    return type(caught.value).__name__, str(caught.value).replace("webgpu_torch_nn", "torch.nn")


def _load(library: Any, module: Any, change: Any, **options: Any) -> None:
    state = dict(module.state_dict())
    change(state, tensors(library))
    module.load_state_dict(state, **options)


def _before_init(library: Any, value: Any) -> None:
    class Early(library.Module):
        def __init__(self) -> None:
            self.early = value

    Early()


ACTIONS = {
    "missing": lambda lib, m: _load(lib, m, lambda s, t: s.pop("first.weight")),
    "unexpected": lambda lib, m: _load(lib, m, lambda s, t: s.update({"rest.9.x": t.ones(1), "odd": t.ones(1)})),
    "both": lambda lib, m: _load(lib, m, lambda s, t: s.update(odd=s.pop("count"))),
    "shape": lambda lib, m: _load(lib, m, lambda s, t: s.update(count=t.ones(3)), strict=False),
    "not a mapping": lambda lib, m: m.load_state_dict([1]),
    "attribute": lambda lib, m: m.absent,
    "parameter as tensor": lambda lib, m: setattr(m, "scale", 3),
    "module as number": lambda lib, m: setattr(m, "rest", 3),
    "buffer as number": lambda lib, m: setattr(m, "count", 3),
    "buffer name dot": lambda lib, m: m.register_buffer("a.b", None),
    "buffer name taken": lambda lib, m: m.register_buffer("first", None),
    "buffer name kind": lambda lib, m: m.register_buffer(3, None),
    "buffer value": lambda lib, m: m.register_buffer("extra", "text"),
    "parameter name empty": lambda lib, m: m.register_parameter("", None),
    "parameter name taken": lambda lib, m: m.register_parameter("forward", None),
    "parameter value": lambda lib, m: m.register_parameter("extra", 5),
    "parameter non-leaf": lambda lib, m: m.register_parameter("extra", _non_leaf(lib)),
    "module name dot": lambda lib, m: m.add_module("a.b", None),
    "module name empty": lambda lib, m: m.add_module("", None),
    "module value": lambda lib, m: m.add_module("extra", 5),
    "get_parameter": lambda lib, m: m.get_parameter("first.absent"),
    "get_parameter kind": lambda lib, m: m.get_parameter("count"),
    "get_submodule": lambda lib, m: m.get_submodule("rest.5"),
    "get_submodule kind": lambda lib, m: m.get_submodule("scale"),
    "get_buffer": lambda lib, m: m.get_buffer("scale"),
    "to integer": lambda lib, m: m.to(tensors(lib).int32),
    "train": lambda lib, m: m.train(1),
    "forward": lambda lib, m: lib.Module()(1),
    "init argument": lambda lib, m: lib.Module(1),
    "init keyword": lambda lib, m: lib.Module(size=1),
    "parameter early": lambda lib, m: _before_init(lib, lib.Parameter(tensors(lib).ones(1))),
    "module early": lambda lib, m: _before_init(lib, lib.ReLU()),
    "list index": lambda lib, m: lib.ModuleList([lib.ReLU()])[1],
    "sequential index": lambda lib, m: lib.Sequential(lib.ReLU())[-2],
}


def _non_leaf(library: Any) -> Any:
    parameter = library.Parameter(tensors(library).ones(1))
    result = parameter * 2
    result._is_param = True
    return result


@pytest.mark.parametrize("name", ACTIONS)
def test_errors_are_those_of_torch(name: str) -> None:
    assert _message(nn, ACTIONS[name]) == _message(torch.nn, ACTIONS[name])


def test_attributes_are_registered_and_removed() -> None:
    module = network(nn)
    module.first = None
    assert module._modules["first"] is None
    assert "first.weight" not in module.state_dict()
    module.first = nn.Parameter(ours.ones(2))
    assert "first" in module._parameters
    assert "first" not in module._modules
    del module.first
    assert not hasattr(module, "first")
    module.extra = nn.Buffer(ours.ones(3), persistent=False)
    assert "extra" in dict(module.named_buffers())
    assert "extra" not in module.state_dict()
    module.count = None
    assert module._buffers["count"] is None


@BOTH
def test_forward_hooks(library: Any) -> None:
    seen: list[Any] = []
    module = library.Linear(2, 2)
    x = tensors(library).ones(1, 2)
    handles = [
        module.register_forward_pre_hook(lambda m, args: seen.append("pre")),
        module.register_forward_pre_hook(lambda m, args: (args[0] * 0,), prepend=True),
        module.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True),
        module.register_forward_hook(lambda m, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True),
        module.register_forward_hook(lambda m, args, out: out + 1),
    ]
    result = module(x)
    assert seen == ["pre", []]
    assert bool(((result - 1 - module.bias).abs() < 1e-6).all())
    for handle in handles:
        handle.remove()
    module(x)
    assert seen == ["pre", []]
    module.register_forward_hook(lambda m, args, out: seen.append("always"), always_call=True)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever forward raises
        module(tensors(library).ones(1, 3))
    assert seen[-1] == "always"


@BOTH
def test_full_backward_hooks(library: Any) -> None:
    seen: list[Any] = []
    module = library.Linear(2, 3)
    module.register_full_backward_pre_hook(lambda m, grad: seen.append(("pre", [tuple(g.shape) for g in grad])))
    module.register_full_backward_hook(
        lambda m, grad_in, grad_out: seen.append(
            ([tuple(g.shape) for g in grad_in], [tuple(g.shape) for g in grad_out])
        )
    )
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] * 2,))
    x = tensors(library).ones(4, 2, requires_grad=True)
    module(x).sum().backward()
    assert seen == [("pre", [(4, 3)]), ([(4, 2)], [(4, 3)])]
    expected = module.weight.sum(0) * 2
    assert bool(((x.grad - expected).abs() < 1e-6).all())


@BOTH
def test_state_dict_hooks(library: Any) -> None:
    module = library.Sequential(library.Linear(2, 2))
    seen: list[str] = []
    module.register_state_dict_pre_hook(lambda m, prefix, keep_vars: seen.append("save"))
    module.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(note=tensors(library).ones(1)))
    module.register_load_state_dict_pre_hook(lambda m, state, *rest: state.pop("note"))
    module.register_load_state_dict_post_hook(lambda m, keys: seen.append("load"))
    state = module.state_dict()
    assert list(state) == ["0.weight", "0.bias", "note"]
    assert str(module.load_state_dict(state)) == "<All keys matched successfully>"
    assert seen == ["save", "load"]


def test_conversion_keeps_the_parameter_objects() -> None:
    module = network(nn)
    before = list(module.parameters())
    module(ours.ones(2, 3)).sum().backward()
    module.to(ours.float16)
    assert [id(p) for p in module.parameters()] == [id(p) for p in before]
    assert {p.dtype for p in module.parameters()} == {ours.float16}
    assert module.first.weight.grad.dtype == ours.float16
    assert module.count.dtype == ours.float16
    module.float()
    assert module.first.weight.dtype == ours.float32
    module.zero_grad()
    assert module.first.weight.grad is None


def test_modes_apply_and_copies() -> None:
    module = network(nn)
    names: list[str] = []
    assert not module.eval().rest.training
    module.train().apply(lambda m: names.append(type(m).__name__))
    assert names == ["Linear", "ReLU", "LayerNorm", "Sequential", "Network"]
    module.requires_grad_(False)
    assert not any(p.requires_grad for p in module.parameters())
    other = copy.deepcopy(module)
    assert other.tied is other.first
    with ours.no_grad():
        other.first.weight.fill_(3.0)
    assert to_torch(module.first.weight)[0, 0] != 3.0


def test_containers() -> None:
    for library in (nn, torch.nn):
        items = library.ModuleList([library.ReLU(), library.Tanh()])
        items.insert(1, library.Sigmoid())
        items += [library.ReLU()]
        assert [type(m).__name__ for m in items] == ["ReLU", "Sigmoid", "Tanh", "ReLU"]
        del items[0]
        assert [n for n, _ in items.named_children()] == ["0", "1", "2"]
        assert len(items[1:]) == 2
        table = library.ModuleDict({"b": library.ReLU()})
        table["a"] = library.Tanh()
        assert list(table) == ["b", "a"]
        assert "a" in table
        values = library.ParameterList([tensors(library).ones(2), library.Parameter(tensors(library).ones(3))])
        values.append(tensors(library).ones(1))
        assert [n for n, _ in values.named_parameters()] == ["0", "1", "2"]
        named = library.ParameterDict({"x": tensors(library).ones(2)})
        assert [n for n, _ in named.named_parameters()] == ["x"]
        line = library.Sequential(library.ReLU(), library.Tanh(), library.ReLU())
        line.insert(0, library.GELU())
        line.pop(1)
        assert [type(m).__name__ for m in line] == ["GELU", "Tanh", "ReLU"]
        assert [n for n, _ in line[1:].named_children()] == ["1", "2"]
        assert len(line + line) == 6
    assert repr(nn.ParameterList([ours.ones(2)])) == repr(torch.nn.ParameterList([torch.ones(2)]))
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU()])) == repr(torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()]))


def test_dictionaries_of_parameters_are_joined() -> None:
    for library, t in ((nn, ours), (torch.nn, torch)):
        first = library.ParameterDict(OrderedDict([("b", t.ones(1)), ("a", t.zeros(1))]))
        second = library.ParameterDict(OrderedDict([("z", t.ones(1)), ("b", t.zeros(1)), ("c", t.ones(1))]))
        assert list(first.copy()) == ["b", "a"]
        joined = first | second
        assert type(joined) is library.ParameterDict
        assert [(name, value.item()) for name, value in joined.items()] == [("b", 0), ("a", 0), ("z", 1), ("c", 1)]
        assert list(first | {"d": t.ones(1)}) == ["b", "a", "d"]
        first |= second
        assert list(first) == list(joined)


def test_dictionaries_are_filled_in_an_order() -> None:
    def run(library: Any, t: Any) -> Any:
        found: list[Any] = []
        for kind, value in ((library.ParameterDict, lambda: t.ones(1)), (library.ModuleDict, library.ReLU)):
            pairs = [("b", value()), ("a", value()), ("c", value())]
            for given in (
                dict(pairs),
                OrderedDict(pairs),
                kind(OrderedDict(pairs)),
                pairs,
                [list(each) for each in pairs],
            ):
                made = kind(given)
                made.update({"z": value(), "y": value()})
                found.append(list(made.keys()))
            for given in (1, [1], [("a",)]):
                try:
                    kind().update(given)
                except (TypeError, ValueError) as error:
                    found.append((type(error), str(error)))
        return found

    assert run(nn, ours) == run(torch.nn, torch)
