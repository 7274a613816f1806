"""``webgpu-torch image``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from .models import chosen_dtype, prepare


def draw(options: Namespace) -> int:
    """Draw an image from a text with a diffusers pipeline, and save it."""
    torch, device = prepare(options)
    if Path(options.output).suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise SystemExit(f"error: --output {options.output} should end in .png, .jpg or .webp")
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    kind = chosen_dtype(torch, options)
    pipeline: Any = DiffusionPipeline.from_pretrained(options.model, torch_dtype=kind).to(device)
    given = {"negative_prompt": options.negative_prompt, "width": options.width, "height": options.height}
    result = pipeline(
        options.prompt,
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        generator=torch.Generator("cpu").manual_seed(options.seed),
        **{key: value for key, value in given.items() if value is not None},
    )
    result.images[0].save(options.output)
    print(json.dumps({"output": options.output}) if options.json else f"saved {options.output}")
    return 0
