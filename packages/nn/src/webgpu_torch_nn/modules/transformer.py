"""Encoders and decoders of "Attention is all you need" (Vaswani et al., 2017), also with normalisation first (Xiong, 2020)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn import functional as F
from webgpu_torch_nn import init
from webgpu_torch_nn.functional import fast_attention
from webgpu_torch_nn.functional.attention import _canonical_mask, _none_or_dtype
from webgpu_torch_nn.modules.activation import GELU, ReLU
from webgpu_torch_nn.modules.container import ModuleList
from webgpu_torch_nn.modules.dropout import Dropout
from webgpu_torch_nn.modules.linear import Linear
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.modules.multihead_attention import MultiheadAttention
from webgpu_torch_nn.modules.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _padding_mask(mask: Tensor | None, name: str, other: Tensor | None, other_name: str, kind: Any) -> Tensor | None:
    return _canonical_mask(mask, name, _none_or_dtype(other), other_name, kind)


class _Layer(Module):
    """What the layers of encoders and decoders share: self-attention, a feed-forward block, and where to normalise."""

    attentions: tuple[str, ...] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        blocks = range(1, len(self.attentions) + 2)
        for name in self.attentions:
            attention = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        for number in blocks:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place))
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)
        self._note_activation()

    def _note_activation(self) -> None:
        """Keep what PyTorch's layer keeps about its activation."""

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _block(self, number: int, input: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the sum of the input and of what a block makes of it, normalised before or after."""
        norm = getattr(self, f"norm{number}")
        if self.norm_first:
            return input + block(norm(input))
        return norm(input + block(input))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attention: Any = self.self_attn
        x = attention(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self.attentions) + 1}")(x)


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward block.

    Args:
        d_model: features of input and output.
        nhead: heads of attention.
        dim_feedforward: features between the two linear maps.
        dropout: probability of dropping elements, while training.
        activation: "relu", "gelu" or a function, between the two linear maps.
        layer_norm_eps: added to variances.
        batch_first: whether inputs and output are [n, length, features], not [length, n, features].
        norm_first: whether each block normalises its input instead of its sum with the input.
        bias: whether linear maps and normalisations have biases.
    """

    def _note_activation(self) -> None:
        self.activation_relu_or_gelu = 0
        if self.activation is F.relu or isinstance(self.activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif self.activation is F.gelu or isinstance(self.activation, GELU):
            self.activation_relu_or_gelu = 2

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output; src [length, n, d_model], masks as those of :class:`MultiheadAttention`."""
        padding = _padding_mask(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype)
        mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        if self._is_fast(src, masked=mask is not None or padding is not None):
            return self._fast(src, mask, padding)
        x = self._block(1, src, lambda each: self._sa_block(each, mask, padding, is_causal))
        return self._block(2, x, self._ff_block)

    def why_not_alike(self) -> str:
        """Return what sets the layer apart from those that are computed in one call, in PyTorch's words; nothing if nothing does."""
        attention: Any = self.self_attn
        norms: Any = self
        if not attention.batch_first:
            return "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)"
        if not attention._qkv_same_embed_dim:
            return "encoder_layer.self_attn._qkv_same_embed_dim was not True"
        if attention.in_proj_bias is None:
            return "encoder_layer.self_attn was passed bias=False"
        if not self.activation_relu_or_gelu:
            return "encoder_layer.activation_relu_or_gelu was not True"
        if norms.norm1.eps != norms.norm2.eps:
            return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
        return "encoder_layer.self_attn.num_heads is odd" if attention.num_heads % 2 else ""

    def _is_fast(self, src: Tensor, masked: bool) -> bool:
        """Return whether the layer is computed in one call, under PyTorch's conditions."""
        if fast_attention.why_not_at_all(self.training, src) or self.why_not_alike() or (src.is_nested and masked):
            return False
        if not (isinstance(self.linear1, Linear) and isinstance(self.linear2, Linear)):
            return False
        if any(each._forward_hooks or each._forward_pre_hooks for each in self.modules()):
            return False
        return not fast_attention.why_not(src, *self._fast_weights())

    def _fast_weights(self) -> tuple[Tensor, ...]:
        """Return the attention's weights, the normalisations' and those of the linear maps, each before its bias."""
        attention: Any = self.self_attn
        norms: Any = self
        modules = attention.out_proj, norms.norm1, norms.norm2, self.linear1, self.linear2
        pairs = [each for module in modules for each in (module.weight, module.bias)]
        return attention.in_proj_weight, attention.in_proj_bias, *pairs

    def _fast(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor:
        attention: Any = self.self_attn
        norms: Any = self
        merged, kind = attention.merge_masks(mask, padding, src)
        weights = self._fast_weights()
        return fast_attention.home._transformer_encoder_layer_fwd(
            src, attention.embed_dim, attention.num_heads, *weights[:4], self.activation_relu_or_gelu == 2, self.norm_first,
            norms.norm1.eps, *weights[4:], merged, kind,
        )  # fmt: skip


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, then a feed-forward block.

    Args:
        d_model: features of input and output.
        nhead: heads of attention.
        dim_feedforward: features between the two linear maps.
        dropout: probability of dropping elements, while training.
        activation: "relu", "gelu" or a function, between the two linear maps.
        layer_norm_eps: added to variances.
        batch_first: whether inputs and output are [n, length, features], not [length, n, features].
        norm_first: whether each block normalises its input instead of its sum with the input.
        bias: whether linear maps and normalisations have biases.
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output; tgt [length, n, d_model], memory [s, n, d_model], masks as :class:`MultiheadAttention`'s."""
        x = self._block(1, tgt, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._block(
            2, x, lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        return self._block(3, x, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attention: Any = self.multihead_attn
        x = attention(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)


def _why_not_nested(layer: Module) -> str:
    """Return why an encoder of such layers does not skip padding while evaluating, in PyTorch's words; empty if it does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    return "encoder_layer.norm_first was True" if layer.norm_first else layer.why_not_alike()


class TransformerEncoder(Module):
    """Layers one after the other, and a normalisation at the end.

    Args:
        encoder_layer: a layer, copied ``num_layers`` times.
        num_layers: how many layers.
        norm: applied at the end; None for none.
        enable_nested_tensor: whether, while evaluating without gradients, the layers' output is zero where the input is
            padding at the ends of sequences: what PyTorch's has, which makes the batch a nested tensor, is found by masks here.
        mask_check: whether to do that only if padding is at the ends.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}")
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the output; arguments as those of the layers. Masks are used as they are, whether causal or not."""
        padding = _padding_mask(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, False)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal is True, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._skips_padding(src):
            output = self._without_padding(output, padding)
        return output if self.norm is None else self.norm(output)

    def _skips_padding(self, src: Tensor) -> bool:
        if not self.use_nested_tensor or fast_attention.why_not_at_all(self.layers[0].training, src):
            return False
        return not (torch.is_grad_enabled() and any(each.requires_grad for each in (src, *self.layers[0].parameters())))

    def _without_padding(self, output: Tensor, padding: Tensor) -> Tensor:
        excluded = padding != 0
        if self.mask_check:
            # Padding is at the ends where no position that counts follows one that does not.
            excluded = excluded & (excluded[:, 1:] | ~excluded[:, :-1]).all()
        return output.masked_fill(excluded.unsqueeze(-1), 0.0)


class TransformerDecoder(Module):
    """Layers one after the other, and a normalisation at the end.

    Args:
        decoder_layer: a layer, copied ``num_layers`` times.
        num_layers: how many layers.
        norm: applied at the end; None for none.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output; arguments as those of the layers. Masks are used as they are, whether causal or not."""
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal is True,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: as those of the
            layers.
        num_encoder_layers, num_decoder_layers: how many layers.
        custom_encoder, custom_decoder: modules to take instead.

    All matrices start Glorot-uniform.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        options = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output; src [s, n, d_model], tgt [t, n, d_model] (n first if ``batch_first``, or without).

        Raises:
            RuntimeError: batches or features that differ.
        """
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a causal mask [sz, sz] to add: -inf above the diagonal, else 0."""
        return torch.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
