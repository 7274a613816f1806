"""Pictures of diffusers' pipelines under PyTorch and under this library.

    python tests/huggingface/pipelines.py write FOLDER NAME...
    python tests/huggingface/pipelines.py compare FOLDER DEVICE NAME...

``write`` makes each pipeline with PyTorch, saves it with ``save_pretrained`` and draws its picture; ``compare`` loads it
with ``from_pretrained``, this library being torch, draws again from the same seed and writes ``results.json`` with the
largest difference in levels of 255. A name with ``+lora`` has weights of an adapter besides.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tiny_pipelines

for _library in ("DIFFUSERS", "TRANSFORMERS"):
    os.environ.setdefault(f"{_library}_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
warnings.simplefilter("ignore")


def draw(torch: Any, pipeline: Any, name: str, **others: Any) -> np.ndarray:
    """Return the pictures that a pipeline draws from seed 0."""
    pipeline.set_progress_bar_config(disable=True)
    torch.manual_seed(0)
    generator = torch.Generator("cpu").manual_seed(0)
    given = tiny_pipelines.asked(name) | others
    result = pipeline(**given, generator=generator, output_type="np")
    return np.asarray(result.images if hasattr(result, "images") else result.frames)


def _loaded(name: str, folder: Path) -> Any:
    import diffusers

    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder)
    if name.endswith("+lora"):
        pipeline.load_lora_weights(folder / "lora")
    return pipeline


def write(torch: Any, name: str, folder: Path) -> None:
    """Save one pipeline and its picture.

    Raises:
        RuntimeError: the picture shows nothing.
    """
    pipeline = tiny_pipelines.build(torch, name)
    pipeline.save_pretrained(folder)
    drawn = draw(torch, pipeline, name)
    if name.endswith("+lora"):
        tiny_pipelines.write_lora(torch, pipeline, folder / "lora")
        without, drawn = drawn, draw(torch, _loaded(name, folder), name)
        if np.abs(drawn - without).max() * 255 < 10:
            raise RuntimeError("the adapter changes nothing")
    if drawn.std() * 255 < 10:
        raise RuntimeError("the picture shows nothing")
    asked = {"prompt": tiny_pipelines.OTHER} if "prompt" in tiny_pipelines.asked(name) else {}
    if asked and np.abs(drawn - draw(torch, pipeline, name, **asked)).max() * 255 < 1:
        raise RuntimeError("another prompt draws the same picture")
    np.save(folder / "picture.npy", drawn)


def compare(torch: Any, name: str, folder: Path, device: str) -> dict[str, Any]:
    """Return by how many levels of 255 a picture differs from PyTorch's."""
    found, wanted = draw(torch, _loaded(name, folder).to(device), name), np.load(folder / "picture.npy")
    if found.shape != wanted.shape:
        raise AssertionError(f"pictures of shape {found.shape}, expected {wanted.shape}")
    return {"levels": float(np.abs(found - wanted).max()) * 255}


def _explain(error: Exception) -> str:
    if os.environ.get("SHOW_TRACEBACKS"):
        traceback.print_exc()
    last = traceback.extract_tb(error.__traceback__)[-1]
    first = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
    return f"{first[:300]} ({Path(last.filename).name}:{last.lineno})"


def main() -> None:
    """Write or compare, as the command line says."""
    writing = sys.argv[1] == "write"
    if not writing:
        import webgpu_torch

        webgpu_torch.install_as_torch()
    import diffusers
    import torch

    diffusers.utils.logging.disable_progress_bar()

    root, device, names = Path(sys.argv[2]), sys.argv[3], sys.argv[3 if writing else 4 :]
    results: dict[str, Any] = {}
    for name in names:
        started = time.perf_counter()
        try:
            if writing:
                write(torch, name, root / name)
            else:
                results[name] = compare(torch, name, root / name, device)
                results[name]["seconds"] = round(time.perf_counter() - started, 2)
        except Exception as error:
            results[name] = {"error": _explain(error)}
        (root / ("not_built.json" if writing else "results.json")).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
