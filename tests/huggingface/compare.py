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


def compare(torch: Any, name: str, folder: Path, device: str, forms: list[str]) -> dict[str, Any]:
    """Return the largest relative errors of outputs and gradients of one architecture, and whether tokens agree."""
    import transformers

    # Not the automatic class: a few language models are a part of what their type's name stands for.
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    kind = getattr(transformers, architecture, None) or tiny_models.automatic_class(name)
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
    if "gradient" in forms and (folder / "gradients.npz").exists():
        result |= compare_gradients(torch, model, found, _read(folder / "gradients.npz"))
    modes = [form for form in forms if form in tiny_models.GENERATION]
    if modes and (folder / "generation.npz").exists():
        result["generation"] = compare_generation(torch, model, given["input_ids"], folder, modes)
    return result


def describe(error: Exception) -> str:
    """Return an exception's first line and where it was raised."""
    if os.environ.get("SHOW_TRACEBACKS"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return f"{message} ({Path(last.filename).name}:{last.lineno})"


def compare_gradients(torch: Any, model: Any, found: dict[str, Any], wanted: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the largest error of the parameters' gradients, relative to the largest of them, or why there is none."""
    try:
        ours = gradients(torch, model, found)
        # A constructor's frozen parameters (Whisper's positions) are not frozen when they come from a file.
        missing = sorted(set(wanted) - set(ours))
        if missing:
            raise AssertionError(f"PyTorch has gradients, this library none: {missing[:4]}")
        scale = max((float(np.abs(each).max(initial=0)) for each in wanted.values()), default=1.0) or 1.0
        # One scale for the whole model: gradients that are rounding noise beside the others decide nothing.
        largest = max((float(np.abs(ours[key] - wanted[key]).max(initial=0)) for key in wanted), default=0.0)
        return {"gradient": largest / scale}
    except Exception as error:
        return {"gradient_error": describe(error)}


def compare_generation(torch: Any, model: Any, input_ids: Any, folder: Path, modes: list[str]) -> dict[str, str]:
    """Return for each way to generate whether the tokens are the same, or why not."""
    refused = json.loads((folder / "no_generation.json").read_text())
    wanted = _read(folder / "generation.npz")
    results = {}
    for mode in modes:
        if mode in refused:
            results[mode] = f"PyTorch: {refused[mode]}"
            continue
        try:
            tokens = tiny_models.generate(torch, model, input_ids, mode)
            same = np.array_equal(tokens, wanted[mode])
            results[mode] = "same" if same else f"differs: {tokens.tolist()}, expected {wanted[mode].tolist()}"
        except Exception as error:
            results[mode] = describe(error)
    return results


def main() -> None:
    """Compare the architectures named on the command line and write the results into a file as they come."""
    webgpu_torch.install_as_torch()
    import torch

    root, target, device, forms, *names = sys.argv[1:]
    results = {}
    for name in names:
        started = time.perf_counter()
        try:
            results[name] = compare(torch, name, Path(root, name), device, forms.split(","))
        except Exception as error:
            results[name] = {"error": describe(error)}
        results[name]["seconds"] = round(time.perf_counter() - started, 2)
        # Whole at every moment: the process that started this one reads it meanwhile.
        partial = Path(target).with_suffix(".partial")
        partial.write_text(json.dumps(results))
        partial.replace(target)


if __name__ == "__main__":
    main()
