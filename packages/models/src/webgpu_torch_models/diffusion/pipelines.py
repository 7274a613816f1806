"""What makes images whole: texts are encoded, noise is taken away step by step, latents become pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

if TYPE_CHECKING:
    from typing import Self

    from PIL.Image import Image

    from webgpu_torch_models.images import Pictures

from webgpu_torch_models.config import read_json
from webgpu_torch_models.diffusion.autoencoder import AutoencoderKL
from webgpu_torch_models.diffusion.lora_files import load_lora
from webgpu_torch_models.diffusion.part import DiffusionPart
from webgpu_torch_models.diffusion.schedule import Scheduler, SchedulerConfig
from webgpu_torch_models.diffusion.schedulers import SCHEDULERS, scheduler_from_folder
from webgpu_torch_models.hub import find_folder
from webgpu_torch_models.images import pillow_images, pixels_of
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.tokenizer import AutoTokenizer, Tokenizer

Part = TypeVar("Part", bound=PreTrainedModel)
#: what is fetched of a repository
PATTERNS = ["*.json", "*/*.json", "*/*.safetensors", "*/merges.txt", "*/vocab.txt"]


class Load(Protocol):
    """Loads a part of a pipeline by its name and class."""

    def __call__(self, part: str, model: type[Part]) -> Part: ...


def has_part(index: dict[str, object], part: str) -> bool:
    """Return whether model_index.json names a part; [null, null] is none."""
    return index.get(part) not in (None, [None, None])


class Conditions(NamedTuple):
    """What a network is told of the texts; where others are to be avoided, these come first.

    Attributes:
        states: [batch, tokens, width].
        pooled: [batch, width], what stands for each text; None where the network reads none.
        size: height and width of the images.
        guidance: how much the texts count, for networks that are told it.
        scale: how many times as far as from the texts to be avoided it goes; 1 where there are none.
    """

    states: Tensor
    pooled: Tensor | None
    size: tuple[int, int]
    guidance: float
    scale: float


class Mask(NamedTuple):
    """What is made anew, at the size of latents, and the latents of the rest for networks that read them."""

    inside: Tensor
    rest: Tensor | None


class DiffusionPipeline:
    """Makes images of texts; the base of each family's pipeline, and what loads any of them.

    Class attributes:
        part: what the network is called in a folder, and its class.
        text_parts: the classes of encoders of texts, by how their folders' names end.
        steps, guidance, strengths: what calls do by default; how much of an image is replaced without and with a mask.

    Args:
        tokenizers, text_encoders: as many of each.
        network, vae, scheduler: the other parts.
    """

    part: ClassVar[tuple[str, type[DiffusionPart]]]
    text_parts: ClassVar[dict[str, type[PreTrainedModel]]]
    steps: ClassVar[int] = 50
    guidance: float = 7.5
    strengths: ClassVar[tuple[float, float]] = (0.8, 1.0)
    kinds: ClassVar[list[type[DiffusionPipeline]]] = []

    def __init__(
        self, tokenizers: list[Tokenizer], text_encoders: list[PreTrainedModel], network: DiffusionPart,
        vae: AutoencoderKL, scheduler: Scheduler,
    ) -> None:  # fmt: skip
        if len(tokenizers) != len(text_encoders) or not tokenizers:
            raise ValueError(f"{len(tokenizers)} tokenizers for {len(text_encoders)} encoders of texts")
        self.tokenizers, self.text_encoders = tokenizers, text_encoders
        self.network, self.vae, self.scheduler = network, vae, scheduler
        self.endings = list(self.text_parts)[: len(text_encoders)]

    def __init_subclass__(cls) -> None:
        if "part" in vars(cls):
            DiffusionPipeline.kinds.append(cls)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None,
        token: str | None = None, revision: str | None = None, quantize: str | None = None,
    ) -> Self:  # fmt: skip
        """Load a pipeline from a local folder or a hub id, as diffusers lays it out: model_index.json says of which family.

        Args:
            name_or_path: the folder, or the id.
            dtype, device, token, revision: as :meth:`PreTrainedModel.from_pretrained`'s.
            quantize: "int8", "int4", "nf4" or "fp8": linear maps of the network and of the encoders of texts have so few bits.

        Raises:
            FileNotFoundError: there is no such folder, or a part is missing in it.
            ValueError: the folder's network is none of those here, or a part's class or weights are not those expected.
        """
        folder = find_folder(name_or_path, token=token, revision=revision, patterns=PATTERNS)
        index = read_json(folder / "model_index.json")
        for kind in (cls, *cls.kinds):
            if issubclass(kind, cls) and kind._describes(index):

                def load(part: str, model: type[Part]) -> Part:
                    # The autoencoder is convolutions.
                    bits = None if model is AutoencoderKL else quantize
                    return model.from_pretrained(folder / part, dtype=dtype, device=device, quantize=bits)

                return kind._assembled(folder, index, load)
        known = ", ".join(kind.part[1].__name__ for kind in cls.kinds if issubclass(kind, cls))
        found = index.get("transformer") or index.get("unet")
        raise ValueError(f"{folder / 'model_index.json'}: the network is {found}; {cls.__name__} loads: {known}")

    @classmethod
    def knows(cls, name_or_path: str | Path) -> bool:
        """Return whether the network and the scheduler of a local folder or a hub id, as diffusers lays it out, are here.

        Raises:
            FileNotFoundError: there is no such folder, or it is laid out otherwise.
        """
        folder = find_folder(name_or_path, patterns=["model_index.json", "scheduler/*.json"])
        index = read_json(folder / "model_index.json")
        scheduler = read_json(folder / "scheduler" / SchedulerConfig.file_name).get("_class_name")
        return scheduler in SCHEDULERS and any(issubclass(kind, cls) and kind._describes(index) for kind in cls.kinds)

    @classmethod
    def _describes(cls, index: dict[str, object]) -> bool:
        if not hasattr(cls, "part"):
            return False
        name, kind = cls.part
        found = index.get(name)
        return isinstance(found, list) and kind.__name__ in found

    @classmethod
    def _assembled(cls, folder: Path, index: dict[str, object], load: Load) -> Self:
        """Return the pipeline that a folder's configurations describe, of networks that ``load`` loads."""
        endings = [end for end in cls.text_parts if has_part(index, f"text_encoder{end}")]
        name, kind = cls.part
        return cls(
            [AutoTokenizer.from_pretrained(folder / f"tokenizer{end}") for end in endings],
            [load(f"text_encoder{end}", cls.text_parts[end]) for end in endings],
            load(name, kind),
            load("vae", AutoencoderKL),
            scheduler_from_folder(folder / "scheduler"),
            **cls._more(index),
        )

    @classmethod
    def _more(cls, index: dict[str, object]) -> dict[str, bool]:
        """Return what else of model_index.json the pipeline is made with."""
        return {}

    def load_lora_weights(self, path: str | Path, scale: float = 1.0, merge: bool = False) -> list[str]:
        """Put an adapter of low rank into the network and the encoders of texts.

        Args:
            path: a file of diffusers or of kohya's trainer, or a folder that has pytorch_lora_weights.safetensors.
            scale: how much of it.
            merge: add it to the weights, which costs nothing later but cannot be undone; otherwise it stays beside.

        Returns:
            the names of the adapted maps, each after its part's.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is damaged, or is for another pipeline; nothing is changed then.
        """
        encoders = zip(self.endings, self.text_encoders, strict=True)
        parts = {self.part[0]: self.network, **{f"text_encoder{end}": each for end, each in encoders}}
        return load_lora(parts, Path(path), scale, merge)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.device

    def __call__(
        self,
        prompt: str | list[str],
        negative_prompt: str | list[str] | None = None,
        *,
        image: Pictures | None = None,
        mask_image: Pictures | None = None,
        height: int | None = None,
        width: int | None = None,
        steps: int | None = None,
        guidance_scale: float | None = None,
        true_cfg_scale: float = 1.0,
        strength: float | None = None,
        max_sequence_length: int | None = None,
        generator: torch.Generator | None = None,
        callback: Callable[[int, int], None] | None = None,
        output: str = "pil",
    ) -> Tensor | list[Image]:
        """Make an image for each text.

        Args:
            prompt: what is wanted.
            negative_prompt: what is not.
            image: to start from: of Pillow, or a tensor [batch, 3, height, width] from 0 to 1.
            mask_image: of one channel: white is made anew, black stays.
            height, width: in pixels, multiples of a patch; what the network was trained on by default.
            steps: how many times the network runs; the family's default is the class attribute.
            guidance_scale: how much the text counts; 1 is without guidance, at half the work.
            true_cfg_scale: of Flux, which was told ``guidance_scale`` in training: how much ``negative_prompt`` counts
                besides; 1 is not at all, at half the work.
            strength: how much of ``image`` is replaced, from 0 to 1; the family's default is the class attribute.
            max_sequence_length: how many tokens of a text T5 reads, where there is one.
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
        guidance = self.guidance if guidance_scale is None else guidance_scale
        with torch.no_grad():
            scale = self._scale(guidance, true_cfg_scale, negative_prompt)
            states, pooled = self._texts(prompts, negative_prompt, scale, max_sequence_length)
            told = Conditions(states, pooled, size, guidance, scale)
            self._set_timesteps(self.steps if steps is None else steps, size)
            first = self._first_step(image, mask_image, strength)
            latents, kept = self._start(len(prompts), size, image, first, strength, mask_image is not None, generator)
            mask = self._mask(image, mask_image, size, generator)
            total = len(self.scheduler.timesteps)
            for index in range(first, total):
                said = self._guided(latents, index, told, mask)
                latents = self.scheduler.step(said, index, latents, generator)
                if mask is not None and mask.rest is None and kept is not None:
                    latents = self._outside(latents, index, kept, mask.inside, total)
                if callback is not None:
                    callback(index - first + 1, total - first)
            if output == "latent":
                return latents
            pixels = self._decode(latents)
        return pillow_images(pixels) if output == "pil" else pixels

    @property
    def _sizes(self) -> tuple[int, int]:
        """What heights and widths are multiples of, and by default."""
        raise NotImplementedError

    @property
    def _reads_masks(self) -> bool:
        """Whether the network was trained to fill masks, which it reads beside the latents."""
        return False

    def _says(self, latents: Tensor, index: int, told: Conditions, mask: Mask | None) -> Tensor:
        """Run the network for a step: latents [batch, channels, height, width] to what the scheduler is told of them."""
        raise NotImplementedError

    def encode(self, prompts: list[str], max_sequence_length: int | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the texts' states [batch, tokens, width], and what stands for each text [batch, width] if that is read.

        Texts that are too long for an encoder are cut.
        """
        raise NotImplementedError

    def _set_timesteps(self, steps: int, size: tuple[int, int]) -> None:
        self.scheduler.set_timesteps(steps)

    def _scale(self, guidance: float, true_scale: float, negative: str | list[str] | None) -> float:
        """Return how far to go away from texts to be avoided; 1 where there are none."""
        return max(guidance, 1.0)

    @staticmethod
    def _left_out(steps: int, strength: float) -> int:
        """Return how many steps are not taken where an image is replaced in part."""
        return steps - min(int(steps * strength), steps)

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        multiple, default = self._sizes
        size = (height or default, width or default)
        if any(each % multiple or each < multiple for each in size):
            raise ValueError(f"height and width must be multiples of {multiple}, got {size[0]} and {size[1]}")
        return size

    def _first_step(self, image: Pictures | None, mask_image: Pictures | None, strength: float | None) -> int:
        if image is None:
            if mask_image is not None:
                raise ValueError("mask_image needs an image")
            return 0
        strength = self._strength(strength, mask_image is not None)
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be between 0 and 1, got {strength}")
        steps, total = self.scheduler.steps, len(self.scheduler.timesteps)
        # Schedulers that take steps twice have about twice as many.
        return min(self._left_out(steps, strength) * max(1, round(total / steps)), total)

    def _strength(self, strength: float | None, masked: bool) -> float:
        return self.strengths[masked] if strength is None else strength

    def _texts(
        self, prompts: list[str], negative: str | list[str] | None, scale: float, limit: int | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the texts' states and what stands for each, those to be avoided first."""
        states, pooled = self.encode(prompts, limit)
        if scale == 1:
            return states, pooled
        unwanted = negative or ""
        unwanted = [unwanted] * len(prompts) if isinstance(unwanted, str) else list(unwanted)
        if len(unwanted) != len(prompts):
            raise ValueError(f"{len(unwanted)} negative prompts for {len(prompts)} prompts")
        away, pooled_away = self._avoided(unwanted, negative, states, pooled, limit)
        both = None if pooled is None or pooled_away is None else torch.cat([pooled_away, pooled])
        return torch.cat([away, states]), both

    def _avoided(
        self, unwanted: list[str], negative: str | list[str] | None, states: Tensor, pooled: Tensor | None,
        limit: int | None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return what :meth:`encode` would of the texts to be avoided, of the shapes of those wanted."""
        return self.encode(unwanted, limit)

    @staticmethod
    def _tokens(prompts: list[str], tokenizer: Tokenizer, encoder: PreTrainedModel, limit: int) -> Tensor:
        """Return texts as tokens, int64 [batch, limit]: cut before the token that ends them, or filled."""
        end, filler = tokenizer.eos_token_id, tokenizer.pad_token_id
        filler = end if filler is None else filler
        rows = []
        for each in prompts:
            ids = tokenizer.encode(each)
            ids = [*ids[: limit - 1], end] if len(ids) > limit else ids
            rows.append([*ids, *[filler] * (limit - len(ids))])
        return torch.tensor(rows, dtype=torch.int64, device=encoder.device)

    def _noise(self, shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
        device = self.device if generator is None else generator.device
        return torch.randn(shape, generator=generator, device=device, dtype=self.network.dtype).to(self.device)

    def _latents_of(self, pixels: Tensor, generator: torch.Generator | None) -> Tensor:
        mean, deviation = self.vae.encode((pixels * 2 - 1).to(self.device, self.vae.dtype))
        drawn = mean + deviation * self._noise(mean.shape, generator).to(mean.dtype)
        return self.vae.scaled(drawn).to(self.network.dtype)

    def _start(
        self, count: int, size: tuple[int, int], image: Pictures | None, first: int, strength: float | None, masked: bool,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:  # fmt: skip
        """Return the latents to begin with, and those of the image with the noise added to it."""
        factor = self.vae.factor
        shape = (count, self.vae.config.latent_channels, size[0] // factor, size[1] // factor)
        fresh = masked and self._strength(strength, masked) == 1
        if image is None or (fresh and self._reads_masks):
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
        self,
        image: Pictures | None,
        mask_image: Pictures | None,
        size: tuple[int, int],
        generator: torch.Generator | None,
    ) -> Mask | None:
        if image is None or mask_image is None:
            return None
        mask = (pixels_of(mask_image, size, 1) >= 0.5).float()
        small = F.interpolate(mask, size=tuple(each // self.vae.factor for each in size), mode="nearest")
        small = small.to(self.device, self.network.dtype)
        if not self._reads_masks:
            return Mask(small, None)
        pixels = pixels_of(image, size, 3)
        # Grey, which is zero inside the network, where the mask is white.
        return Mask(small, self._latents_of(torch.where(mask.bool(), 0.5, pixels), generator))

    def _guided(self, latents: Tensor, index: int, told: Conditions, mask: Mask | None) -> Tensor:
        given = latents if told.scale == 1 else torch.cat([latents, latents])
        said = self._says(self.scheduler.scale_model_input(given, index).to(self.network.dtype), index, told, mask)
        if told.scale == 1:
            return said
        away, towards = said.chunk(2)
        return away + told.scale * (towards - away)

    def _outside(self, latents: Tensor, index: int, kept: tuple[Tensor, Tensor], mask: Tensor, total: int) -> Tensor:
        """Return latents that outside of the mask are the image's, with as much noise."""
        given, noise = kept
        if index + 1 < total:
            given = self.scheduler.add_noise(given, noise, index + 1)
        return (1 - mask) * given + mask * latents

    def _decode(self, latents: Tensor) -> Tensor:
        images = self.vae.decode(self.vae.unscaled(latents.to(self.vae.dtype)))
        return (images.float() / 2 + 0.5).clamp(0, 1)
