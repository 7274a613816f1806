"""Draw an image from a text with a diffusion pipeline from the Hugging Face hub, or from a folder.

    python examples/huggingface/image_generation.py --prompt "a lighthouse in a storm, oil painting"

One line makes it run on WebGPU; without it this is a PyTorch program. The noise is drawn on the CPU, so that a seed gives the
same picture on every device.
"""

import argparse

import webgpu_torch.as_torch  # isort: split

import torch
from diffusers import DiffusionPipeline

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--model", default="stable-diffusion-v1-5/stable-diffusion-v1-5", help="a folder, or an id on the hub"
)
parser.add_argument("--prompt", default="a lighthouse in a storm, oil painting")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--size", type=int, default=512)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
parser.add_argument("--output", default="image.png")
parser.add_argument("--device", default=str(torch.accelerator.current_accelerator() or "cpu"))
options = parser.parse_args()

pipeline = DiffusionPipeline.from_pretrained(options.model, torch_dtype=getattr(torch, options.dtype))
pipeline = pipeline.to(options.device)
image = pipeline(
    options.prompt,
    num_inference_steps=options.steps,
    height=options.size,
    width=options.size,
    generator=torch.Generator("cpu").manual_seed(options.seed),
).images[0]
image.save(options.output)
print(f"saved {options.output}")
