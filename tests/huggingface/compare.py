"""Loads the checkpoints that ``reference.py`` wrote with this library as torch, and compares outputs and gradients."""

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
import tiny_models
import webgpu_torch
from reference import gradients

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.simplefilter("ignore")


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest difference, relative to the largest magnitude wanted."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)):
        return float("inf")
    scale = float(np.abs(wanted[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(found[finite] - wanted[finite]).max(initial=0.0)) / scale


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return dict(archive)


def compare(torch: Any, name: str, folder: Path, device: str) -> dict[str, Any]:
    """Return the largest relative errors of outputs and gradients of one architecture."""
    from transformers import AutoModel, AutoModelForCausalLM

    kind = AutoModelForCausalLM if name.startswith("lm.") else AutoModel
    model = kind.from_pretrained(folder, attn_implementation="eager").eval().to(device)
    given = {key: torch.tensor(value).to(device) for key, value in _read(folder / "inputs.npz").items()}
    wanted = _read(folder / "outputs.npz")
    tiny_models.seed_everything(torch)
    found = tiny_models.outputs(model(**given))
    if set(found) != set(wanted):
        raise AssertionError(f"outputs {sorted(found)}, expected {sorted(wanted)}")
    result: dict[str, Any] = {
        "forward": max(relative_error(found[key].detach().float().cpu().numpy(), wanted[key]) for key in wanted)
    }
    if (folder / "gradients.npz").exists():
        slopes = _read(folder / "gradients.npz")
        try:
            ours = gradients(torch, model, found)
            missing = sorted(set(slopes) ^ set(ours))
            if missing:
                raise AssertionError(f"gradients of one side only: {missing[:4]}")
            scale = max((float(np.abs(each).max(initial=0)) for each in slopes.values()), default=1.0) or 1.0
            # One scale for the whole model: gradients that are rounding noise beside the others decide nothing.
            result["gradient"] = max(float(np.abs(ours[key] - slopes[key]).max(initial=0)) for key in slopes) / scale
        except Exception as error:
            result["gradient_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if os.environ.get("SHOW_TRACEBACKS"):
                traceback.print_exc()
    return result


def main() -> None:
    """Compare the architectures named on the command line and write ``results.json``."""
    webgpu_torch.install_as_torch()
    import torch

    root, device, names = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    results = {}
    for name in names:
        started = time.perf_counter()
        try:
            results[name] = compare(torch, name, root / name, device)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            results[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300] + f" ({where})"}
            if os.environ.get("SHOW_TRACEBACKS"):
                traceback.print_exc()
        results[name]["seconds"] = round(time.perf_counter() - started, 2)
        (root / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
