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


def write(torch: Any, name: str, folder: Path) -> None:
    """Write one architecture's folder.

    Raises:
        RuntimeError: the model has too many parameters for a test.
    """
    config = tiny_models.tiny_config(name)
    with torch.device("meta"):
        size = sum(each.numel() for each in tiny_models.build(name, config).parameters())
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
    np.savez(folder / "inputs.npz", **given)
    np.savez(folder / "outputs.npz", **{key: value.detach().float().numpy() for key, value in found.items()})
    try:
        np.savez(folder / "gradients.npz", **gradients(torch, model, found))
    except (RuntimeError, TypeError, AttributeError) as error:
        (folder / "no_gradients.txt").write_text(str(error))


def main() -> None:
    """Write the folders of the architectures named on the command line; report those that PyTorch can't build tiny."""
    import torch

    torch.set_num_threads(1)
    root, names = Path(sys.argv[1]), sys.argv[2:]
    failed = {}
    for name in names:
        try:
            write(torch, name, root / name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            if os.environ.get("SHOW_TRACEBACKS"):
                traceback.print_exc()
    (root / "not_built.json").write_text(json.dumps(failed))


if __name__ == "__main__":
    main()
