"""The U-Net of Stable Diffusion 1.x, 2.x and XL (Rombach et al., 2021; Podell et al., 2023).

Parameter names are those of diffusers' checkpoints. In comments B is the batch, C channels, H and W height and width, T tokens,
E a width.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, GroupNorm, Identity, LayerNorm, Linear, Module, ModuleList
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.diffusion.blocks import Downsample, ResnetBlock, TimestepEmbedding, Upsample
from webgpu_torch_models.diffusion.part import DiffusionPart
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import attend, sinusoids

#: options of diffusers' U-Net that change the network and are not here, with the values that leave it as it is
_FIXED: dict[str, Any] = {
    "act_fn": "silu", "center_input_sample": False, "class_embed_type": None, "num_class_embeds": None,
    "conv_in_kernel": 3, "conv_out_kernel": 3, "downsample_padding": 1, "dual_cross_attention": False,
    "encoder_hid_dim": None, "encoder_hid_dim_type": None, "mid_block_scale_factor": 1, "only_cross_attention": False,
    "num_attention_heads": None, "resnet_time_scale_shift": "default", "resnet_skip_time_act": False,
    "resnet_out_scale_factor": 1.0, "time_embedding_type": "positional", "timestep_post_act": None,
    "time_embedding_act_fn": None, "time_embedding_dim": None, "attention_type": "default", "cross_attention_norm": None,
    "reverse_transformer_layers_per_block": None, "class_embeddings_concat": False, "mid_block_only_cross_attention": None,
}  # fmt: skip


@dataclasses.dataclass
class UNet2DConditionConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are Stable Diffusion 1.5's but for ``cross_attention_dim``."""

    model_type: ClassVar[str] = "UNet2DConditionModel"

    sample_size: int = 64
    in_channels: int = 4
    out_channels: int = 4
    flip_sin_to_cos: bool = True
    freq_shift: float = 0
    down_block_types: tuple[str, ...] = (*("CrossAttnDownBlock2D",) * 3, "DownBlock2D")
    mid_block_type: str | None = "UNetMidBlock2DCrossAttn"
    up_block_types: tuple[str, ...] = ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3)
    block_out_channels: tuple[int, ...] = (320, 640, 1280, 1280)
    layers_per_block: int = 2
    norm_num_groups: int = 32
    norm_eps: float = 1e-5
    cross_attention_dim: int = 1280
    transformer_layers_per_block: Any = 1
    attention_head_dim: Any = 8
    use_linear_projection: bool = False
    upcast_attention: bool = False
    addition_embed_type: str | None = None
    addition_time_embed_dim: int | None = None
    projection_class_embeddings_input_dim: int | None = None
    time_cond_proj_dim: int | None = None

    def __post_init__(self) -> None:
        changed = [name for name, value in _FIXED.items() if self.extra.get(name, value) != value]
        if changed:
            raise ValueError(f"the U-Net has no {changed[0]}={self.extra[changed[0]]!r}, only {_FIXED[changed[0]]!r}")
        for name, known in (
            ("down_block_types", ("CrossAttnDownBlock2D", "DownBlock2D")),
            ("up_block_types", ("CrossAttnUpBlock2D", "UpBlock2D")),
            ("block_out_channels", None),
        ):
            values = getattr(self, name)
            if len(values) != len(self.block_out_channels):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.block_out_channels)} blocks")
            strange = [each for each in values if known is not None and each not in known]
            if strange:
                raise ValueError(f'{name} has "{strange[0]}"; known are: {", ".join(known or ())}')
        if self.addition_embed_type not in (None, "text_time"):
            raise ValueError(f'addition_embed_type is "{self.addition_embed_type}"; known are: text_time, null')

    def heads(self, block: int) -> int:
        """Return how many heads a block's attention has, which is what checkpoints call ``attention_head_dim``."""
        given = self.attention_head_dim
        return given[block] if isinstance(given, list | tuple) else given

    def depth(self, block: int) -> int:
        """Return how many transformer layers each attention of a block has."""
        given = self.transformer_layers_per_block
        return given[block] if isinstance(given, list | tuple) else given


class CrossAttention(Module):
    """Attention to other tokens, or to the own."""

    joined_maps: ClassVar[tuple[str, ...]] = ("to_q", "to_k", "to_v")

    def __init__(self, width: int, other: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = Linear(width, width, bias=False)
        self.to_k, self.to_v = Linear(other, width, bias=False), Linear(other, width, bias=False)
        self.to_out = ModuleList([Linear(width, width), Identity()])

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None = None) -> Tensor:
        if other is x:
            query, key, value = products(x, (self.to_q,), (self.to_k,), (self.to_v,))
        else:
            query, (key, value) = self.to_q(x), products(other, (self.to_k,), (self.to_v,))
        return self.to_out[0](attend(query, key, value, self.heads, mask))


class GatedGELU(Module):
    """``x * gelu(gate)`` of a projection's halves."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = Linear(inputs, 2 * outputs)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * F.gelu(gate)


class FeedForward(Module):
    """A gated projection and one back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = ModuleList([GatedGELU(width, 4 * width), Identity(), Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](self.net[0](x))


class TransformerBlock(Module):
    """Attention to the image, to the text, and the MLP, each on the normalised input and added to it."""

    def __init__(self, width: int, other: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn1 = LayerNorm(width), CrossAttention(width, width, heads)
        self.norm2, self.attn2 = LayerNorm(width), CrossAttention(width, other, heads)
        self.norm3, self.ff = LayerNorm(width), FeedForward(width)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor | None) -> Tensor:
        normal = self.norm1(x)
        x = x + self.attn1(normal, normal)
        x = x + self.attn2(self.norm2(x), text, mask)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(Module):
    """Transformer blocks over an image's positions, added to it."""

    def __init__(self, config: UNet2DConditionConfig, channels: int, block: int) -> None:
        super().__init__()
        self.linear = config.use_linear_projection
        self.norm = GroupNorm(config.norm_num_groups, channels, eps=1e-6)
        make = Linear if self.linear else (lambda inputs, outputs: Conv2d(inputs, outputs, 1))
        self.proj_in = make(channels, channels)
        heads, other = config.heads(block), config.cross_attention_dim
        self.transformer_blocks = ModuleList(
            [TransformerBlock(channels, other, heads) for _ in range(config.depth(block))]
        )
        self.proj_out = make(channels, channels)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor | None) -> Tensor:
        batch, channels, height, width = x.shape
        inner = self.norm(x)
        if not self.linear:
            inner = self.proj_in(inner)
        inner = inner.permute(0, 2, 3, 1).reshape(batch, height * width, channels)  # (B, H W, C)
        if self.linear:
            inner = self.proj_in(inner)
        for block in self.transformer_blocks:
            inner = block(inner, text, mask)
        if self.linear:
            inner = self.proj_out(inner)
        inner = inner.reshape(batch, height, width, channels).permute(0, 3, 1, 2)  # (B, C, H, W)
        return x + (inner if self.linear else self.proj_out(inner))


class UNetBlock(Module):
    """Residual blocks, attention after each where the block has it, and a change of size at the end.

    Args:
        config: the network's.
        number: of the block, counted from the largest images.
        channels: inputs and outputs of each residual block.
        attends: whether there is attention.
        down, up: whether the size is halved or doubled at the end.
    """

    def __init__(
        self, config: UNet2DConditionConfig, number: int, channels: list[tuple[int, int]], attends: bool,
        down: bool = False, up: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        time = 4 * config.block_out_channels[0]
        groups, epsilon = config.norm_num_groups, config.norm_eps
        if attends:
            # Before the residual blocks, as in checkpoints.
            self.attentions = ModuleList([SpatialTransformer(config, outputs, number) for _, outputs in channels])
        self.resnets = ModuleList([ResnetBlock(*each, groups, epsilon, time) for each in channels])
        self.attends = attends
        if down:
            self.downsamplers = ModuleList([Downsample(channels[-1][1], padding=1)])
        if up:
            self.upsamplers = ModuleList([Upsample(channels[-1][1])])
        self.down, self.up = down, up

    def descend(self, x: Tensor, time: Tensor, text: Tensor, mask: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Return the result, and what the way up is given of this block."""
        kept = []
        for number, resnet in enumerate(self.resnets):
            x = resnet(x, time)
            if self.attends:
                x = self.attentions[number](x, text, mask)
            kept.append(x)
        if self.down:
            x = self.downsamplers[0](x)
            kept.append(x)
        return x, kept

    def ascend(
        self, x: Tensor, kept: list[Tensor], time: Tensor, text: Tensor, mask: Tensor | None, size: tuple[int, int] | None
    ) -> Tensor:  # fmt: skip
        """Return the result; takes as many entries from the end of ``kept`` as there are residual blocks."""
        for number, resnet in enumerate(self.resnets):
            x = resnet(torch.cat([x, kept.pop()], dim=1), time)
            if self.attends:
                x = self.attentions[number](x, text, mask)
        return self.upsamplers[0](x, size) if self.up else x


class MidBlock(Module):
    """Residual block, attention, residual block, at the smallest size."""

    def __init__(self, config: UNet2DConditionConfig) -> None:
        super().__init__()
        channels, last = config.block_out_channels[-1], len(config.block_out_channels) - 1
        options = (config.norm_num_groups, config.norm_eps, 4 * config.block_out_channels[0])
        self.attentions = ModuleList([SpatialTransformer(config, channels, last)])
        self.resnets = ModuleList([ResnetBlock(channels, channels, *options) for _ in range(2)])

    def forward(self, x: Tensor, time: Tensor, text: Tensor, mask: Tensor | None) -> Tensor:
        return self.resnets[1](self.attentions[0](self.resnets[0](x, time), text, mask), time)


class UNet2DConditionModel(DiffusionPart):
    """Says what noise there is in images, told the time and a text."""

    config: UNet2DConditionConfig
    config_class = UNet2DConditionConfig
    ignored_keys = (r"\.to_out\.1\.",)

    def __init__(self, config: UNet2DConditionConfig) -> None:
        super().__init__(config)
        channels = list(config.block_out_channels)
        self.conv_in = Conv2d(config.in_channels, channels[0], 3, padding=1)
        self.time_embedding = TimestepEmbedding(channels[0], 4 * channels[0])
        if config.time_cond_proj_dim is not None:
            self.time_embedding.cond_proj = Linear(config.time_cond_proj_dim, channels[0], bias=False)
        if config.addition_embed_type == "text_time":
            inputs = config.projection_class_embeddings_input_dim or 0
            self.add_embedding = TimestepEmbedding(inputs, 4 * channels[0])
        self.down_blocks = ModuleList(self._down(config, channels))
        self.up_blocks = ModuleList(self._up(config, channels))
        self.mid_block = MidBlock(config) if config.mid_block_type else None
        self.conv_norm_out = GroupNorm(config.norm_num_groups, channels[0], eps=config.norm_eps)
        self.conv_out = Conv2d(channels[0], config.out_channels, 3, padding=1)

    @staticmethod
    def _down(config: UNet2DConditionConfig, channels: list[int]) -> list[Module]:
        result: list[Module] = []
        for number, outputs in enumerate(channels):
            inputs = channels[max(number - 1, 0)]
            pairs = [(inputs if layer == 0 else outputs, outputs) for layer in range(config.layers_per_block)]
            attends = config.down_block_types[number].startswith("Cross")
            result.append(UNetBlock(config, number, pairs, attends, down=number < len(channels) - 1))
        return result

    @staticmethod
    def _up(config: UNet2DConditionConfig, channels: list[int]) -> list[Module]:
        result: list[Module] = []
        count, layers = len(channels), config.layers_per_block + 1
        for step in range(count):
            number = count - 1 - step
            outputs, below = channels[number], channels[min(number + 1, count - 1)]
            # What came down: the block's own results, and last of all what it was given.
            skips = [outputs] * (layers - 1) + [channels[max(number - 1, 0)]]
            pairs = [((below if layer == 0 else outputs) + skips[layer], outputs) for layer in range(layers)]
            attends = config.up_block_types[step].startswith("Cross")
            result.append(UNetBlock(config, number, pairs, attends, up=number > 0))
        return result

    def forward(
        self, sample: Tensor, timestep: Any, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor | None = None,
        added_cond_kwargs: dict[str, Tensor] | None = None, timestep_cond: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return what is predicted of the noise, of ``sample``'s shape but for the channels.

        Args:
            sample: [batch, channels, height, width], noisy.
            timestep: a number, or [batch].
            encoder_hidden_states: [batch, tokens, ``cross_attention_dim``], the text.
            encoder_attention_mask: [batch, tokens], 0 at padding of the text.
            added_cond_kwargs: of XL: "text_embeds" [batch, width] and "time_ids" [batch, 6], sizes and where it was cut.
            timestep_cond: [batch, ``time_cond_proj_dim``], of distilled networks: the strength of guidance.

        Raises:
            ValueError: XL is not given its conditions.
        """
        time = self._time(sample, timestep, added_cond_kwargs, timestep_cond)
        mask = None if encoder_attention_mask is None else (encoder_attention_mask != 0)[:, None, None]
        x = self.conv_in(sample)
        kept = [x]
        for block in self.down_blocks:
            x, results = block.descend(x, time, encoder_hidden_states, mask)
            kept += results
        if self.mid_block is not None:
            x = self.mid_block(x, time, encoder_hidden_states, mask)
        for block in self.up_blocks:
            # Sizes that are no multiples come back as they were.
            following = kept[-len(block.resnets) - 1].shape[2:] if len(kept) > len(block.resnets) else None
            size = (int(following[0]), int(following[1])) if following is not None else None
            x = block.ascend(x, kept, time, encoder_hidden_states, mask, size)
        return self.conv_out(F.silu(self.conv_norm_out(x)))

    def _time(
        self, sample: Tensor, timestep: Any, added: dict[str, Tensor] | None, condition: Tensor | None
    ) -> Tensor:  # fmt: skip
        config, batch = self.config, sample.shape[0]
        if not isinstance(timestep, Tensor):
            timestep = torch.full((1,), float(timestep), device=sample.device)
        cosine_first, shift = config.flip_sin_to_cos, config.freq_shift
        angles = sinusoids(timestep.reshape(-1), config.block_out_channels[0], cosine_first, shift).to(sample.dtype)
        angles = angles.expand(batch, -1)
        if condition is not None:
            angles = angles + self.time_embedding.cond_proj(condition)
        result = self.time_embedding(angles)
        if config.addition_embed_type is None:
            return result
        if added is None or "text_embeds" not in added or "time_ids" not in added:
            raise ValueError('this U-Net needs added_cond_kwargs with "text_embeds" and "time_ids"')
        sizes = sinusoids(added["time_ids"].flatten(), config.addition_time_embed_dim or 0, cosine_first, shift)
        both = torch.cat([added["text_embeds"], sizes.reshape(batch, -1).to(sample.dtype)], dim=-1)
        return result + self.add_embedding(both)
