"""Stable Diffusion 1.x, 2.x and XL whole: a text, an image, or an image and a mask, to images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.clip import CLIPTextModel, CLIPTextModelWithProjection
from webgpu_torch_models.config import read_json
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL
from webgpu_torch_models.diffusion.pipelines import PATTERNS, Conditions, DiffusionPipeline, Mask, Part, has_part
from webgpu_torch_models.diffusion.schedule import Scheduler
from webgpu_torch_models.diffusion.single_file import SingleFile
from webgpu_torch_models.diffusion.unet import UNet2DConditionModel
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.language import sinusoids
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import Self

    from webgpu_torch_models.images import Pictures

#: how beautiful XL's second network is told that images are, and those to be avoided
SCORE, SCORE_AVOIDED = 6.0, 2.5


class StableDiffusionPipeline(DiffusionPipeline):
    """Makes images of texts by a U-Net.

    Args:
        tokenizers, text_encoders: one of each, or two for XL, of which its refiner has only the second.
        unet, vae, scheduler: the other parts.
        zeros_without_negative: whether guidance away from no text is away from zeros, as XL's is.
        told_score: whether the network is told how beautiful images are, as XL's refiner.
    """

    network: UNet2DConditionModel
    part = ("unet", UNet2DConditionModel)
    text_parts: ClassVar[dict[str, type[PreTrainedModel]]] = {"": CLIPTextModel, "_2": CLIPTextModelWithProjection}

    def __init__(
        self, tokenizers: list[Tokenizer], text_encoders: list[PreTrainedModel], unet: UNet2DConditionModel,
        vae: AutoencoderKL, scheduler: Scheduler, zeros_without_negative: bool = False, told_score: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(tokenizers, text_encoders, unet, vae, scheduler)
        self.zeros_without_negative, self.told_score = zeros_without_negative, told_score
        if self.is_xl:
            self.guidance = 5.0
            self.endings = ["", "_2"][-len(text_encoders) :]

    @classmethod
    def from_single_file(
        cls, path: str | Path, config: str | Path, *, dtype: torch.dtype | None = None,
        device: torch.device | str | None = None, token: str | None = None,
    ) -> Self:  # fmt: skip
        """Load a checkpoint of one file, .safetensors or .ckpt, with the names of latent-diffusion.

        Args:
            path: of the file.
            config: a folder or hub id of diffusers' layout of the same kind, such as
                "stable-diffusion-v1-5/stable-diffusion-v1-5": configurations, tokenizers and the scheduler are read, no weights.
            dtype, device, token: as :meth:`from_pretrained`'s.

        Raises:
            FileNotFoundError: there is no such file, or a part's configuration is missing.
            ValueError: the file is damaged, or its parts are not those that the configurations describe.
        """
        folder = find_folder(config, token=token, patterns=[each for each in PATTERNS if "safetensors" not in each])
        index = read_json(folder / "model_index.json")
        target = torch.get_default_device() if device is None else torch.device(device)
        file = SingleFile(Path(path), target)

        def load(part: str, model: type[Part]) -> Part:
            sizes = model.config_class.from_folder(folder / part)
            return model._from_weights(sizes, file.weights(part, sizes), file.path, dtype, target)

        return cls._assembled(folder, index, load)

    @classmethod
    def _more(cls, index: dict[str, object]) -> dict[str, bool]:
        is_xl = has_part(index, "text_encoder_2")
        return {
            "zeros_without_negative": bool(index.get("force_zeros_for_empty_prompt", is_xl)),
            "told_score": bool(index.get("requires_aesthetics_score", False)),
        }

    @property
    def unet(self) -> UNet2DConditionModel:
        """The network."""
        return self.network

    @property
    def is_xl(self) -> bool:
        """Whether the network is XL's."""
        return self.unet.config.addition_embed_type is not None

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.vae.factor, self.unet.config.sample_size * self.vae.factor

    @property
    def _reads_masks(self) -> bool:
        return self.unet.config.in_channels == 2 * self.vae.config.latent_channels + 1

    def _scale(self, guidance: float, true_scale: float, negative: str | list[str] | None) -> float:
        return 1.0 if self.unet.config.time_cond_proj_dim is not None else max(guidance, 1.0)

    def _mask(
        self,
        image: Pictures | None,
        mask_image: Pictures | None,
        size: tuple[int, int],
        generator: torch.Generator | None,
    ) -> Mask | None:
        channels, latents = self.unet.config.in_channels, self.vae.config.latent_channels
        if mask_image is not None and not self._reads_masks and channels != latents:
            raise ValueError(
                f"inpainting needs a U-Net of {latents} or {2 * latents + 1} channels, this has {channels}"
            )
        return super()._mask(image, mask_image, size, generator)

    def encode(self, prompts: list[str], max_sequence_length: int | None = None) -> tuple[Tensor, Tensor | None]:
        if max_sequence_length is not None:
            raise ValueError("max_sequence_length is of pipelines with T5, this one has CLIP alone")
        states, pooled = [], None
        for tokenizer, encoder in zip(self.tokenizers, self.text_encoders, strict=True):
            tokens = self._tokens(prompts, tokenizer, encoder, encoder.config.max_position_embeddings)
            result = encoder(tokens, output_hidden_states=self.is_xl)
            states.append(result.hidden_states[-2] if self.is_xl else result.last_hidden_state)
            pooled = result.pooler_output
        return torch.cat(states, dim=-1), pooled if self.is_xl else None

    def _avoided(
        self, unwanted: list[str], negative: str | list[str] | None, states: Tensor, pooled: Tensor | None,
        limit: int | None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if negative is None and self.zeros_without_negative:
            return torch.zeros_like(states), None if pooled is None else torch.zeros_like(pooled)
        return self.encode(unwanted, limit)

    def _sizes_told(self, told: Conditions) -> Tensor:
        """Return what XL is told of sizes, where the image was cut and, its refiner, of beauty: [batch, 5 or 6]."""
        count, ends = told.states.shape[0], [list(told.size)]
        if self.told_score:
            ends = [[SCORE_AVOIDED], [SCORE]] if told.scale > 1 else [[SCORE]]
        rows = [[*told.size, 0, 0, *end] for end in ends]
        numbers = torch.tensor(rows, dtype=told.states.dtype, device=told.states.device)
        return numbers.repeat_interleave(count // len(rows), 0)

    def _says(self, latents: Tensor, index: int, told: Conditions, mask: Mask | None) -> Tensor:
        config = self.unet.config
        if mask is not None and mask.rest is not None:
            more = [each.expand(latents.shape[0], -1, -1, -1) for each in (mask.inside, mask.rest)]
            latents = torch.cat([latents, *more], dim=1)
        condition, added = None, None
        if config.time_cond_proj_dim is not None:
            # What a distilled U-Net is told of the strength of guidance (Luo et al., 2023).
            condition = sinusoids(torch.tensor([(told.guidance - 1) * 1000.0]), config.time_cond_proj_dim)
            condition = condition.to(self.device, self.unet.dtype).expand(latents.shape[0], -1)
        if told.pooled is not None:
            added = {"text_embeds": told.pooled, "time_ids": self._sizes_told(told)}
        time = self.scheduler.timesteps[index]
        return self.unet(latents, time, told.states, added_cond_kwargs=added, timestep_cond=condition)
