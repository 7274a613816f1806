"""Multi-head attention and transformers as modules against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as facade
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from functional_oracle import tensor
from nn_oracle import close, to_ours, to_torch
from paired_modules import Pair, moved, seeded

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

CAUSAL = torch.ones(3, 3, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False, False, True], [False, False, False]])
ATTENTION: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "without weights": ({"bias": False}, {"need_weights": False}),
    "bool masks": ({"batch_first": True}, {"attn_mask": CAUSAL, "key_padding_mask": PADDING}),
    "float masks": (
        {},
        {
            "attn_mask": tensor(4, 3, 3).detach(),
            "key_padding_mask": tensor(2, 3).detach(),
            "average_attn_weights": False,
        },
    ),
    "causal hint": ({"batch_first": True}, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    "more positions": ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": PADDING}),
}


@pytest.mark.slow_on("webgpu-float masks")
@pytest.mark.parametrize(("options", "arguments"), ATTENTION.values(), ids=ATTENTION)
def test_attention_to_itself(options: dict[str, Any], arguments: dict[str, Any], device: str) -> None:
    input = tensor(2, 3, 4) if options.get("batch_first") else tensor(3, 2, 4)
    Pair("MultiheadAttention", device, 4, 2, **options).check(input, input, input, **arguments)


@pytest.mark.slow_on("webgpu")
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_to_others(need_weights: bool, device: str) -> None:
    pair = Pair("MultiheadAttention", device, 4, 2, kdim=3, vdim=5)
    pair.check(tensor(2, 2, 4), tensor(3, 2, 3), tensor(3, 2, 5), need_weights=need_weights)


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_without_batch(batch_first: bool, device: str) -> None:
    pair = Pair("MultiheadAttention", device, 4, 2, batch_first=batch_first)
    pair.check(tensor(2, 4), tensor(3, 4), tensor(3, 4, seed=1), key_padding_mask=PADDING[0])
    pair.check(tensor(3, 4), tensor(3, 4), tensor(3, 4), attn_mask=CAUSAL, average_attn_weights=False)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_of_attention_draws_as_pytorch(need_weights: bool) -> None:
    pair = Pair("MultiheadAttention", "cpu", 8, 2, dropout=0.5)
    input = tensor(4, 3, 8)
    theirs, mine = input.detach(), to_ours(input)
    seeded(5)
    close(pair.ours(mine, mine, mine, need_weights=need_weights)[0], pair.theirs(theirs, theirs, theirs)[0])


def test_padding_everywhere_gives_nan_only_with_weights() -> None:
    pair = Pair("MultiheadAttention", "cpu", 4, 2)
    input, mask = tensor(3, 2, 4).detach(), torch.tensor([[True] * 3, [False] * 3])
    for need_weights in (True, False):
        want = pair.theirs(input, input, input, key_padding_mask=mask, need_weights=need_weights)[0]
        mine = to_ours(input)
        have = pair.ours(mine, mine, mine, key_padding_mask=to_ours(mask), need_weights=need_weights)[0]
        torch.testing.assert_close(to_torch(have), want.detach(), equal_nan=True)


LAYERS: dict[str, dict[str, Any]] = {
    "after": {"dropout": 0.0},
    "before": {"dropout": 0.0, "norm_first": True, "activation": "gelu", "batch_first": True},
    "without bias": {"dropout": 0.0, "bias": False, "layer_norm_eps": 1e-3},
}


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_encoder_layer(options: dict[str, Any], device: str) -> None:
    input = tensor(2, 3, 4) if options.get("batch_first") else tensor(3, 2, 4)
    pair = Pair("TransformerEncoderLayer", device, 4, 2, 6, **options)
    pair.check(input, src_mask=CAUSAL, src_key_padding_mask=PADDING)
    if device == "cpu":
        pair.eval().check(input, CAUSAL, is_causal=True)


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_decoder_layer(options: dict[str, Any], device: str) -> None:
    first = options.get("batch_first")
    target, memory = (tensor(2, 3, 4), tensor(2, 3, 4, seed=1)) if first else (tensor(3, 2, 4), tensor(3, 2, 4, seed=1))
    pair = Pair("TransformerDecoderLayer", device, 4, 2, 6, **options)
    pair.check(target, memory, tgt_mask=CAUSAL, memory_key_padding_mask=PADDING)


@pytest.mark.parametrize("activation", [torch.nn.functional.silu, torch.tanh])
def test_activations_as_functions(activation: Any) -> None:
    theirs = torch.nn.TransformerEncoderLayer(4, 2, 6, 0.0, activation)
    found = getattr(nn.functional, activation.__name__)
    module = nn.TransformerEncoderLayer(4, 2, 6, 0.0, found)
    assert module.activation_relu_or_gelu == theirs.activation_relu_or_gelu == 0
    module.load_state_dict({key: to_ours(value) for key, value in theirs.state_dict().items()})
    input = tensor(3, 2, 4)
    close(module(to_ours(input)), theirs(input), 1e-5, 1e-5)


@pytest.mark.parametrize(("activation", "number"), [("relu", 1), ("gelu", 2)])
def test_activations_by_name(activation: str, number: int) -> None:
    assert nn.TransformerEncoderLayer(4, 2, 6, activation=activation).activation_relu_or_gelu == number
    assert nn.TransformerEncoderLayer(4, 2, 6, activation=nn.GELU()).activation_relu_or_gelu == 2


@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer(batch_first: bool, device: str) -> None:
    size = {"d_model": 4, "nhead": 2, "dim_feedforward": 6, "num_encoder_layers": 1, "num_decoder_layers": 1}
    pair = Pair("Transformer", device, dropout=0.0, batch_first=batch_first, **size)
    source, target = tensor(2, 3, 4), tensor(2, 3, 4, seed=1)
    if not batch_first:
        source, target = (each.detach().transpose(0, 1).contiguous().requires_grad_() for each in (source, target))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    pair.check(source, target, tgt_mask=mask, tgt_is_causal=True)
    if device == "cpu":
        pair.eval().check(source, target, src_key_padding_mask=PADDING, memory_key_padding_mask=PADDING)
        pair.check(source, target, tgt_mask=mask)


def test_transformer_without_batch() -> None:
    Pair("Transformer", "cpu", 4, 2, 1, 1, 6, dropout=0.0).check(tensor(3, 4), tensor(2, 4))


def test_dropout_draws_as_pytorch() -> None:
    pair = Pair("Transformer", "cpu", 8, 2, 1, 1, 16, dropout=0.3, norm_first=True)
    source, target = tensor(3, 2, 8).detach(), tensor(4, 2, 8).detach()
    seeded(4)
    close(pair.ours(to_ours(source), to_ours(target)), pair.theirs(source, target), 1e-5, 1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("checked", [True, False])
def test_padding_of_an_evaluating_encoder_is_zero(aligned: bool, checked: bool, device: str) -> None:
    """PyTorch leaves padding out where it may: what comes out there is zero, before the last normalisation."""
    if not aligned and not checked:
        pytest.skip("PyTorch reads nonsense")
    theirs = torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    for norm in (None, torch.nn.LayerNorm(4)):
        encoder = torch.nn.TransformerEncoder(theirs, 2, norm, mask_check=checked).eval()
        layer, last = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), None if norm is None else nn.LayerNorm(4)
        module = nn.TransformerEncoder(layer, 2, last, mask_check=checked).eval()
        module.load_state_dict({key: to_ours(value) for key, value in encoder.state_dict().items()})
        module.to(device)
        input = tensor(2, 3, 4).detach()
        mask = PADDING if aligned else PADDING.flip(1)
        with torch.no_grad(), ours.no_grad():
            expected = encoder(input, src_key_padding_mask=mask)
            actual = module(*moved((input,), device), src_key_padding_mask=to_ours(mask, device))
        close(actual, expected, 1e-5, 1e-5)
        assert norm is not None or (expected[0, 2].abs().sum() == 0) == aligned


def test_why_padding_counts() -> None:
    odd = nn.TransformerEncoderLayer(3, 1, 4, batch_first=True)
    for build in (
        lambda nn: nn.TransformerEncoderLayer(4, 2, 6),
        lambda nn: nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=True),
        lambda nn: nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, bias=False),
        lambda nn: nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, activation=nn.functional.silu),
        lambda nn: nn.TransformerEncoderLayer(3, 3, 6, batch_first=True),
        lambda nn: nn.Linear(1, 1),
    ):
        with pytest.warns(UserWarning) as expected:
            torch.nn.TransformerEncoder(build(torch.nn), 1)
        with pytest.warns(UserWarning) as actual:
            module = nn.TransformerEncoder(build(nn), 1)
        assert str(actual[-1].message) == str(expected[-1].message)
        assert not module.use_nested_tensor
    assert not nn.TransformerEncoder(odd, 1, enable_nested_tensor=False).use_nested_tensor


def test_layers_are_copies() -> None:
    layer = nn.TransformerDecoderLayer(4, 2, 6)
    decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(4))
    first, second = decoder.layers
    assert first is not layer and first.linear1.weight is not second.linear1.weight
    assert ours.equal(first.linear1.weight, second.linear1.weight)
    again = copy.deepcopy(decoder)
    assert list(again.state_dict()) == list(decoder.state_dict())


def test_custom_encoder_and_decoder() -> None:
    class Sum(nn.Module):
        def forward(self, *tensors: Any, **options: Any) -> Any:
            assert set(options) <= {
                "mask", "src_key_padding_mask", "is_causal", "tgt_mask", "memory_mask", "tgt_key_padding_mask",
                "memory_key_padding_mask", "tgt_is_causal", "memory_is_causal",
            }  # fmt: skip
            return sum(tensors)

    model = nn.Transformer(4, 2, custom_encoder=Sum(), custom_decoder=Sum())
    ones = ours.ones(3, 1, 4)
    assert model(ones, ones).tolist() == (ones * 2).tolist()


def test_square_subsequent_mask(device: str) -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(4, device=device, dtype=ours.float32)
    assert mask.device.type == device
    close(mask, torch.nn.Transformer.generate_square_subsequent_mask(4))


def test_names() -> None:
    assert facade.nn.modules.activation.MultiheadAttention is nn.MultiheadAttention
    assert facade.nn.modules.transformer.Transformer is nn.Transformer
    merged, kind = nn.MultiheadAttention(4, 2).merge_masks(to_ours(CAUSAL.float()), None, ours.ones(2, 3, 4))
    assert merged is not None
    assert (merged.shape, kind) == ((2, 2, 3, 3), 2)


CALLS: dict[str, Callable[[Any], Any]] = {
    "sizes": lambda t: t.nn.MultiheadAttention(0, 2),
    "heads": lambda t: t.nn.MultiheadAttention(5, 2),
    "causal without mask": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 1, 4)] * 3, is_causal=True),
    "type of mask": lambda t: t.nn.MultiheadAttention(4, 2)(
        *[t.zeros(3, 1, 4)] * 3, attn_mask=t.zeros(3, 3, dtype=t.int64)
    ),
    "rank": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 1, 4, 1)] * 3),
    "ranks": lambda t: t.nn.MultiheadAttention(4, 2)(t.zeros(3, 1, 4), t.zeros(3, 4), t.zeros(3, 4)),
    "key and value": lambda t: t.nn.MultiheadAttention(4, 2)(t.zeros(3, 1, 4), t.zeros(3, 1, 4), t.zeros(2, 1, 4)),
    "other key and value": lambda t: t.nn.MultiheadAttention(4, 2, vdim=5)(
        t.zeros(3, 1, 4), t.zeros(3, 1, 4), t.zeros(2, 1, 5)
    ),
    "width": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 1, 6)] * 3),
    "padding's batch": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 1, 4)] * 3, key_padding_mask=t.zeros(2, 3)),
    "padding's length": lambda t: t.nn.MultiheadAttention(4, 2)(
        *[t.zeros(3, 1, 4)] * 3, key_padding_mask=t.zeros(1, 2)
    ),
    "padding's rank": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 4)] * 3, key_padding_mask=t.zeros(1, 2)),
    "mask's shape": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 1, 4)] * 3, attn_mask=t.zeros(2, 2)),
    "mask's three sizes": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.zeros(3, 4)] * 3, attn_mask=t.zeros(2, 2, 2)),
    "activation": lambda t: t.nn.TransformerEncoderLayer(4, 2, activation="silu"),
    "batches": lambda t: t.nn.Transformer(4, 2, 1, 1, 4)(t.zeros(3, 1, 4), t.zeros(3, 2, 4)),
    "features": lambda t: t.nn.Transformer(4, 2, 1, 1, 4)(t.zeros(3, 1, 4), t.zeros(3, 1, 5)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_messages(call: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        call(torch)
    with pytest.raises(type(expected.value)) as actual:
        call(facade)
    assert str(actual.value) == str(expected.value)


def test_mismatched_masks_warn() -> None:
    input = ours.zeros(3, 2, 4)
    module = nn.MultiheadAttention(4, 2)
    with pytest.warns(UserWarning, match="Support for mismatched key_padding_mask and attn_mask is deprecated"):
        module(input, input, input, key_padding_mask=to_ours(PADDING), attn_mask=ours.zeros(3, 3))
