"""Nested tensors whose components may differ in all sizes, and the calls by which modules that evaluate compute attention."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Converting mask without")

#: of x: components [rows, 4]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda t, x: (x + 1).tanh() * x.relu() - x / 3, "two": lambda t, x: x * x.abs() + x,
    "filled": lambda t, x: x.masked_fill(x > 0.3, -1.0), "typed": lambda t, x: x.double().mul(2), "gated": lambda t, x: t.nn.functional.gelu(x),
    "linear": lambda t, x: t.nn.functional.linear(x, t.arange(12.0).reshape(3, 4) / 9, t.ones(3)),
    "normalised": lambda t, x: t.nn.functional.layer_norm(x, (4,), t.arange(4.0), t.ones(4)), "softmax of features": lambda t, x: x.softmax(-1),
    "softmax of positions": lambda t, x: t.softmax(x, 1), "sum": lambda t, x: x.sum(-1, keepdim=True), "product": lambda t, x: t.bmm(x, x.transpose(1, 2)),
    "heads": lambda t, x: x.reshape(x.size(0), -1, 2, 2).transpose(1, 2).contiguous(), "joined": lambda t, x: t.cat([x, x + 1]),
    "parts": lambda t, x: x.chunk(2, -1)[1].contiguous() * 2, "ends": lambda t, x: x.unsqueeze(-1).squeeze(-1),
    "padded": lambda t, x: x.to_padded_tensor(-1.0), "longer": lambda t, x: t.nested.to_padded_tensor(x, 0.5, (x.size(0), 9, 6)),
    "component": lambda t, x: x[-1] * 2, "one feature": lambda t, x: x.select(2, 1), "unbound": lambda t, x: sum(each.sum() for each in x.unbind()),
    "likes": lambda t, x: t.ones_like(x) + t.zeros_like(x) * x, "copied": lambda t, x: x.clone().mul_(2).add_(1), "detached": lambda t, x: x.detach() * x,
    "dropped": lambda t, x: t.nn.functional.dropout(x, 0.5, training=False),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(*[x.reshape(x.size(0), -1, 2, 2).transpose(1, 2).contiguous()] * 3),
}  # fmt: skip

#: programs in which components meet
OF_THE_BATCH = ("padded", "longer", "component", "unbound")


def told(value: Any) -> Any:
    """Return a tensor's components as numbers."""
    if getattr(value, "is_nested", False):
        return [told(each) for each in value.unbind()]
    return torch.tensor(value.detach().tolist(), dtype=torch.float64).reshape(tuple(value.shape))


def same(first: Any, second: Any) -> None:
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5, equal_nan=True)


def components(sizes: list[int]) -> list[Any]:
    generator = torch.Generator().manual_seed(sum(sizes))
    return [torch.randn(size, 4, generator=generator) for size in sizes]


def differentiated(program: Callable[[Any], Any], leaves: list[Any]) -> tuple[Any, list[Any]]:
    """Return what a program makes of a nested tensor of components, and their gradients."""
    result = program(leaves)
    parts = result.unbind() if result.is_nested else [result]
    loss = sum((each * each).sum() for each in parts)
    if loss.requires_grad:
        loss.backward()
    return told(result), [None if each.grad is None else told(each.grad) for each in leaves]


def compare(name: str, sizes: list[int], device: str = "cpu") -> None:
    """Compare with PyTorch's nested tensor, and gradients with those of each component alone: few programs have theirs there."""
    t, program = webgpu_torch, PROGRAMS[name]
    with t.device(device):
        leaves = [t.tensor(each.tolist()).requires_grad_() for each in components(sizes)]
        found, gradients = differentiated(lambda given: program(t, t.nested.as_nested_tensor(given)), leaves)
    same(found, told(program(torch, torch.nested.nested_tensor(components(sizes)))))
    if name in OF_THE_BATCH:
        oracle = [each.requires_grad_() for each in components(sizes)]
        same(gradients, differentiated(lambda given: program(torch, torch.nested.as_nested_tensor(given)), oracle)[1])
        return
    for part, gradient in zip(components(sizes), gradients, strict=True):
        own = differentiated(lambda given: program(torch, given[0].unsqueeze(0)), [part.requires_grad_()])[1]
        same(gradient, own[0])


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_programs(name: str, sizes: list[int]) -> None:
    compare(name, sizes)


@pytest.mark.parametrize("name", ["attention", "softmax of positions", "padded", "linear"])
def test_programs_on_devices(name: str, device: str) -> None:
    compare(name, [3, 1, 4], device)


def test_what_is_asked_of_them() -> None:
    found = []
    for t in (webgpu_torch, torch):
        x = t.nested.nested_tensor([[[1.0, 2.0]], [[3.0], [4.0]]])
        found.append(
            [x.dim(), x.size(0), x.size(-3), x.numel(), str(x.layout), x.is_nested, x.requires_grad, x.is_contiguous(), told(x.values())]
            + [told(x._nested_tensor_size()), told(x._nested_tensor_strides()), told(x._nested_tensor_storage_offsets())]
            + [repr(x).split(), told(t.nested.nested_tensor([1.0, 2.0])), told(t.nested.nested_tensor([]))]
        )  # fmt: skip
        for wrong in (
            lambda: x.size(1),
            lambda: x.shape,
            lambda: x.stride(),
            lambda: x.to_padded_tensor(0.0, (2, 1, 2)),
        ):  # noqa: B023
            with pytest.raises(RuntimeError):
                wrong()
    assert str(found[0]) == str(found[1])
    x = webgpu_torch.nested.nested_tensor([webgpu_torch.ones(2, 3), webgpu_torch.zeros(1, 2)])
    assert not webgpu_torch.overrides.has_torch_function((x,))
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        same(told(twin), told(x))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "dense beside it": lambda t, x: x + t.ones(4), "other sizes": lambda t, x: x * t.nested.nested_tensor([t.ones(1, 4)] * 2),
    "dense factor": lambda t, x: x @ t.ones(4, 3), "part of the batch": lambda t, x: x[:1], "truth": lambda t, x: bool(x),
    "list": lambda t, x: x.tolist(), "array": lambda t, x: x.numpy(), "dimensions": lambda t, x: t.nested.nested_tensor([t.ones(2), t.ones(2, 2)]),
    "ragged norm": lambda t, x: t.nn.LayerNorm((2, 4))(x), "layouts": lambda t, x: t.nested.as_nested_tensor(x, layout=t.jagged),
    "gaps": lambda t, x: t._nested_tensor_from_mask(t.ones(1, 3, 2), t.tensor([[True, False, True]])), "squeezed": lambda t, x: x.squeeze(),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    for t in (webgpu_torch, torch):
        x = t.nested.nested_tensor([t.ones(2, 4), t.ones(3, 4)])
        with pytest.raises((RuntimeError, NotImplementedError)):
            REFUSED[name](t, x)


def test_rows_that_a_mask_counts() -> None:
    found = []
    for t in (webgpu_torch, torch):
        batch, mask = t.arange(12.0).reshape(2, 3, 2), t.tensor([[True, False, False], [True, True, True]])
        found.append(
            (told(t._nested_tensor_from_mask(batch, mask)), t._nested_tensor_from_mask_left_aligned(batch, mask))
        )
    same(*found)
    assert found[0][1] == found[1][1]


# Modules that evaluate


def twins(make: Callable[[Any], Any], device: str = "cpu") -> tuple[Any, Any]:
    """Return a module of this library and one of PyTorch's with the same weights, neither of them training."""
    torch.manual_seed(0)
    theirs, mine = make(torch).eval(), make(webgpu_torch).eval()
    mine.load_state_dict({name: webgpu_torch.tensor(each.tolist()) for name, each in theirs.state_dict().items()})
    return mine.to(device), theirs


MASKS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "none": lambda t: {}, "pairs": lambda t: {"attn_mask": t.ones(3, 3).triu(1).bool()},
    "padding": lambda t: {"key_padding_mask": t.tensor([[False, True, True], [False, False, True]])},
    "both": lambda t: {**MASKS["pairs"](t), **MASKS["padding"](t)}, "heads": lambda t: {"attn_mask": t.ones(3, 3).triu(1).bool().repeat(4, 1, 1)},
    "added": lambda t: {"attn_mask": t.ones(3, 3).triu(1) * -2.0},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MASKS))
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_attention_without_gradients(name: str, options: dict[str, bool], device: str) -> None:
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    found = []
    mine, theirs = twins(lambda t: t.nn.MultiheadAttention(8, 2, batch_first=True), device)
    for t, module, place in ((webgpu_torch, mine, device), (torch, theirs, "cpu")):
        given, masks = t.tensor(x.tolist(), device=place), {key: each.to(place) for key, each in MASKS[name](t).items()}
        with t.no_grad():
            output, weights = module(given, given, given, **masks, **options)
        found.append([told(output), None if weights is None else told(weights)])
    same(*found)


def test_attention_of_nested_tensors(device: str) -> None:
    found = []
    mine, theirs = twins(lambda t: t.nn.MultiheadAttention(4, 2, batch_first=True), device)
    for t, module, place in ((webgpu_torch, mine, device), (torch, theirs, "cpu")):
        x = t.nested.nested_tensor([t.tensor(each.tolist(), device=place) for each in components([3, 2])])
        with pytest.raises(AssertionError, match="NestedTensor outside of its fast path.*grad is enabled"):
            module(x, x, x)
        with t.inference_mode():
            output, weights = module(x, x, x)
            found.append([told(output), told(weights), told(module(x, x, x, need_weights=False)[0])])
        ragged = t.nested.nested_tensor([t.ones(2, 4, device=place)], layout=t.jagged)
        with t.no_grad(), pytest.raises(AssertionError, match="argument has_torch_function"):
            module(ragged, ragged, ragged)
    same(*found)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layers_without_gradients(norm_first: bool, activation: str, device: str) -> None:
    def make(t: Any) -> Any:
        return t.nn.TransformerEncoderLayer(4, 2, 8, activation=activation, batch_first=True, norm_first=norm_first)

    found = []
    mine, theirs = twins(make, device)
    for t, module, place in ((webgpu_torch, mine, device), (torch, theirs, "cpu")):
        parts = [t.tensor(each.tolist(), device=place) for each in components([3, 3])]
        mask = t.tensor([[False, False, True], [False, False, False]], device=place)
        with t.no_grad():
            batch = module(t.stack(parts), src_key_padding_mask=mask)
            found.append([told(batch), told(module(t.nested.nested_tensor(parts)))])
    same(*found)


def test_programs_replace_the_calls() -> None:
    t = webgpu_torch
    layer, x = t.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), t.ones(1, 3, 4)
    with mock.patch.object(t, "_native_multi_head_attention", return_value=(x, None)) as attention:
        layer.self_attn(x, x, x)
        assert not attention.called
        with t.no_grad():
            layer.self_attn(x, x, x)
            assert attention.call_count == 1
            t.backends.mha.set_fastpath_enabled(False)
            try:
                layer.self_attn(x, x, x)
            finally:
                t.backends.mha.set_fastpath_enabled(True)
            assert attention.call_count == 1
    with mock.patch.object(t, "_transformer_encoder_layer_fwd", return_value=x) as forward, t.no_grad():
        assert layer(x) is x and forward.call_count == 1
        handle = layer.linear1.register_forward_hook(lambda *_: None)
        layer(x)
        handle.remove()
        layer.linear1 = t.nn.Sequential(layer.linear1)
        layer(x)
        assert forward.call_count == 1


def test_parts_of_what_inference_made() -> None:
    with webgpu_torch.inference_mode():
        made = webgpu_torch.arange(6.0) * 2
        for parts in (made.split(3), made.chunk(2), made.view(2, 3).unbind()):
            assert [each.tolist() for each in parts] == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
