"""Stable Diffusion as a folder: text encoder, U-Net and decoder as functions, the scheduler as tables.

What a deterministic scheduler makes of a network's outputs is linear in them and in the noise that it starts from. So each
step's images are a sum of the noise and all outputs so far, whose factors are found here by running the scheduler on the
unit vectors; JavaScript needs to know nothing of the scheduler but its tables.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .errors import ExportError
from .folder import Json, write_folder
from .functions import SCRIPTS, opened
from .tokenizer import TOKENIZER_FILE, Tokenizer, described_tokenizer

IMAGE_SCRIPTS = ("images.js", "images.d.ts", "tokenizer.js", "tokenizer.d.ts")


class Scheduler(Protocol):
    """A scheduler of :mod:`webgpu_torch_models.diffusion`."""

    timesteps: list[float]
    init_noise_sigma: float

    def set_timesteps(self, steps: int) -> None:
        """Choose the steps."""
        ...

    def scale_model_input(self, sample: Tensor, index: int) -> Tensor:
        """Return what the network is given at a step."""
        ...

    def step(self, output: Tensor, index: int, sample: Tensor) -> Tensor:
        """Return the images after a step."""
        ...


class TextStates(Protocol):
    """What a text encoder returns."""

    last_hidden_state: Tensor


class TextEncoderConfig(Protocol):
    """How long a text may be."""

    max_position_embeddings: int


class TextEncoder(Protocol):
    """A text encoder."""

    config: TextEncoderConfig
    device: torch.device

    def __call__(self, tokens: Tensor) -> TextStates:
        """Return the states of tokens [batch, tokens]."""
        ...


class UNetConfig(Protocol):
    """What a U-Net reads."""

    in_channels: int
    time_cond_proj_dim: int | None


class UNet(Protocol):
    """The network that says what is noise."""

    config: UNetConfig
    device: torch.device
    dtype: torch.dtype

    def __call__(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        """Return what is noise in [batch, channels, height, width]."""
        ...


class Autoencoder(Protocol):
    """Makes images of latents."""

    factor: int
    dtype: torch.dtype

    def decode(self, latents: Tensor) -> Tensor:
        """Return images from -1 to 1."""
        ...

    def unscaled(self, latents: Tensor) -> Tensor:
        """Return latents as the decoder takes them."""
        ...


class SpecialTokenizer(Tokenizer, Protocol):
    """A tokenizer that knows how texts end."""

    eos_token_id: int | None
    pad_token_id: int | None


class Pipeline(Protocol):
    """A pipeline of :mod:`webgpu_torch_models.diffusion`."""

    tokenizers: Sequence[SpecialTokenizer]
    text_encoders: Sequence[TextEncoder]
    unet: UNet
    vae: Autoencoder
    scheduler: Scheduler
    is_xl: bool


def _encode(encoder: TextEncoder, tokens: Tensor) -> dict[str, Tensor]:
    return {"states": encoder(tokens).last_hidden_state.float()}


def _predict(unet: UNet, latents: Tensor, timestep: Tensor, states: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """Return the noise in latents [1, channels, height, width], away from the first and towards the second text."""
    both = torch.cat([latents, latents]).to(unet.dtype)
    away, towards = unet(both, timestep, states.to(unet.dtype)).float().chunk(2)
    return {"noise": away + scale * (towards - away)}


def _paint(vae: Autoencoder, latents: Tensor) -> dict[str, Tensor]:
    pixels = vae.decode(vae.unscaled(latents.to(vae.dtype))).float()
    return {"pixels": (pixels / 2 + 0.5).clamp(0, 1)}


def tables(scheduler: Scheduler, steps: int) -> Json:
    """Return a scheduler's steps: what the network is told, what its input is multiplied by, and the factors of the noise and
    of each output so far in the images after each step.

    Raises:
        ExportError: the scheduler draws noise, or is not linear (it clips).
    """
    scheduler.set_timesteps(steps)
    count = len(scheduler.timesteps)
    basis = torch.eye(count + 1, dtype=torch.float64, device="cpu")
    sample = basis[0] * scheduler.init_noise_sigma
    scales, rows = [], []
    for index in range(count):
        scales.append(scheduler.scale_model_input(basis[0], index)[0].item())
        sample = scheduler.step(basis[index + 1], index, sample)
        rows.append(sample.tolist()[: index + 2])
    timesteps = list(scheduler.timesteps)
    # Large numbers, so that what clips shows; another run, so that what draws does.
    generator = torch.Generator().manual_seed(0)
    given = 100 * torch.randn(count + 1, dtype=torch.float64, generator=generator, device="cpu")
    scheduler.set_timesteps(steps)
    value = given[:1] * scheduler.init_noise_sigma
    for index in range(count):
        value = scheduler.step(given[index + 1 : index + 2], index, value)
    terms = torch.tensor(rows[-1], dtype=torch.float64, device="cpu") * given
    # Some compute in float32.
    if not abs((value - terms.sum()).item()) <= 1e-5 * terms.abs().sum().item():
        raise ExportError(
            f"{type(scheduler).__name__} draws noise or clips what it computes (clip_sample): only schedulers whose steps "
            "are linear in the network's outputs are exported (DDIM without clipping, PNDM, Euler, DPM-Solver++, …)"
        )
    return {"timesteps": timesteps, "scales": scales, "rows": rows, "sigma": scheduler.init_noise_sigma}


def export_images(
    pipeline: Pipeline,
    folder: str | os.PathLike[str],
    *,
    height: int,
    width: int,
    steps: int | Sequence[int] = 25,
    weights: str = "float32",
    limits: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
) -> Path:
    """Write a Stable Diffusion pipeline to a folder that makes images of texts in browsers and in Node.

    Args:
        pipeline: a ``StableDiffusionPipeline`` of webgpu-torch-models with one text encoder.
        folder: where to; it is made if need be.
        height, width: of the images, in pixels.
        steps: how many times the U-Net runs; several numbers to choose from.
        weights, limits, features: as for :func:`.functions.export`.

    Returns:
        Path: the folder.

    Raises:
        ExportError: the pipeline is of another kind, or does what cannot be exported.
        ValueError: an option is none of those above, or the size is no multiple of the autoencoder's factor.
    """
    unet, vae = pipeline.unet, pipeline.vae
    if pipeline.is_xl or unet.config.in_channels != 4 or unet.config.time_cond_proj_dim is not None:
        raise ExportError(
            "only Stable Diffusion 1 and 2 for images of texts are exported: no XL, inpainting or distilled U-Net"
        )
    factor = vae.factor
    if height % factor or width % factor:
        raise ValueError(f"height and width must be multiples of {factor}, got {height} and {width}")
    (tokenizer,), (encoder,) = pipeline.tokenizers, pipeline.text_encoders
    described = described_tokenizer(tokenizer)
    length, end = encoder.config.max_position_embeddings, tokenizer.eos_token_id
    counts = [steps] if isinstance(steps, int) else list(steps)
    schedules = {str(each): tables(pipeline.scheduler, each) for each in counts}
    session = opened(limits, features, weights)
    latents = torch.zeros(1, 4, height // factor, width // factor, device=unet.device)
    tokens = torch.zeros(1, length, dtype=torch.int64, device=unet.device)
    shape = session.capture("encode", partial(_encode, encoder), (), {"tokens": tokens}).outputs[0].shape
    named = {
        "latents": latents, "timestep": torch.zeros(1, device=unet.device),
        "states": torch.zeros(2, *shape[1:], device=unet.device), "scale": torch.zeros(1, device=unet.device),
    }  # fmt: skip
    session.capture("predict", partial(_predict, unet), (), named)
    session.capture("paint", partial(_paint, vae), (), {"latents": latents})
    images: Json = {
        "schedules": schedules, "length": length, "end": end, "height": height, "width": width,
        # JavaScript sorts the names of an object that are numbers.
        "steps": counts[0],
        "pad": end if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
    }  # fmt: skip
    target = Path(folder)
    write_folder(session, target, weights, {"images": images}, (*SCRIPTS, *IMAGE_SCRIPTS))
    (target / TOKENIZER_FILE).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    return target
