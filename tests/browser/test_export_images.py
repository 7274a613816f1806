"""Exported Stable Diffusion: the image that Python makes, in Node and in Chromium."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import webgpu_torch as torch
from engines import Node
from webgpu_torch_models.diffusion.schedulers import (
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
)
from webgpu_torch_web.exporting.images import tables

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))


@pytest.mark.parametrize("steps", [4, 7])
@pytest.mark.parametrize(
    "scheduler",
    [
        DDIMScheduler(clip_sample=False),
        PNDMScheduler(),
        PNDMScheduler(skip_prk_steps=True),
        EulerDiscreteScheduler(),
        EulerDiscreteScheduler(use_karras_sigmas=True, prediction_type="v_prediction"),
        DPMSolverMultistepScheduler(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_tables(scheduler, steps):
    """The images that the factors give are those that the scheduler makes of a network's outputs."""
    found = tables(scheduler, steps)
    generator = torch.Generator().manual_seed(1)
    terms = [torch.randn(5, generator=generator, dtype=torch.float64)]
    sample = terms[0] * scheduler.init_noise_sigma
    scheduler.set_timesteps(steps)
    assert found["timesteps"] == scheduler.timesteps and len(found["rows"]) == len(scheduler.timesteps)
    for index, (scale, row) in enumerate(zip(found["scales"], found["rows"], strict=True)):
        torch.testing.assert_close(scheduler.scale_model_input(sample, index), sample * scale)
        terms.append(torch.randn(5, generator=generator, dtype=torch.float64))
        sample = scheduler.step(terms[-1], index, sample)
        made = sum(factor * each for factor, each in zip(row, terms, strict=True))
        # Some schedulers compute in float32.
        torch.testing.assert_close(made, sample, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scheduler", [DDPMScheduler(), DDIMScheduler(clip_sample=True)])
def test_schedulers_that_draw_or_clip_are_refused(scheduler):
    with pytest.raises(torch.web.ExportError, match="draws noise or clips"):
        tables(scheduler, 4)


def test_tables_of_one_export_stay_there(tmp_path):
    net = torch.nn.Upsample(scale_factor=2, mode="bilinear")
    folders = [torch.web.export(net, torch.zeros(1, 1, 3, 3), tmp_path / name) for name in "ab"]
    first, second = ((each / "plan.json").read_text(encoding="utf-8") for each in folders)
    assert first == second
    assert net(torch.ones(1, 1, 3, 3, device="webgpu")).sum().item() == 36


PAINT = """
export default async ({ base, gpu }) => {
  const { loadImages } = await import(`${base}images/images.js`);
  const images = await loadImages(`${base}images`, { gpu });
  const options = { negative: "dog", guidance: 4, noise: Float32Array.from(NOISE) }, seen = [];
  const canvas = globalThis.OffscreenCanvas && new OffscreenCanvas(1, 1);
  const first = await images.paint("a red cat", { ...options, canvas, onStep: (...each) => seen.push(each) });
  const drawn = canvas?.getContext("2d").getImageData(0, 0, first.width, first.height).data;
  const seeded = await images.paint("a red cat", { seed: 5, steps: 1 });
  const again = await images.paint("a red cat", { seed: 5, steps: 1 });
  return { data: Array.from(first.data), drawn: drawn && Array.from(drawn), seen, same: seeded.data.every((each, at) => each === again.data[at]) };
};"""


@pytest.mark.slow
def test_pipeline(engine, tmp_path):
    from test_diffusion_pipelines import folder_of
    from webgpu_torch_models.diffusion import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(folder_of("pipeline", tmp_path))
    torch.web.export_images(pipeline, engine.root / "images", height=16, width=16, steps=[3, 1])
    noise = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(8))
    found = engine.run(PAINT.replace("NOISE", json.dumps(noise.flatten().tolist())))
    options = {"negative_prompt": "dog", "guidance_scale": 4.0, "steps": 3, "height": 16, "width": 16}
    draws = torch.Generator().manual_seed(8)
    expected = pipeline("a red cat", **options, generator=draws, output="tensor")[0]
    pixels = torch.tensor(found["data"], dtype=torch.float32).reshape(16, 16, 4)
    assert (pixels[..., 3] == 255).all() and expected.std() > 0.05
    assert (pixels[..., :3].permute(2, 0, 1) - expected * 255).abs().max().item() <= 2
    # Node has no canvas.
    assert found.get("drawn") == (None if isinstance(engine, Node) else found["data"])
    assert found["seen"] == [[1, 4], [2, 4], [3, 4], [4, 4]] and found["same"]
