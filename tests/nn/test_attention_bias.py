"""Causal masks that are not written out do what PyTorch's do."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
import webgpu_torch as facade
from nn_oracle import close, to_ours

theirs: Any = importlib.import_module("torch.nn.attention.bias")
mine: Any = importlib.import_module("webgpu_torch.nn.attention.bias")


@pytest.mark.parametrize("lengths", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.filterwarnings("ignore:Lower right causal bias will produce NaNs")
def test_attention(name: str, lengths: tuple[int, int], device: str) -> None:
    torch.manual_seed(0)
    operands = [torch.randn(2, 2, length, 4) for length in (lengths[0], lengths[1], lengths[1])]
    expected, bias = getattr(theirs, name)(*lengths), getattr(mine, name)(*lengths)
    assert repr(bias) == repr(expected) and bias.shape == expected.shape
    assert (int(bias.variant), bias.seq_len_q, bias.seq_len_kv) == (int(expected.variant), *lengths)
    given = [to_ours(each, device) for each in operands]
    attend, attend_torch = (t.nn.functional.scaled_dot_product_attention for t in (facade, torch))
    # PyTorch's kernels differ about queries without keys; the mask written out is what they mean.
    right = attend_torch(*operands, attn_mask=expected._materialize(), scale=0.3)
    left = attend(*given, attn_mask=bias, scale=0.3)
    seen = ~right.isnan()
    torch.testing.assert_close(left.cpu().numpy()[seen.numpy()], right.numpy()[seen.numpy()], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        attend(*given, attn_mask=bias, is_causal=True)


def test_refusals() -> None:
    for module in (theirs, mine):
        with pytest.raises(AssertionError, match="causal_upper_left only supports 2D tensors"):
            module.causal_upper_left(2)
        with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
            module.CausalBias(1, 2, 3)
        with pytest.warns(UserWarning, match="will produce NaNs in the output"):
            module.causal_lower_right(3, 2)


def test_the_mask_written_out_is_not_needed() -> None:
    bias = mine.causal_upper_left(1 << 20, 1 << 20)
    query = facade.ones(1, 1, 2, 4)
    small = mine.causal_upper_left(2, 2)
    close(facade.nn.functional.scaled_dot_product_attention(query, query, query, small), torch.ones(1, 1, 2, 4))
    assert bias.seq_len_q == 1 << 20
