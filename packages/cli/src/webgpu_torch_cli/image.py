"""``webgpu-torch image``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from PIL.Image import Image
    from webgpu_torch_models.diffusion import DiffusionPipeline

from .models import OWN, PICTURES, chosen_dtype, prepare, tell_library


def draw(options: Namespace) -> int:
    """Draw an image from a text, and save it."""
    torch, device = prepare(options)
    if Path(options.output).suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise SystemExit(f"error: --output {options.output} should end in .png, .jpg or .webp")
    given = {
        "negative_prompt": options.negative_prompt,
        "width": options.width,
        "height": options.height,
        "guidance_scale": options.guidance,
        "generator": torch.Generator("cpu").manual_seed(options.seed),
    }
    given = {key: value for key, value in given.items() if value is not None}
    own = _load_own(options, device)
    library = PICTURES if own is None else OWN
    if own is not None:
        from tqdm import tqdm

        with tqdm(total=options.steps) as bar:

            def done(_: int, __: int) -> None:
                bar.update()

            drawn = own(options.prompt, steps=options.steps, callback=done, **given)
        (picture,) = cast("list[Image]", drawn)
    else:
        from diffusers.pipelines.pipeline_utils import DiffusionPipeline

        kind = chosen_dtype(torch, options)
        pipeline: Any = DiffusionPipeline.from_pretrained(options.model, torch_dtype=kind).to(device)
        picture = pipeline(options.prompt, num_inference_steps=options.steps, **given).images[0]
    picture.save(options.output)
    print(json.dumps({"output": options.output, "library": library}) if options.json else f"saved {options.output}")
    tell_library(options, library)
    return 0


def _load_own(options: Namespace, device: str) -> DiffusionPipeline | None:
    """Return the library's own pipeline; None where diffusers is to compute it, as where the network is not known here."""
    if options.attn is not None:
        return None
    import webgpu_torch as torch

    try:
        from webgpu_torch_models.diffusion import DiffusionPipeline

        if not DiffusionPipeline.knows(options.model):
            return None
    except (ImportError, OSError, ValueError):
        # What is wrong with a name or a folder is told by diffusers, which is asked next.
        return None
    return DiffusionPipeline.from_pretrained(options.model, dtype=chosen_dtype(torch, options), device=device)
