"""Module's public methods, one by one, on both libraries: names, signatures, conversions, submodules, extra state."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, to_ours

BOTH = pytest.mark.parametrize("library", [nn, torch.nn], ids=["ours", "torch"])
#: other vendors' devices, and a variable of type annotations
ABSENT = {"ipu", "mtia", "xpu", "T_destination"}


def tensors(library: Any) -> Any:
    return ours if library is nn else torch


def public_names(kind: type) -> set[str]:
    # Other libraries that were imported add methods of theirs to PyTorch's modules.
    return {each for each in dir(kind) if not each.startswith("_") and each != "smart_apply"}


def test_public_methods_and_their_parameters_are_those_of_torch() -> None:
    names = public_names(torch.nn.Module)
    assert names - set(dir(nn.Module)) == ABSENT
    for name in sorted(names - ABSENT):
        expected, actual = getattr(torch.nn.Module, name), getattr(nn.Module, name)
        if inspect.isfunction(expected) and name != "forward":
            left, right = (
                [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]
                for function in (actual, expected)
            )
            assert left == right, name


#: PyTorch's base of recurrent networks has no forward, and its DataParallel divides batches over several GPUs
OWN = {"DataParallel", "RNNBase"}
SHARED = [
    name
    for name in sorted(set(dir(torch.nn)) & set(dir(nn)) - OWN)
    if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)
]


@pytest.mark.parametrize("name", SHARED)
def test_parameters_of_every_module_are_those_of_torch(name: str) -> None:
    expected, actual = getattr(torch.nn, name), getattr(nn, name)
    for method in ("__init__", "forward"):
        left, right = (
            [(each.name, each.kind) for each in inspect.signature(getattr(kind, method)).parameters.values()]
            for kind in (actual, expected)
        )
        assert left == right, method
    names = public_names(expected)
    assert names - set(dir(actual)) <= ABSENT


@BOTH
def test_submodules_by_name(library: Any) -> None:
    network = library.Sequential(library.Linear(2, 3), library.Sequential(library.ReLU()))
    network.set_submodule("1.0", library.Tanh())
    assert type(network.get_submodule("1.0")) is library.Tanh
    network.set_submodule("extra", library.Tanh())
    assert list(dict(network.named_children())) == ["0", "1", "extra"]
    for target, module, strict, error, message in (
        ("", library.ReLU(), False, ValueError, "without a target name"),
        ("1", 3, False, ValueError, "is not an nn.Module"),
        ("none.0", library.ReLU(), False, AttributeError, "has no attribute `none`"),
        ("1.7", library.ReLU(), True, AttributeError, "has no attribute `7`"),
        ("0.weight", library.ReLU(), False, AttributeError, "`weight` is not an nn.Module"),
    ):
        with pytest.raises(error, match=message):
            network.set_submodule(target, module, strict=strict)


@BOTH
def test_extra_state(library: Any) -> None:
    class Counter(library.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    network = library.Sequential(Counter(), library.Linear(1, 1))
    network[0].count = 5
    state = network.state_dict()
    assert list(state) == ["0._extra_state", "1.weight", "1.bias"]
    other = library.Sequential(Counter(), library.Linear(1, 1))
    other.load_state_dict(state)
    assert other[0].count == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        library.Sequential(library.ReLU(), library.Linear(1, 1)).load_state_dict(network.state_dict())


@BOTH
def test_conversions(library: Any) -> None:
    kinds = tensors(library)
    network = library.Sequential(library.Conv2d(1, 2, 3), library.BatchNorm2d(2))
    weight = network[0].weight
    for method, kind in (("half", kinds.float16), ("bfloat16", kinds.bfloat16), ("float", kinds.float32)):
        assert getattr(network, method)() is network
        assert network[0].weight is weight
        assert weight.dtype is kind and network[1].running_mean.dtype is kind
        assert network[1].num_batches_tracked.dtype is kinds.int64
    assert network.type(kinds.float64)[1].num_batches_tracked.dtype is kinds.float64
    assert network.share_memory() is network
    network.to(kinds.float32, memory_format=kinds.channels_last)
    assert weight.stride() == (9, 1, 3, 1) and weight.dtype is kinds.float32
    network.to_empty(device="meta")
    assert network[0].weight.is_meta and network[1].running_mean.is_meta
    with pytest.raises(NotImplementedError, match="to_empty"):
        network.to("cpu")
    assert not network.to_empty(device="cpu")[0].weight.is_meta
    with pytest.raises(TypeError, match="only accepts floating point"):
        network.to(kinds.int64)


@BOTH
def test_gradients_are_switched_and_dropped(library: Any) -> None:
    kinds = tensors(library)
    network = library.Linear(2, 1)
    network(kinds.ones(1, 2)).sum().backward()
    network.zero_grad(set_to_none=False)
    assert network.weight.grad.tolist() == [[0.0, 0.0]]
    network.zero_grad()
    assert network.weight.grad is None
    assert not any(each.requires_grad for each in network.requires_grad_(False).parameters())
    assert network.requires_grad_() is network


@BOTH
@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_backward_hooks_of_the_old_form(library: Any) -> None:
    kinds = tensors(library)
    seen: list[Any] = []
    layer = library.Tanh()
    handle = layer.register_backward_hook(lambda module, taken, given: seen.append((type(module), given[0].tolist())))
    x = kinds.zeros(2, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [(library.Tanh, [1.0, 1.0])]
    with pytest.raises(RuntimeError, match="Cannot use both"):
        layer.register_full_backward_hook(lambda *_: None)
    handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 1
    layer.register_backward_hook(lambda module, taken, given: (taken[0] * 3,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@BOTH
def test_buffers_by_assignment(library: Any) -> None:
    kinds = tensors(library)
    module = library.Module()
    module.kept = library.Buffer(kinds.ones(2))
    module.scratch = library.Buffer(kinds.ones(1), persistent=False)
    assert isinstance(module.kept, library.Buffer)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "scratch"]
    module.scratch = kinds.zeros(3)
    assert list(module.state_dict()) == ["kept"] and module.scratch.shape == (3,)
    module.kept = None
    assert module.kept is None and list(module.state_dict()) == []
    assert {"kept", "scratch", "forward"} <= set(dir(module))
    del module.scratch
    with pytest.raises(AttributeError, match="scratch"):
        module.scratch.sum()


@BOTH
def test_shared_members_are_named_once_or_every_time(library: Any) -> None:
    layer = library.Linear(1, 1, bias=False)
    layer.register_buffer("scale", tensors(library).ones(1))
    network = library.Sequential(layer, layer)
    assert [name for name, _ in network.named_parameters()] == ["0.weight"]
    every = [name for name, _ in network.named_parameters(remove_duplicate=False)]
    assert every == ["0.weight", "1.weight"]
    assert [name for name, _ in network.named_buffers(remove_duplicate=False)] == ["0.scale", "1.scale"]
    assert [name for name, _ in network.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert [name for name, _ in network.named_parameters(prefix="net", recurse=False)] == []


def test_pickled_and_older_modules() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    again = pickle.loads(pickle.dumps(network))
    x = ours.ones(2, 2)
    assert again(x).tolist() == network(x).tolist() and not again.training
    state = copy.deepcopy(network[0].__getstate__())
    del state["_forward_pre_hooks_with_kwargs"], state["_non_persistent_buffers_set"]
    older = nn.Linear.__new__(nn.Linear)
    older.__setstate__(state)
    older.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    assert older(x).tolist() == network[0](x).tolist()
    assert list(older.state_dict()) == ["weight", "bias"]


def test_state_through_a_file(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    ours.save(network.state_dict(), str(tmp_path / "state.pt"))
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    expected = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    expected.load_state_dict(state)
    x = torch.randn(4, 2)
    close(network(to_ours(x)), expected(x))


def test_compile_in_place(device: str) -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).to(device)
    x = ours.ones(4, 2, device=device)
    with ours.no_grad():
        expected = network(x).tolist()
        network.compile()
        assert network._compiled_call_impl is not None
        assert network(x).tolist() == expected
