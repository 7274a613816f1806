"""Writes what PyTorch computes: checkpoint, inputs, outputs and gradients of tiny models, one folder each."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tiny_models

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.simplefilter("ignore")


def cotangents(names: list[str], shapes: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return the same random weights of each output under either torch."""
    generator = np.random.default_rng(1)
    return {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in zip(names, shapes, strict=True)
    }


def gradients(torch: Any, model: Any, found: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return each parameter's gradient of the sum of all outputs, weighted by :func:`cotangents`."""
    usable = {key: value for key, value in found.items() if value.requires_grad}
    weights = cotangents(list(usable), [tuple(value.shape) for value in usable.values()])
    total: Any = 0
    for key, value in usable.items():
        total = total + (value.float() * torch.tensor(weights[key]).to(value.device)).sum()
    total.backward()
    return {
        key: value.grad.detach().float().cpu().numpy()
        for key, value in model.named_parameters()
        if value.grad is not None
    }


def count_parameters(torch: Any, name: str, config: Any) -> int:
    """Return how many numbers a model's parameters hold, without making them."""
    with torch.device("meta"):
        return sum(each.numel() for each in tiny_models.build(name, config).parameters())


def write(torch: Any, name: str, folder: Path) -> None:
    """Write one architecture's folder.

    Raises:
        RuntimeError: the model has too many parameters for a test.
    """
    config = tiny_models.tiny_config(name)
    if count_parameters(torch, name, config) > tiny_models.MAXIMUM_PARAMETERS:
        config = tiny_models.tiny_config(name, stages=True)
    size = count_parameters(torch, name, config)
    if size > tiny_models.MAXIMUM_PARAMETERS:
        raise RuntimeError(f"{size:,} parameters are too many for a tiny model")
    tiny_models.seed_everything(torch)
    model = tiny_models.build(name, config)
    given = tiny_models.inputs(config, model.forward, model.main_input_name)
    tiny_models.seed_everything(torch)
    found = tiny_models.outputs(model(**{key: torch.tensor(value) for key, value in given.items()}))
    if not found:
        raise RuntimeError("the model has no floating-point outputs")
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    # Some configurations of these sizes can be built and not be read again.
    type(model).from_pretrained(folder, attn_implementation="eager")
    np.savez(folder / "inputs.npz", **given)
    np.savez(folder / "outputs.npz", **{key: value.detach().float().numpy() for key, value in found.items()})
    try:
        np.savez(folder / "gradients.npz", **gradients(torch, model, found))
    except (RuntimeError, TypeError, AttributeError) as error:
        (folder / "no_gradients.txt").write_text(str(error))
    if not name.startswith("base.") and "input_ids" in given and model.can_generate():
        write_generation(torch, model, torch.tensor(given["input_ids"]), folder)


def write_generation(torch: Any, model: Any, input_ids: Any, folder: Path) -> None:
    """Write the tokens of each way to generate that PyTorch can go, and why it can't go the others."""
    tokens, refused = {}, {}
    for mode in tiny_models.GENERATION:
        try:
            tokens[mode] = tiny_models.generate(torch, model, input_ids, mode)
        except Exception as error:
            refused[mode] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    np.savez(folder / "generation.npz", **tokens)
    (folder / "no_generation.json").write_text(json.dumps(refused))


def main() -> None:
    """Write the folders of the architectures named on the command line, or why PyTorch can't build one tiny."""
    import torch

    torch.set_num_threads(1)
    root, names = Path(sys.argv[1]), sys.argv[2:]
    for name in names:
        reason = None
        try:
            write(torch, name, root / name)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            if os.environ.get("SHOW_TRACEBACKS"):
                traceback.print_exc()
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "done.json").write_text(json.dumps(reason))


if __name__ == "__main__":
    main()
