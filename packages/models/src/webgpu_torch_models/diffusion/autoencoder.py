"""The autoencoder of Stable Diffusion (Rombach et al., 2021): images to latents of an eighth of their size, and back.

Parameter names are those of diffusers' checkpoints. In comments B is the batch, C channels, H and W height and width.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, GroupNorm, Identity, Linear, Module, ModuleList
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.diffusion.blocks import Downsample, ResnetBlock, Upsample
from webgpu_torch_models.diffusion.part import DiffusionPart
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import attend


@dataclasses.dataclass
class AutoencoderKLConfig(ModelConfig):
    """Sizes and options, named as in config.json; the defaults are Stable Diffusion 1.5's."""

    model_type: ClassVar[str] = "AutoencoderKL"

    in_channels: int = 3
    out_channels: int = 3
    block_out_channels: tuple[int, ...] = (128, 256, 512, 512)
    layers_per_block: int = 2
    latent_channels: int = 4
    norm_num_groups: int = 32
    scaling_factor: float = 0.18215
    shift_factor: float | None = None
    use_quant_conv: bool = True
    use_post_quant_conv: bool = True
    mid_block_add_attention: bool = True
    force_upcast: bool = True


class SpatialAttention(Module):
    """Attention among an image's positions, with one head, added to it."""

    joined_maps: ClassVar[tuple[str, ...]] = ("to_q", "to_k", "to_v")

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.group_norm = GroupNorm(groups, channels, eps=1e-6)
        self.to_q, self.to_k, self.to_v = (Linear(channels, channels) for _ in range(3))
        self.to_out = ModuleList([Linear(channels, channels), Identity()])

    def forward(self, x: Tensor) -> Tensor:
        inner = self.group_norm(x).flatten(2).transpose(1, 2)  # (B, H W, C)
        query, key, value = products(inner, (self.to_q,), (self.to_k,), (self.to_v,))
        inner = self.to_out[0](attend(query, key, value, 1))
        return x + inner.transpose(1, 2).reshape(x.shape)


class ResnetStack(Module):
    """Residual blocks, and a change of size at the end."""

    def __init__(
        self, inputs: int, outputs: int, count: int, groups: int, down: bool = False, up: bool = False
    ) -> None:
        super().__init__()
        self.resnets = ModuleList(
            [ResnetBlock(inputs if number == 0 else outputs, outputs, groups, 1e-6) for number in range(count)]
        )
        if down:
            self.downsamplers = ModuleList([Downsample(outputs, padding=0)])
        if up:
            self.upsamplers = ModuleList([Upsample(outputs)])
        self.down, self.up = down, up

    def forward(self, x: Tensor) -> Tensor:
        for resnet in self.resnets:
            x = resnet(x)
        if self.down:
            x = self.downsamplers[0](x)
        return self.upsamplers[0](x) if self.up else x


class MidBlock(Module):
    """Residual block, attention, residual block."""

    def __init__(self, channels: int, config: AutoencoderKLConfig) -> None:
        super().__init__()
        self.attends = config.mid_block_add_attention
        if self.attends:
            self.attentions = ModuleList([SpatialAttention(channels, config.norm_num_groups)])
        self.resnets = ModuleList([ResnetBlock(channels, channels, config.norm_num_groups, 1e-6) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.resnets[0](x)
        return self.resnets[1](self.attentions[0](x) if self.attends else x)


class Encoder(Module):
    """From images to means and logarithms of variances."""

    def __init__(self, config: AutoencoderKLConfig) -> None:
        super().__init__()
        channels, groups = config.block_out_channels, config.norm_num_groups
        self.conv_in = Conv2d(config.in_channels, channels[0], 3, padding=1)
        self.down_blocks = ModuleList(
            [
                ResnetStack(channels[max(number - 1, 0)], outputs, config.layers_per_block, groups, down=number < len(channels) - 1)
                for number, outputs in enumerate(channels)
            ]
        )  # fmt: skip
        self.mid_block = MidBlock(channels[-1], config)
        self.conv_norm_out = GroupNorm(groups, channels[-1], eps=1e-6)
        self.conv_out = Conv2d(channels[-1], 2 * config.latent_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        return self.conv_out(F.silu(self.conv_norm_out(self.mid_block(x))))


class Decoder(Module):
    """From latents to images."""

    def __init__(self, config: AutoencoderKLConfig) -> None:
        super().__init__()
        channels, groups = config.block_out_channels[::-1], config.norm_num_groups
        self.conv_in = Conv2d(config.latent_channels, channels[0], 3, padding=1)
        self.up_blocks = ModuleList(
            [
                ResnetStack(channels[max(number - 1, 0)], outputs, config.layers_per_block + 1, groups, up=number < len(channels) - 1)
                for number, outputs in enumerate(channels)
            ]
        )  # fmt: skip
        self.mid_block = MidBlock(channels[0], config)
        self.conv_norm_out = GroupNorm(groups, channels[-1], eps=1e-6)
        self.conv_out = Conv2d(channels[-1], config.out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mid_block(self.conv_in(x))
        for block in self.up_blocks:
            x = block(x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class AutoencoderKL(DiffusionPart):
    """The autoencoder."""

    config: AutoencoderKLConfig
    config_class = AutoencoderKLConfig
    # Names of the first checkpoints.
    renamed_keys: ClassVar[dict[str, str]] = {
        r"\.attentions\.0\.query\.": ".attentions.0.to_q.",
        r"\.attentions\.0\.key\.": ".attentions.0.to_k.",
        r"\.attentions\.0\.value\.": ".attentions.0.to_v.",
        r"\.attentions\.0\.proj_attn\.": ".attentions.0.to_out.0.",
    }

    def __init__(self, config: AutoencoderKLConfig) -> None:
        super().__init__(config)
        latents = config.latent_channels
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        if config.use_quant_conv:
            self.quant_conv = Conv2d(2 * latents, 2 * latents, 1)
        if config.use_post_quant_conv:
            self.post_quant_conv = Conv2d(latents, latents, 1)

    @property
    def factor(self) -> int:
        """How many times smaller latents are than images."""
        return 2 ** (len(self.config.block_out_channels) - 1)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and deviations of the latents, each [batch, latents, height / 8, width / 8].

        Args:
            images: [batch, channels, height, width], from -1 to 1.
        """
        moments = self.encoder(images)
        moments = self.quant_conv(moments) if self.config.use_quant_conv else moments
        mean, logarithm = moments.chunk(2, dim=1)
        return mean, torch.exp(0.5 * logarithm.clamp(-30.0, 20.0))

    def decode(self, latents: Tensor) -> Tensor:
        """Return images [batch, channels, height, width], about from -1 to 1, of latents that are not scaled."""
        return self.decoder(self.post_quant_conv(latents) if self.config.use_post_quant_conv else latents)

    def scaled(self, latents: Tensor) -> Tensor:
        """Return latents as diffusion works on them."""
        return (latents - (self.config.shift_factor or 0.0)) * self.config.scaling_factor

    def unscaled(self, latents: Tensor) -> Tensor:
        """Undo :meth:`scaled`."""
        return latents / self.config.scaling_factor + (self.config.shift_factor or 0.0)

    def forward(self, images: Tensor, generator: torch.Generator | None = None, sample: bool = False) -> Tensor:
        """Encode and decode images; the latents are drawn where ``sample`` asks for it, else their means."""
        mean, deviation = self.encode(images)
        if sample:
            mean = mean + deviation * torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return self.decode(mean)

    def from_checkpoint(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """First checkpoints have convolutions in the attention, where there are linear maps now."""
        wanted = ("to_q.weight", "to_k.weight", "to_v.weight", "to_out.0.weight")
        return {
            key: value.flatten(1) if key.endswith(wanted) and value.ndim == 4 else value
            for key, value in weights.items()
        }
