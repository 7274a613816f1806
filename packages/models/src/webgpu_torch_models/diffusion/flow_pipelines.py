"""Stable Diffusion 3 and Flux whole: transformers that were trained by flow matching, and read texts by CLIP and T5."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.clip import CLIPTextModel, CLIPTextModelWithProjection
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL
from webgpu_torch_models.diffusion.flow_matching import FlowMatchEulerDiscreteScheduler
from webgpu_torch_models.diffusion.mmdit import FluxTransformer2DModel, SD3Transformer2DModel
from webgpu_torch_models.diffusion.part import DiffusionPart
from webgpu_torch_models.diffusion.pipelines import Conditions, DiffusionPipeline, Mask
from webgpu_torch_models.diffusion.schedule import Scheduler
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.t5 import T5EncoderModel
from webgpu_torch_models.tokenizer import Tokenizer


class FlowPipeline(DiffusionPipeline):
    """What both have in common.

    Class attributes:
        most_tokens: how many tokens of a text T5 reads.
    """

    steps = 28
    strengths = (0.6, 0.6)
    most_tokens: ClassVar[int]
    scheduler: FlowMatchEulerDiscreteScheduler

    def __init__(
        self, tokenizers: list[Tokenizer], text_encoders: list[PreTrainedModel], transformer: DiffusionPart,
        vae: AutoencoderKL, scheduler: Scheduler,
    ) -> None:  # fmt: skip
        super().__init__(tokenizers, text_encoders, transformer, vae, scheduler)
        if not isinstance(scheduler, FlowMatchEulerDiscreteScheduler):
            raise ValueError(f"the scheduler must be a FlowMatchEulerDiscreteScheduler, got {type(scheduler).__name__}")
        if len(text_encoders) < 2:
            raise ValueError(f"{type(self).__name__} reads texts by at least 2 encoders, got {len(text_encoders)}")

    @property
    def transformer(self) -> DiffusionPart:
        """The network."""
        return self.network

    @staticmethod
    def _left_out(steps: int, strength: float) -> int:
        return int(steps - min(steps * strength, steps))

    def _patches(self, size: tuple[int, int]) -> tuple[int, int]:
        multiple, _ = self._sizes
        return size[0] // multiple, size[1] // multiple

    def _clip(self, number: int, prompts: list[str]) -> tuple[Tensor, Tensor]:
        """Return the texts' states before the last layer, and what stands for each text."""
        encoder = self.text_encoders[number]
        tokens = self._tokens(prompts, self.tokenizers[number], encoder, encoder.config.max_position_embeddings)
        result = encoder(tokens, output_hidden_states=True)
        return result.hidden_states[-2], result.pooler_output

    def _t5(self, prompts: list[str], limit: int | None) -> Tensor:
        # Padding is read as well: the networks were trained so.
        encoder = self.text_encoders[-1]
        tokens = self._tokens(prompts, self.tokenizers[-1], encoder, limit or self.most_tokens)
        return encoder(tokens).last_hidden_state


class StableDiffusion3Pipeline(FlowPipeline):
    """Stable Diffusion 3 and 3.5: two CLIP encoders, and T5 where the folder has it.

    Args:
        tokenizers, text_encoders: CLIP's two, and T5's if it is to read.
        transformer, vae, scheduler: the other parts.
    """

    part = ("transformer", SD3Transformer2DModel)
    text_parts: ClassVar[dict[str, type[PreTrainedModel]]] = {
        "": CLIPTextModelWithProjection,
        "_2": CLIPTextModelWithProjection,
        "_3": T5EncoderModel,
    }
    guidance = 7.0
    most_tokens = 256

    @property
    def _sizes(self) -> tuple[int, int]:
        config = self.transformer.config
        return self.vae.factor * config.patch_size, config.sample_size * self.vae.factor

    def _set_timesteps(self, steps: int, size: tuple[int, int]) -> None:
        height, width = self._patches(size)
        self.scheduler.set_timesteps(steps, mu=self.scheduler.mu(height * width))

    def encode(self, prompts: list[str], max_sequence_length: int | None = None) -> tuple[Tensor, Tensor | None]:
        states, pooled = (
            torch.cat(each, dim=-1) for each in zip(*[self._clip(number, prompts) for number in range(2)], strict=True)
        )
        width = self.transformer.config.joint_attention_dim
        states = F.pad(states, (0, width - states.shape[-1]))
        if len(self.text_encoders) > 2:
            more = self._t5(prompts, max_sequence_length)
        else:
            more = states.new_zeros(len(prompts), max_sequence_length or self.most_tokens, width)
        return torch.cat([states, more], dim=1), pooled

    def _says(self, latents: Tensor, index: int, told: Conditions, mask: Mask | None) -> Tensor:
        time = torch.full((latents.shape[0],), self.scheduler.timesteps[index], device=latents.device)
        return self.transformer(latents, told.states, told.pooled, time)


class FluxPipeline(FlowPipeline):
    """Flux.1: CLIP's encoder for the text as a whole, T5's for its tokens; networks that are told how much the text counts.

    Args:
        tokenizers, text_encoders: CLIP's and T5's.
        transformer, vae, scheduler: the other parts.
    """

    part = ("transformer", FluxTransformer2DModel)
    text_parts: ClassVar[dict[str, type[PreTrainedModel]]] = {"": CLIPTextModel, "_2": T5EncoderModel}
    guidance = 3.5
    most_tokens = 512

    @property
    def _sizes(self) -> tuple[int, int]:
        # Patches of two by two latents are packed.
        return 2 * self.vae.factor, 128 * self.vae.factor

    def _set_timesteps(self, steps: int, size: tuple[int, int]) -> None:
        height, width = self._patches(size)
        sigmas = [1 - number / steps for number in range(steps)]
        self.scheduler.set_timesteps(steps, mu=self.scheduler.mu(height * width), sigmas=sigmas)

    def _scale(self, guidance: float, true_scale: float, negative: str | list[str] | None) -> float:
        return 1.0 if negative is None else max(true_scale, 1.0)

    def encode(self, prompts: list[str], max_sequence_length: int | None = None) -> tuple[Tensor, Tensor | None]:
        return self._t5(prompts, max_sequence_length), self._clip(0, prompts)[1]

    def _says(self, latents: Tensor, index: int, told: Conditions, mask: Mask | None) -> Tensor:
        batch, channels = latents.shape[:2]
        rows, columns = self._patches(told.size)
        packed = latents.reshape(batch, channels, rows, 2, columns, 2).permute(0, 2, 4, 1, 3, 5)
        packed = packed.reshape(batch, rows * columns, 4 * channels)  # (B, P, 4 C)
        time = torch.full((batch,), self.scheduler.timesteps[index] / 1000, device=latents.device)
        strength = None
        if self.transformer.config.guidance_embeds:
            strength = torch.full((batch,), told.guidance, device=latents.device)
        said = self.transformer(
            packed, told.states, told.pooled, time, self._places(rows, columns),
            torch.zeros(told.states.shape[1], 3, device=latents.device), strength,
        )  # fmt: skip
        said = said.reshape(batch, rows, columns, channels, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return said.reshape(latents.shape)

    def _places(self, rows: int, columns: int) -> Tensor:
        """Return where patches are: float32 [patches, 3], of which the first is 0."""
        down = torch.arange(rows, device=self.device).float().repeat_interleave(columns)
        across = torch.arange(columns, device=self.device).float().repeat(rows)
        return torch.stack([torch.zeros_like(down), down, across], dim=1)
