"""Stable Diffusion 1.x, 2.x and XL whole: a text, an image, or an image and a mask, to images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.clip import CLIPTextModel, CLIPTextModelWithProjection
from webgpu_torch_models.config import read_json
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL
from webgpu_torch_models.diffusion.schedule import Scheduler
from webgpu_torch_models.diffusion.schedulers import scheduler_from_folder
from webgpu_torch_models.diffusion.unet import UNet2DConditionModel
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.images import pillow_images, pixels_of
from webgpu_torch_models.language import sinusoids
from webgpu_torch_models.tokenizer import AutoTokenizer, Tokenizer

#: what is fetched of a repository
PATTERNS = ["*.json", "*/*.json", "*/*.safetensors", "*/merges.txt", "*/vocab.txt"]


class StableDiffusionPipeline:
    """Makes images of texts.

    Args:
        tokenizers, text_encoders: one of each, or two for XL.
        unet, vae, scheduler: the other parts.
        zeros_without_negative: whether guidance away from no text is away from zeros, as XL's is.
    """

    def __init__(
        self,
        tokenizers: list[Tokenizer],
        text_encoders: list[Any],
        unet: UNet2DConditionModel,
        vae: AutoencoderKL,
        scheduler: Scheduler,
        zeros_without_negative: bool = False,
    ) -> None:
        self.tokenizers, self.text_encoders = tokenizers, text_encoders
        self.unet, self.vae, self.scheduler = unet, vae, scheduler
        self.zeros_without_negative = zeros_without_negative
        self.is_xl = unet.config.addition_embed_type is not None

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, dtype: Any = None, device: Any = None, token: str | None = None,
        revision: str | None = None,
    ) -> StableDiffusionPipeline:  # fmt: skip
        """Load a pipeline from a local folder or a hub id, as diffusers lays it out.

        Raises:
            FileNotFoundError: there is no such folder, or a part is missing in it.
            ValueError: a part's class or weights are not those expected.
        """
        folder = find_folder(name_or_path, token=token, revision=revision, patterns=PATTERNS)
        index = read_json(folder / "model_index.json")
        two = index.get("text_encoder_2", [None])[0] is not None
        options = {"dtype": dtype, "device": device}
        kinds: list[Any] = [CLIPTextModel, CLIPTextModelWithProjection] if two else [CLIPTextModel]
        endings = ["", "_2"][: len(kinds)]
        return cls(
            [AutoTokenizer.from_pretrained(folder / f"tokenizer{end}") for end in endings],
            [
                kind.from_pretrained(folder / f"text_encoder{end}", **options)
                for kind, end in zip(kinds, endings, strict=True)
            ],
            UNet2DConditionModel.from_pretrained(folder / "unet", **options),
            AutoencoderKL.from_pretrained(folder / "vae", **options),
            scheduler_from_folder(folder / "scheduler"),
            bool(index.get("force_zeros_for_empty_prompt", two)),
        )

    @property
    def device(self) -> Any:
        """Where the U-Net is."""
        return self.unet.device

    def __call__(
        self,
        prompt: str | list[str],
        negative_prompt: str | list[str] | None = None,
        *,
        image: Any = None,
        mask_image: Any = None,
        height: int | None = None,
        width: int | None = None,
        steps: int = 50,
        guidance_scale: float = 7.5,
        strength: float | None = None,
        generator: torch.Generator | None = None,
        callback: Callable[[int, int], None] | None = None,
        output: str = "pil",
    ) -> Any:
        """Make an image for each text.

        Args:
            prompt: what is wanted.
            negative_prompt: what is not.
            image: to start from: of Pillow, or a tensor [batch, 3, height, width] from 0 to 1.
            mask_image: of one channel: white is made anew, black stays.
            height, width: in pixels, multiples of the autoencoder's factor; what the U-Net was trained on by default.
            steps: how many times the U-Net runs.
            guidance_scale: how much the text counts; 1 is without guidance, at half the work.
            strength: how much of ``image`` is replaced, from 0 to 1; 0.8 by default, all of it under a mask.
            generator: draws the noise, where it lives.
            callback: called with the number of the step done and of all steps.
            output: "pil", "tensor" (float32 [batch, 3, height, width] from 0 to 1) or "latent".

        Raises:
            ValueError: sizes, strengths or numbers of texts make no sense.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        size = self._size(height, width)
        if output not in ("pil", "tensor", "latent"):
            raise ValueError(f'output must be "pil", "tensor" or "latent", got "{output}"')
        with torch.no_grad():
            guided = guidance_scale > 1 and self.unet.config.time_cond_proj_dim is None
            text, added = self._conditions(prompts, negative_prompt, guided, size)
            self.scheduler.set_timesteps(steps)
            first = self._first_step(image, mask_image, strength)
            latents, kept = self._start(len(prompts), size, image, first, strength, mask_image is not None, generator)
            mask = self._mask(image, mask_image, size, generator)
            total = len(self.scheduler.timesteps)
            for index in range(first, total):
                said = self._predict(latents, index, text, added, mask, guided, guidance_scale)
                latents = self.scheduler.step(said, index, latents, generator)
                if mask is not None and self.unet.config.in_channels == 4:
                    latents = self._outside(latents, index, kept, mask[0], total)
                if callback is not None:
                    callback(index - first + 1, total - first)
            if output == "latent":
                return latents
            pixels = self._decode(latents)
        return pillow_images(pixels) if output == "pil" else pixels

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        factor = self.vae.factor
        default = self.unet.config.sample_size * factor
        size = (height or default, width or default)
        if any(each % factor or each < factor for each in size):
            raise ValueError(f"height and width must be multiples of {factor}, got {size[0]} and {size[1]}")
        return size

    def _first_step(self, image: Any, mask_image: Any, strength: float | None) -> int:
        if image is None:
            if mask_image is not None:
                raise ValueError("mask_image needs an image")
            return 0
        strength = self._strength(strength, mask_image is not None)
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be between 0 and 1, got {strength}")
        steps, total = self.scheduler.steps, len(self.scheduler.timesteps)
        left = steps - min(int(steps * strength), steps)
        # Schedulers that take steps twice have about twice as many.
        return min(left * max(1, round(total / steps)), total)

    @staticmethod
    def _strength(strength: float | None, masked: bool) -> float:
        return (1.0 if masked else 0.8) if strength is None else strength

    def _conditions(
        self, prompts: list[str], negative: str | list[str] | None, guided: bool, size: tuple[int, int]
    ) -> tuple[Tensor, dict[str, Tensor] | None]:
        """Return the texts' states, those to be avoided first, and what XL is told besides."""
        states, pooled = self.encode(prompts)
        if guided:
            if negative is None and self.zeros_without_negative:
                away, pooled_away = torch.zeros_like(states), None if pooled is None else torch.zeros_like(pooled)
            else:
                unwanted = negative or ""
                unwanted = [unwanted] * len(prompts) if isinstance(unwanted, str) else list(unwanted)
                if len(unwanted) != len(prompts):
                    raise ValueError(f"{len(unwanted)} negative prompts for {len(prompts)} prompts")
                away, pooled_away = self.encode(unwanted)
            states = torch.cat([away, states])
            pooled = None if pooled is None or pooled_away is None else torch.cat([pooled_away, pooled])
        if not self.is_xl or pooled is None:
            return states, None
        sizes = torch.tensor([[*size, 0, 0, *size]], dtype=states.dtype, device=states.device)
        return states, {"text_embeds": pooled, "time_ids": sizes.expand(states.shape[0], -1)}

    def encode(self, prompts: list[str]) -> tuple[Tensor, Tensor | None]:
        """Return the texts' states [batch, tokens, width], and for XL what stands for each text [batch, width].

        Texts that are too long for the encoder are cut.
        """
        states, pooled = [], None
        for tokenizer, encoder in zip(self.tokenizers, self.text_encoders, strict=True):
            result = encoder(self._tokens(prompts, tokenizer, encoder), output_hidden_states=self.is_xl)
            states.append(result.hidden_states[-2] if self.is_xl else result.last_hidden_state)
            pooled = result.pooler_output
        return torch.cat(states, dim=-1), pooled if self.is_xl else None

    @staticmethod
    def _tokens(prompts: list[str], tokenizer: Tokenizer, encoder: Any) -> Tensor:
        limit, end = encoder.config.max_position_embeddings, tokenizer.eos_token_id
        filler = tokenizer.pad_token_id
        filler = end if filler is None else filler
        rows = []
        for each in prompts:
            ids = tokenizer.encode(each)
            ids = [*ids[: limit - 1], end] if len(ids) > limit else ids
            rows.append([*ids, *[filler] * (limit - len(ids))])
        return torch.tensor(rows, dtype=torch.int64, device=encoder.device)

    def _noise(self, shape: Any, generator: torch.Generator | None) -> Tensor:
        device = self.device if generator is None else generator.device
        return torch.randn(shape, generator=generator, device=device, dtype=self.unet.dtype).to(self.device)

    def _latents_of(self, pixels: Tensor, generator: torch.Generator | None) -> Tensor:
        mean, deviation = self.vae.encode((pixels * 2 - 1).to(self.device, self.vae.dtype))
        return self.vae.scaled(mean + deviation * self._noise(mean.shape, generator).to(mean.dtype)).to(self.unet.dtype)

    def _start(
        self, count: int, size: tuple[int, int], image: Any, first: int, strength: float | None, masked: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:  # fmt: skip
        """Return the latents to begin with, and those of the image with the noise added to it."""
        factor = self.vae.factor
        shape = (count, self.vae.config.latent_channels, size[0] // factor, size[1] // factor)
        if image is None:
            return self._noise(shape, generator) * self.scheduler.init_noise_sigma, None
        fresh = masked and self._strength(strength, masked) == 1
        if fresh and self.unet.config.in_channels != 4:
            return self._noise(shape, generator) * self.scheduler.init_noise_sigma, None
        given = self._latents_of(pixels_of(image, size, 3), generator)
        given = given.expand(count, -1, -1, -1) if given.shape[0] == 1 else given
        if given.shape[0] != count:
            raise ValueError(f"{given.shape[0]} images for {count} prompts")
        noise = self._noise(shape, generator)
        if fresh:
            return noise * self.scheduler.init_noise_sigma, (given, noise)
        if first == len(self.scheduler.timesteps):
            return given, (given, noise)
        return self.scheduler.add_noise(given, noise, first), (given, noise)

    def _mask(
        self, image: Any, mask_image: Any, size: tuple[int, int], generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None] | None:
        """Return the mask at the latents' size, and the latents of what it leaves for a U-Net that reads them."""
        if mask_image is None:
            return None
        if self.unet.config.in_channels not in (4, 9):
            raise ValueError(
                f"inpainting needs a U-Net of 4 or 9 channels, this one has {self.unet.config.in_channels}"
            )
        mask = (pixels_of(mask_image, size, 1) >= 0.5).float()
        small = F.interpolate(mask, size=tuple(each // self.vae.factor for each in size), mode="nearest")
        small = small.to(self.device, self.unet.dtype)
        if self.unet.config.in_channels == 4:
            return small, None
        pixels = pixels_of(image, size, 3)
        # Grey, which is zero inside the network, where the mask is white.
        return small, self._latents_of(torch.where(mask.bool(), 0.5, pixels), generator)

    def _predict(
        self, latents: Tensor, index: int, text: Tensor, added: dict[str, Tensor] | None, mask: Any, guided: bool, scale: float
    ) -> Tensor:  # fmt: skip
        given = torch.cat([latents, latents]) if guided else latents
        given = self.scheduler.scale_model_input(given, index).to(self.unet.dtype)
        if mask is not None and mask[1] is not None:
            more = [each.expand(given.shape[0], -1, -1, -1) for each in mask]
            given = torch.cat([given, *more], dim=1)
        condition = None
        if self.unet.config.time_cond_proj_dim is not None:
            # What a distilled U-Net is told of the strength of guidance (Luo et al., 2023).
            strength = torch.tensor([(scale - 1) * 1000.0])
            condition = sinusoids(strength, self.unet.config.time_cond_proj_dim)
            condition = condition.to(self.device, self.unet.dtype).expand(given.shape[0], -1)
        said = self.unet(given, self.scheduler.timesteps[index], text, added_cond_kwargs=added, timestep_cond=condition)
        if not guided:
            return said
        away, towards = said.chunk(2)
        return away + scale * (towards - away)

    def _outside(self, latents: Tensor, index: int, kept: Any, mask: Tensor, total: int) -> Tensor:
        """Return latents that outside of the mask are the image's, with as much noise."""
        given, noise = kept
        if index + 1 < total:
            given = self.scheduler.add_noise(given, noise, index + 1)
        return (1 - mask) * given + mask * latents

    def _decode(self, latents: Tensor) -> Tensor:
        images = self.vae.decode(self.vae.unscaled(latents.to(self.vae.dtype)))
        return (images.float() / 2 + 0.5).clamp(0, 1)
