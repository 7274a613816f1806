"""Transformers of image and text together: Stable Diffusion 3 and 3.5 (Esser et al., 2024) and Flux (Black Forest Labs, 2024).

Parameter names are those of diffusers' checkpoints. In comments B is the batch, T tokens of text, P patches, H heads, D elements of
a head, E the width.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, Identity, LayerNorm, Linear, Module, ModuleList
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.decoder import RMSNorm
from webgpu_torch_models.diffusion.blocks import TimestepEmbedding
from webgpu_torch_models.diffusion.part import DiffusionPart
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import sinusoids

Angles = tuple[Tensor, Tensor]


@dataclasses.dataclass
class SD3Transformer2DConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are Stable Diffusion 3 medium's."""

    model_type: ClassVar[str] = "SD3Transformer2DModel"

    sample_size: int = 128
    patch_size: int = 2
    in_channels: int = 16
    out_channels: int | None = 16
    num_layers: int = 24
    attention_head_dim: int = 64
    num_attention_heads: int = 24
    joint_attention_dim: int = 4096
    caption_projection_dim: int = 1536
    pooled_projection_dim: int = 2048
    pos_embed_max_size: int = 192
    dual_attention_layers: tuple[int, ...] = ()
    qk_norm: str | None = None

    def __post_init__(self) -> None:
        if self.qk_norm not in (None, "rms_norm"):
            raise ValueError(f'qk_norm is "{self.qk_norm}"; known are: rms_norm, null')
        if self.caption_projection_dim != self.width:
            raise ValueError(f"caption_projection_dim={self.caption_projection_dim} must be the width, {self.width}")

    @property
    def width(self) -> int:
        """The width of the states."""
        return self.num_attention_heads * self.attention_head_dim


@dataclasses.dataclass
class FluxTransformer2DConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are Flux.1's."""

    model_type: ClassVar[str] = "FluxTransformer2DModel"

    patch_size: int = 1
    in_channels: int = 64
    out_channels: int | None = None
    num_layers: int = 19
    num_single_layers: int = 38
    attention_head_dim: int = 128
    num_attention_heads: int = 24
    joint_attention_dim: int = 4096
    pooled_projection_dim: int = 768
    guidance_embeds: bool = False
    axes_dims_rope: tuple[int, ...] = (16, 56, 56)

    def __post_init__(self) -> None:
        if sum(self.axes_dims_rope) != self.attention_head_dim:
            raise ValueError(f"axes_dims_rope={self.axes_dims_rope} must add up to {self.attention_head_dim}")

    @property
    def width(self) -> int:
        """The width of the states."""
        return self.num_attention_heads * self.attention_head_dim


class Modulation(Module):
    """A norm, and shifts, scales and gates that a condition says, each [batch, 1, width]."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = Linear(width, parts * width)
        self.norm = LayerNorm(width, eps=1e-6, elementwise_affine=False)

    def forward(self, condition: Tensor) -> tuple[Tensor, ...]:
        return self.linear(F.silu(condition)).unsqueeze(1).chunk(self.parts, dim=-1)


class Condition(Module):
    """What the time, the text as a whole and, where there is one, the strength of guidance say together: [batch, width]."""

    def __init__(self, width: int, pooled: int, has_guidance: bool = False) -> None:
        super().__init__()
        self.timestep_embedder = TimestepEmbedding(256, width)
        if has_guidance:
            self.guidance_embedder = TimestepEmbedding(256, width)
        self.text_embedder = TimestepEmbedding(pooled, width)

    def forward(self, timestep: Tensor, pooled: Tensor, guidance: Tensor | None = None) -> Tensor:
        result = self.timestep_embedder(sinusoids(timestep, 256, True, 0.0).to(pooled.dtype))
        if guidance is not None:
            result = result + self.guidance_embedder(sinusoids(guidance, 256, True, 0.0).to(pooled.dtype))
        return result + self.text_embedder(pooled)


class Activated(Module):
    """A linear map and the approximation of GELU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = Linear(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.proj(x), approximate="tanh")


class FeedForward(Module):
    """The MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = ModuleList([Activated(width), Identity(), Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](self.net[0](x))


class JointAttention(Module):
    """Attention among an image's patches, and a text's tokens where they are given.

    Args:
        width, heads: of the states.
        normed: whether queries and keys are normalised.
        text: whether text has maps of its own.
        writes_text: whether its states are made anew.
        projects: whether there is a last map.
    """

    joined_maps: ClassVar[tuple[str, ...]] = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj")

    def __init__(
        self, width: int, heads: int, normed: bool, text: bool = False, writes_text: bool = False, projects: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.normed, self.writes_text, self.projects = heads, normed, writes_text, projects
        self.to_q, self.to_k, self.to_v = (Linear(width, width) for _ in range(3))
        if projects:
            self.to_out = ModuleList([Linear(width, width), Identity()])
        if normed:
            self.norm_q, self.norm_k = (RMSNorm(width // heads, 1e-6) for _ in range(2))
        if text:
            self.add_q_proj, self.add_k_proj, self.add_v_proj = (Linear(width, width) for _ in range(3))
            if normed:
                self.norm_added_q, self.norm_added_k = (RMSNorm(width // heads, 1e-6) for _ in range(2))
        if writes_text:
            self.to_add_out = Linear(width, width)

    def _parts(self, x: Tensor, is_text: bool) -> list[Tensor]:
        names = ("add_q_proj", "add_k_proj", "add_v_proj") if is_text else ("to_q", "to_k", "to_v")
        norms = ("norm_added_q", "norm_added_k") if is_text else ("norm_q", "norm_k")
        parts = products(x, *[(getattr(self, name),) for name in names])
        found = [each.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2) for each in parts]
        if self.normed:
            found[:2] = [getattr(self, norm)(each) for norm, each in zip(norms, found, strict=False)]
        return found  # (B, H, T or P, D) each

    def forward(
        self, x: Tensor, text: Tensor | None = None, angles: Angles | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return new states of patches, and of the text where it has some. Text comes first, for positions' sake."""
        query, key, value = self._parts(x, False)
        if text is not None:
            both = zip(self._parts(text, True), (query, key, value), strict=True)
            query, key, value = (torch.cat(pair, dim=2) for pair in both)
        if angles is not None:
            query, key = turned(query, angles), turned(key, angles)
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        tokens = 0 if text is None else text.shape[1]
        image = attended[:, tokens:]
        image = self.to_out[0](image) if self.projects else image
        return image, self.to_add_out(attended[:, :tokens]) if self.writes_text else None


def turned(x: Tensor, angles: Angles) -> Tensor:
    """Rotate pairs of neighbours in heads [batch, heads, tokens, elements] by angles' cosines and sines [tokens, elements]."""
    cosine, sine = angles
    first, second = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    rotated = torch.stack([-second, first], dim=-1).flatten(-2)
    return (x.float() * cosine + rotated * sine).to(x.dtype)


class JointBlock(Module):
    """Attention of image and text to each other, and an MLP for each, all of it modulated by the condition.

    Args:
        width, heads: of the states.
        normed: whether queries and keys are normalised.
        is_last: whether the text's states are of no use afterwards.
        dual: whether patches also attend to each other alone.
    """

    def __init__(self, width: int, heads: int, normed: bool, is_last: bool = False, dual: bool = False) -> None:
        super().__init__()
        self.is_last, self.dual = is_last, dual
        self.norm1 = Modulation(width, 9 if dual else 6)
        self.norm1_context = Modulation(width, 2 if is_last else 6)
        self.attn = JointAttention(width, heads, normed, text=True, writes_text=not is_last)
        if dual:
            self.attn2 = JointAttention(width, heads, normed)
        self.norm2, self.ff = LayerNorm(width, eps=1e-6, elementwise_affine=False), FeedForward(width)
        if not is_last:
            self.norm2_context = LayerNorm(width, eps=1e-6, elementwise_affine=False)
            self.ff_context = FeedForward(width)

    def forward(
        self, x: Tensor, text: Tensor, condition: Tensor, angles: Angles | None = None
    ) -> tuple[Tensor, Tensor]:
        shift, scale, gate, inner_shift, inner_scale, inner_gate, *more = self.norm1(condition)
        of_text = self.norm1_context(condition)
        # The last block's says scale and shift, all others' shift and scale.
        text_shift, text_scale = (of_text[1], of_text[0]) if self.is_last else of_text[:2]
        normal = self.norm1.norm(x)
        normal_text = self.norm1_context.norm(text) * (1 + text_scale) + text_shift
        attended, attended_text = self.attn(normal * (1 + scale) + shift, normal_text, angles)
        x = x + gate * attended
        if self.dual:
            x = x + more[2] * self.attn2(normal * (1 + more[1]) + more[0])[0]
        x = x + inner_gate * self.ff(self.norm2(x) * (1 + inner_scale) + inner_shift)
        if attended_text is None:
            return x, text
        text = text + of_text[2] * attended_text
        inner = self.norm2_context(text) * (1 + of_text[4]) + of_text[3]
        return x, text + of_text[5] * self.ff_context(inner)


class SingleBlock(Module):
    """Attention and the MLP beside each other, for text and patches as one sequence."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = Modulation(width, 3)
        self.proj_mlp, self.proj_out = Linear(width, 4 * width), Linear(5 * width, width)
        self.attn = JointAttention(width, heads, True, projects=False)

    def forward(self, x: Tensor, condition: Tensor, angles: Angles) -> Tensor:
        shift, scale, gate = self.norm(condition)
        normal = self.norm.norm(x) * (1 + scale) + shift
        inner = F.gelu(self.proj_mlp(normal), approximate="tanh")
        return x + gate * self.proj_out(torch.cat([self.attn(normal, angles=angles)[0], inner], dim=2))


class PatchEmbedding(Module):
    """Patches, and positions cut from the middle of a square of the largest size."""

    def __init__(self, config: SD3Transformer2DConfig) -> None:
        super().__init__()
        self.patch, self.limit = config.patch_size, config.pos_embed_max_size
        self.proj = Conv2d(config.in_channels, config.width, config.patch_size, config.patch_size)
        places = torch.arange(self.limit).float() * (config.sample_size // config.patch_size / self.limit)
        rows = sinusoids(places, config.width // 2, shift=0.0)  # (limit, E / 2)
        across, down = (each.expand(self.limit, self.limit, -1) for each in (rows.unsqueeze(0), rows.unsqueeze(1)))
        self.register_buffer("pos_embed", torch.cat([across, down], dim=-1).reshape(1, self.limit**2, config.width))

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2] // self.patch, x.shape[3] // self.patch
        if max(height, width) > self.limit:
            raise ValueError(f"{height} by {width} patches are more than pos_embed_max_size={self.limit}")
        top, left = (self.limit - height) // 2, (self.limit - width) // 2
        square = self.pos_embed.reshape(self.limit, self.limit, -1)
        positions = square[top : top + height, left : left + width].reshape(1, height * width, -1)
        # All layers add to it: a patch's features are to lie side by side.
        patches = self.proj(x).flatten(2).transpose(1, 2).contiguous()  # (B, P, E)
        return (patches + positions).to(x.dtype)


class FlowTransformer(DiffusionPart):
    """What both networks end with."""

    def _ended(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, shift = self.norm_out(condition)
        return self.proj_out(self.norm_out.norm(x) * (1 + scale) + shift)


class SD3Transformer2DModel(FlowTransformer):
    """Stable Diffusion 3's network: says where images flow, told the time and a text."""

    config: SD3Transformer2DConfig
    config_class = SD3Transformer2DConfig

    def __init__(self, config: SD3Transformer2DConfig) -> None:
        super().__init__(config)
        width, count = config.width, config.num_layers
        self.pos_embed = PatchEmbedding(config)
        self.time_text_embed = Condition(width, config.pooled_projection_dim)
        self.context_embedder = Linear(config.joint_attention_dim, width)
        normed, heads = config.qk_norm is not None, config.num_attention_heads
        self.transformer_blocks = ModuleList(
            [
                JointBlock(width, heads, normed, number == count - 1, number in config.dual_attention_layers)
                for number in range(count)
            ]
        )
        self.norm_out = Modulation(width, 2)
        self.channels = config.out_channels or config.in_channels
        self.proj_out = Linear(width, config.patch_size**2 * self.channels)

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, pooled_projections: Tensor, timestep: Tensor
    ) -> Tensor:
        """Return the direction in which images change, of ``hidden_states``' shape but for the channels.

        Args:
            hidden_states: [batch, channels, height, width], noisy latents of whole patches.
            encoder_hidden_states: [batch, tokens, ``joint_attention_dim``], the text.
            pooled_projections: [batch, ``pooled_projection_dim``], the text as a whole.
            timestep: [batch], from 0 to 1000.

        Raises:
            ValueError: more patches than there are positions.
        """
        batch, _, height, width = hidden_states.shape
        patch = self.config.patch_size
        x, text = self.pos_embed(hidden_states), self.context_embedder(encoder_hidden_states)
        condition = self.time_text_embed(timestep, pooled_projections)
        for block in self.transformer_blocks:
            x, text = block(x, text, condition)
        x = self._ended(x, condition)
        rows, columns = height // patch, width // patch
        x = x.reshape(batch, rows, columns, patch, patch, self.channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(batch, self.channels, rows * patch, columns * patch)


class FluxTransformer2DModel(FlowTransformer):
    """Flux's network: says where images flow, told the time, a text and the strength of guidance."""

    config: FluxTransformer2DConfig
    config_class = FluxTransformer2DConfig

    def __init__(self, config: FluxTransformer2DConfig) -> None:
        super().__init__(config)
        width, heads = config.width, config.num_attention_heads
        self.time_text_embed = Condition(width, config.pooled_projection_dim, config.guidance_embeds)
        self.context_embedder = Linear(config.joint_attention_dim, width)
        self.x_embedder = Linear(config.in_channels, width)
        self.transformer_blocks = ModuleList([JointBlock(width, heads, True) for _ in range(config.num_layers)])
        self.single_transformer_blocks = ModuleList(
            [SingleBlock(width, heads) for _ in range(config.num_single_layers)]
        )
        self.norm_out = Modulation(width, 2)
        self.proj_out = Linear(width, config.patch_size**2 * (config.out_channels or config.in_channels))

    def angles(self, places: Tensor) -> Angles:
        """Return cosines and sines, float32 [tokens, head elements], of places [tokens, axes]."""
        found = []
        for axis, size in enumerate(self.config.axes_dims_rope):
            rates = [10000.0 ** (-each / size) for each in range(0, size, 2)]
            turns = places[:, axis].float().unsqueeze(1) * torch.tensor(rates, device=places.device)
            found.append(turns.repeat_interleave(2, dim=1))
        both = torch.cat(found, dim=1)
        return both.cos(), both.sin()

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, pooled_projections: Tensor, timestep: Tensor,
        img_ids: Tensor, txt_ids: Tensor, guidance: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the direction in which images change, [batch, patches, channels].

        Args:
            hidden_states: [batch, patches, channels], noisy latents.
            encoder_hidden_states: [batch, tokens, ``joint_attention_dim``], the text.
            pooled_projections: [batch, ``pooled_projection_dim``], the text as a whole.
            timestep: [batch], from 0 to 1.
            img_ids, txt_ids: [patches, axes] and [tokens, axes], where each is.
            guidance: [batch], its strength, for networks that were distilled.

        Raises:
            ValueError: guidance is given where the network has none, or is missing.
        """
        if (guidance is not None) != self.config.guidance_embeds:
            raise ValueError(f"guidance must {'' if self.config.guidance_embeds else 'not '}be given to this network")
        x, text = self.x_embedder(hidden_states), self.context_embedder(encoder_hidden_states)
        strength = None if guidance is None else guidance.to(x.dtype) * 1000
        condition = self.time_text_embed(timestep.to(x.dtype) * 1000, pooled_projections, strength)
        angles = self.angles(torch.cat([txt_ids, img_ids]))
        for block in self.transformer_blocks:
            x, text = block(x, text, condition, angles)
        tokens = text.shape[1]
        x = torch.cat([text, x], dim=1)
        for block in self.single_transformer_blocks:
            x = block(x, condition, angles)
        return self._ended(x[:, tokens:], condition)
