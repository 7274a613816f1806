"""Linear maps of one input give the same together as apart, however their weights came to lie."""

from __future__ import annotations

import copy
import gc
import itertools
import weakref

import pytest
import webgpu_torch_core as torch
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch.testing import assert_close
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.contraction.encoded_weights import encode_weight
from webgpu_torch_models.joined import lay_side_by_side, products
from webgpu_torch_models.linear import EncodedLinear, group_of
from webgpu_torch_models.vit import ViTConfig, ViTModel
from webgpu_torch_nn import Linear, Module, Parameter

KINDS = ("float32", "float16", "bfloat16", "uint4", "int8")
#: those that take float32
SINGLE = ("float32", "uint4", "int8")


def made(kind: str, inputs: int, outputs: int, bias: bool, device: str) -> Module:
    """Return a map of float weights of a type, or of an encoding."""
    plain = Linear(inputs, outputs, bias=bias, device=device)
    if kind not in ("uint4", "int8"):
        return plain.to(getattr(torch, kind))
    quantization = {"uint4": "int4", "int8": "int8"}[kind]
    parts = encode_weight(plain.weight.detach(), kind, group_of(inputs, quantization), kind == "uint4")
    return EncodedLinear(parts[0], parts[1], kind, parts[2], plain.bias.detach() if bias else None)


def apart(x: Tensor, groups: list[list[Module]]) -> list[Tensor]:
    return [torch.cat([each(x) for each in group], dim=-1) for group in groups]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(KINDS).map(lambda each: [each]) | st.lists(st.sampled_from(SINGLE), min_size=2, max_size=5),
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 3), st.booleans(), st.integers(1, 5),
)  # fmt: skip
def test_products_are_those_of_each(
    kinds: list[str], sizes: list[list[int]], width: int, bias: bool, rows: int
) -> None:
    check_products(kinds, sizes, width, bias, rows, "cpu")


@pytest.mark.parametrize("kind", ["float32", "uint4"])
def test_products_are_those_of_each_on_the_gpu(kind: str) -> None:
    check_products([kind, kind, "int8"], [[2, 3], [1]], 1, kind == "float32", 1, "webgpu")


def check_products(kinds: list[str], sizes: list[list[int]], width: int, bias: bool, rows: int, device: str) -> None:
    torch.manual_seed(rows)
    numbers = itertools.cycle(kinds)
    groups = [[made(next(numbers), 32 * width, 4 * size, bias, device) for size in group] for group in sizes]
    maps = [each for group in groups for each in group]
    dtype = torch.float32 if kinds[0] in SINGLE else getattr(torch, kinds[0])
    x = torch.randn(rows, 32 * width, device=device).to(dtype)
    with torch.no_grad():
        wanted = apart(x, groups)
        before = [copy.deepcopy(each.state_dict()) for each in maps]
        parameters = [list(each.parameters()) for each in maps]
        lay_side_by_side(maps)
        for found, expected in zip(products(x, *groups), wanted, strict=True):
            assert_close(found, expected)
        for each, old, own in zip(maps, before, parameters, strict=True):
            assert all(torch.equal(value, old[key]) for key, value in each.state_dict().items())
            assert all(one is other for one, other in zip(each.parameters(), own, strict=True))
        # What is written into one map reaches the product.
        buffer = maps[-1].bias if bias else next(iter(maps[-1].state_dict(keep_vars=True).values()))
        buffer.zero_()
        for found, expected in zip(products(x, *groups), apart(x, groups), strict=True):
            assert_close(found, expected)


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_products_of_few_weights_are_one_contraction(device: str) -> None:
    maps = [Linear(8, 4, device=device), Linear(8, 12, device=device)]
    x = torch.ones(2, 8, device=device)
    lay_side_by_side(maps)
    with torch.no_grad():
        first, second = products(x, maps[:1], maps[1:])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def test_gradients_and_hooks_see_each_map() -> None:
    maps = [Linear(4, 2), Linear(4, 3)]
    lay_side_by_side(maps)
    x = torch.randn(5, 4)
    sum(each.sum() for each in products(x, *[[each] for each in maps])).backward()
    for each in maps:
        assert_close(each.weight.grad, x.sum(0).expand_as(each.weight))
    called = []
    maps[1].register_forward_hook(lambda module, given, result: called.append(module))
    with torch.no_grad():
        products(x, maps)
    assert called == [maps[1]]


@pytest.mark.parametrize(
    ("kinds", "together"),
    [("ffi", 1), ("uui", 1), ("iuui", 1), ("uiu", 0), ("ffuuu", 2), ("", 0), ("f", 0), ("fh", 0)],
)
def test_runs_of_one_kind_lie_together(kinds: str, together: int) -> None:
    """Maps of another kind interrupt those that one product computes."""
    names = {"f": "float32", "h": "float16", "u": "uint4", "i": "int8"}
    maps = [made(names[each], 32, 4, False, "cpu") for each in kinds]
    lay_side_by_side(maps)
    pieces = [next(iter(each.state_dict().values())).untyped_storage().data_ptr() for each in maps]
    assert sum(pieces.count(each) > 1 for each in set(pieces)) == together


@settings(max_examples=15, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=4), st.sampled_from(["float32", "uint4"]), st.data())
def test_maps_without_bias_lie_beside_those_with(biases: list[bool], kind: str, data: st.DataObject) -> None:
    """Where some have none, zeros lie in its place, as long as nothing else may."""
    maps = [made(kind, 32, 4 * (number + 1), bias, "cpu") for number, bias in enumerate(biases)]
    x = torch.randn(3, 32)
    each = [[one] for one in maps]
    with torch.no_grad():
        lay_side_by_side(maps)
        found = products(x, *each)
        for one, other in zip(found, apart(x, each), strict=True):
            assert_close(one, other)
        assert len({one.untyped_storage().data_ptr() for one in found}) == 1
        # A bias that changes, that lies elsewhere, or that there was none of, counts.
        changed = data.draw(st.sampled_from(maps))
        value = torch.randn(len(apart(x, [[changed]])[0][0]))
        if changed.bias is not None and data.draw(st.booleans()):
            changed.bias.copy_(value)
        elif isinstance(changed, Linear):
            changed.bias = Parameter(value)
        else:
            changed.bias = value
        for one, other in zip(products(x, *each), apart(x, each), strict=True):
            assert_close(one, other)


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_evaluated_models_on_accelerators_are_joined(device: str) -> None:
    config = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16)
    with torch.device(device):
        model = ViTModel(config).eval()
    attention = model.encoder.layer[0].attention.attention
    places = {getattr(attention, name).weight.untyped_storage().data_ptr() for name in attention.joined_maps}
    assert len(places) == (1 if device == "webgpu" else 3)


def test_nobody_keeps_maps() -> None:
    maps = [Linear(4, 2), Linear(4, 3, bias=False)]
    lay_side_by_side(maps)
    with torch.no_grad():
        products(torch.ones(1, 4), *[[each] for each in maps])
    gone = [weakref.ref(each) for each in (*maps, maps[0].weight)]
    maps.clear()
    gc.collect()
    assert [each() for each in gone] == [None] * 3
