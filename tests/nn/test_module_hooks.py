"""Hooks of one module and of all, and methods that subclasses override, are called as PyTorch calls them.

Every story runs under both libraries and tells what happened, in plain values; the tales are equal.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as facade

Story = Callable[[Any, Any, list[Any]], None]
STORIES: list[Story] = []


def story(function: Story) -> Story:
    STORIES.append(function)
    return function


def plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return value.detach().tolist()
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    return type(value).__name__


def double(t: Any) -> Any:
    """Return a module that doubles, plus one."""
    layer = t.nn.Linear(2, 2)
    with t.no_grad():
        layer.weight.copy_(t.eye(2) * 2)
        layer.bias.fill_(1.0)
    return layer


def note(tale: list[Any], name: str, result: Any = None) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        tale.append((name, plain(args), plain(kwargs)))
        return result(*args, **kwargs) if callable(result) else result

    return hook


@story
def calls_of_all_modules(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.Sequential(double(t), t.nn.ReLU())
    net[0].register_forward_pre_hook(note(tale, "own before"))
    net[0].register_forward_hook(note(tale, "own after"))
    handles = [
        modules.register_module_forward_pre_hook(note(tale, "before")),
        modules.register_module_forward_hook(note(tale, "after")),
        modules.register_module_forward_hook(note(tale, "with kwargs"), with_kwargs=True),
    ]
    try:
        tale.append(plain(net(t.ones(1, 2))))
    finally:
        for each in handles:
            each.remove()
    tale.append(plain(net(t.zeros(1, 2))))


@story
def calls_of_all_modules_change_values(t: Any, modules: Any, tale: list[Any]) -> None:
    with (
        modules.register_module_forward_pre_hook(lambda module, args: args[0] + 1),
        modules.register_module_forward_hook(lambda module, args, result: result * 10),
    ):
        tale.append(plain(double(t)(t.ones(1, 2))))


@story
def always_called(t: Any, modules: Any, tale: list[Any]) -> None:
    class Broken(t.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("broken")

    module = Broken()
    module.register_forward_hook(note(tale, "skipped"))
    module.register_forward_hook(note(tale, "always"), always_call=True)
    with modules.register_module_forward_hook(note(tale, "of all"), always_call=True):
        for _ in range(2):
            try:
                module(3)
            except ValueError as error:
                tale.append(str(error))


@story
def gradients_of_all_modules(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.Sequential(double(t), double(t))
    net[0].register_full_backward_hook(note(tale, "own after"))
    net[0].register_full_backward_pre_hook(note(tale, "own before"))
    with (
        modules.register_module_full_backward_pre_hook(note(tale, "before")),
        modules.register_module_full_backward_hook(note(tale, "after")),
    ):
        x = t.ones(1, 2, requires_grad=True)
        net(x).sum().backward()
        tale.append(plain(x.grad))


@story
def gradients_are_replaced(t: Any, modules: Any, tale: list[Any]) -> None:
    layer = double(t)
    layer.register_full_backward_pre_hook(lambda module, slopes: (slopes[0] * 3,))
    layer.register_full_backward_hook(lambda module, left, slopes: (left[0] + 100,))
    x = t.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    tale += [plain(x.grad), plain(layer.weight.grad)]
    y = t.ones(1, 2)
    layer = double(t)
    layer.register_full_backward_hook(note(tale, "no gradient of the input"))
    layer(y).sum().backward()


@story
def gradients_of_several_results(t: Any, modules: Any, tale: list[Any]) -> None:
    class Pair(t.nn.Module):
        def forward(self, x: Any, number: int, y: Any) -> Any:
            return x * y, number, x + y

    module = Pair()
    module.register_full_backward_hook(note(tale, "hook"))
    x, y = t.ones(2, requires_grad=True), t.full((2,), 3.0, requires_grad=True)
    product, _, total = module(x, 5, y)
    (product.sum() + 2 * total.sum()).backward()
    tale += [plain(x.grad), plain(y.grad)]
    module(x, 5, y)[0].sum().backward()


@story
def old_gradients_of_all_modules(t: Any, modules: Any, tale: list[Any]) -> None:
    with modules.register_module_backward_hook(note(tale, "old")):
        x = t.ones(2, requires_grad=True)
        module = t.nn.ReLU()
        module(x).sum().backward()
    try:
        modules.register_module_full_backward_hook(note(tale, "full"))
    except RuntimeError as error:
        tale.append(str(error))


@story
def kinds_of_hooks_exclude_each_other(t: Any, modules: Any, tale: list[Any]) -> None:
    layer = double(t)
    layer.register_full_backward_hook(note(tale, "full"))
    for register in (layer.register_backward_hook, modules.register_module_backward_hook):
        try:
            register(note(tale, "old")).remove()
        except RuntimeError as error:
            tale.append(str(error))
    try:
        modules.register_module_full_backward_hook(note(tale, "full"))
    except RuntimeError as error:
        tale.append(str(error))


@story
def registrations_of_all_modules(t: Any, modules: Any, tale: list[Any]) -> None:
    with (
        modules.register_module_parameter_registration_hook(note(tale, "parameter")),
        modules.register_module_buffer_registration_hook(note(tale, "buffer", lambda m, n, b: b + 1)),
        modules.register_module_module_registration_hook(note(tale, "module")),
    ):
        net = t.nn.Module()
        net.weight = t.nn.Parameter(t.ones(1))
        net.register_parameter("bias", None)
        net.register_buffer("count", t.zeros(1))
        net.count = t.full((1,), 5.0)
        net.child = t.nn.Tanh()
        net.add_module("other", None)
        tale.append(plain(net.count))


@story
def order_of_hooks(t: Any, modules: Any, tale: list[Any]) -> None:
    layer = double(t)
    for name, first in (("a", False), ("b", True), ("c", False)):
        layer.register_forward_pre_hook(note(tale, "before " + name), prepend=first)
        layer.register_forward_hook(note(tale, "after " + name), prepend=first)
        layer.register_full_backward_hook(note(tale, "back " + name), prepend=first)
        layer.register_full_backward_pre_hook(note(tale, "pre " + name), prepend=first)
    x = t.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    tale.append(len(layer._forward_hooks))


@story
def arguments_by_name(t: Any, modules: Any, tale: list[Any]) -> None:
    class Scaled(t.nn.Module):
        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return x * scale

    module = Scaled()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True)
    module.register_forward_hook(note(tale, "after", lambda m, a, k, r: r + 0.5), with_kwargs=True)
    tale.append(plain(module(t.ones(2), scale=2.0)))
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    try:
        module(t.ones(2), scale=2.0)
    except RuntimeError as error:
        tale.append(str(error))


@story
def states_by_hooks(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.Sequential(double(t), t.nn.BatchNorm1d(2))
    net.register_state_dict_pre_hook(note(tale, "before saving"))
    net[0].register_state_dict_post_hook(note(tale, "after saving"))
    net._register_state_dict_hook(lambda m, state, prefix, local: {**state, prefix + "more": t.ones(1)})
    state = net.state_dict(prefix="net.")
    tale.append(sorted(state))
    net[1].register_load_state_dict_pre_hook(note(tale, "before loading"))
    net.register_load_state_dict_post_hook(note(tale, "after loading", lambda m, keys: keys.missing_keys.clear()))
    net.load_state_dict({"0.weight": t.ones(2, 2)} | {key[4:]: state[key] for key in state if "net.1" in key})
    tale.append(plain(net[0].weight))


class Renaming:
    """Makes a class that loads older states, whose weights have another name and are transposed."""

    def __new__(cls, t: Any) -> Any:
        class Layer(t.nn.Linear):
            _version = 2

            def _load_from_state_dict(self, state: Any, prefix: str, local: Any, *rest: Any) -> None:
                if local.get("version", 1) < 2 and prefix + "matrix" in state:
                    state[prefix + "weight"] = state.pop(prefix + "matrix").T
                super()._load_from_state_dict(state, prefix, local, *rest)

            def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
                super()._save_to_state_dict(destination, prefix, keep_vars)
                destination[prefix + "kind"] = t.zeros(1)

            def extra_repr(self) -> str:
                return "a layer\nof two lines"

        return Layer(2, 2)


@story
def older_states(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.Sequential(Renaming(t))
    tale += [repr(net), list(net.state_dict()), plain(dict(net.state_dict()._metadata))]
    state = {"0.matrix": t.arange(4.0).reshape(2, 2), "0.bias": t.ones(2)}
    tale.append(plain(net.load_state_dict(state)))
    tale += [plain(net[0].weight), sorted(state)]
    try:
        net.load_state_dict(net.state_dict())
    except RuntimeError as error:
        tale.append(str(error))
    tale.append(plain(net.load_state_dict(net.state_dict(), strict=False)))


@story
def sizes_that_do_not_fit(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.ModuleDict({"a": double(t), "b": t.nn.PReLU()})
    for state in ({"a.weight": t.ones(3, 2), "b.weight": 3}, {"a.weight": t.ones(2, 2), "c": t.ones(1), "a.b.c": 1}, 5):
        for strict in (True, False):
            try:
                tale.append(plain(net.load_state_dict(state, strict=strict)))
            except (RuntimeError, TypeError) as error:
                tale.append(
                    str(error).replace("webgpu_torch_core.tensors.tensor.", "torch.").replace("webgpu_torch", "torch")
                )


@story
def moved_and_shared(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.Sequential(double(t), t.nn.BatchNorm1d(2))
    weight = net[0].weight
    assert net.share_memory() is net and net.half() is net and net[0].weight is weight
    tale += [str(each.dtype) for each in net.state_dict().values()]
    net.bfloat16().float().double().type(t.float32)
    tale += [str(each.dtype) for each in net.state_dict().values()]
    net.to_empty(device="cpu", recurse=False)
    tale.append(plain(net[0].bias))
    net.to(t.float16, non_blocking=True).to(t.zeros(1))
    tale += [str(each.dtype) for each in net.parameters()]
    try:
        net.to(t.int64)
    except TypeError as error:
        tale.append(str(error).replace("webgpu_torch", "torch"))
    empty = t.nn.Linear(2, 3, device="meta").to_empty(device="cpu")
    tale += [str(empty.weight.device), tuple(empty.weight.shape), empty.weight.requires_grad]


@story
def members_by_name(t: Any, modules: Any, tale: list[Any]) -> None:
    net = t.nn.ModuleDict({"a": t.nn.Sequential(double(t), t.nn.BatchNorm1d(2))})
    tale += [type(net.get_submodule("a.0")).__name__, net.get_parameter("a.0.weight").shape[0]]
    tale.append(plain(net.get_buffer("a.1.running_var")))
    tale.append([name for name, _ in net.named_modules(prefix="net")])
    tale.append([name for name, _ in net.named_parameters(prefix="net", recurse=True)])
    tale.append([name for name, _ in net.named_buffers()])
    tale.append([name for name, _ in net.a.named_children()])
    net.apply(lambda module: tale.append(type(module).__name__))
    for path in ("b", "a.0.weight.data", "a.2", "a.0.weight", "a.running"):
        for get in (net.get_submodule, net.get_parameter, net.get_buffer):
            try:
                get(path)
                tale.append("found")
            except AttributeError as error:
                tale.append(str(error))


@story
def compiled(t: Any, modules: Any, tale: list[Any]) -> None:
    layer = double(t)
    layer.register_forward_hook(lambda module, args, result: result * 10)
    if t is facade:
        layer.compile()
    with t.no_grad():
        for number in (1.0, 2.0, 3.0):
            tale.append(plain(layer(t.full((1, 2), number))))


@pytest.fixture(autouse=True)
def _no_form_yet() -> Iterator[None]:
    """Forget which form the backward hooks of all modules have."""
    yield
    vars(importlib.import_module("torch.nn.modules.module"))["_global_is_full_backward_hook"] = None
    importlib.import_module("webgpu_torch_nn.modules._hooks").global_backward_form["full"] = None


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
@pytest.mark.filterwarnings("ignore:module forward hook with ``always_call=True``")
@pytest.mark.parametrize("told", STORIES, ids=lambda each: each.__name__)
def test_both_libraries_tell_the_same(told: Story) -> None:
    tales: list[list[Any]] = [[], []]
    for library, tale in zip((torch, facade), tales, strict=True):
        told(library, importlib.import_module(f"{library.__name__}.nn.modules.module"), tale)
    assert tales[1] == tales[0]
    assert tales[0]
