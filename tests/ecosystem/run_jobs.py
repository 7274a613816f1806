"""Runs packages' jobs and writes what they return: ``run_jobs.py RESULTS.json NAME ... [--drop-in]``.

Under ``--drop-in``, ``import torch`` is this library; else it is PyTorch. A job is a public function of ``jobs/NAME.py``; it returns
numbers, texts, tensors, or lists and dictionaries of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import sys
import time
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", WANDB_DISABLED="true", TQDM_DISABLE="1")
warnings.simplefilter("ignore")


def plain(value: Any) -> Any:
    """Return what JSON can hold of a result: tensors as their shape and at most 400 numbers evenly taken."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.is_complex():
            value = torch.view_as_real(value.resolve_conj())
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    if isinstance(value, numpy.generic):
        value = numpy.asarray(value)
    if isinstance(value, numpy.ndarray):
        flat = value.ravel()
        taken = flat[numpy.linspace(0, len(flat) - 1, min(len(flat), 400)).astype(int)] if len(flat) else flat
        return {"shape": list(value.shape), "values": [float(each) for each in taken]}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(type(value).__name__)


def name_operations() -> None:
    """Let torchvision be imported where its extension, which needs CUDA's libraries, is not loaded: two names suffice."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    name_operations.kept = library


def run(name: str) -> dict[str, Any]:
    """Return whether a file of jobs can be imported, and what each job returned or how it failed; all begin with the same seeds."""
    import numpy
    import torch

    place = Path(__file__).parent / "jobs" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"job_{name}", place)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception:
        return {"import": False, "error": traceback.format_exc(limit=-3), "jobs": {}}
    jobs: dict[str, Any] = {}
    for job, function in list(vars(module).items()):
        if (
            job.startswith("_")
            or not isinstance(function, types.FunctionType)
            or function.__module__ != module.__name__
        ):
            continue
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)
        started = time.perf_counter()
        try:
            jobs[job] = {"result": plain(function())}
        except Exception:
            jobs[job] = {"error": traceback.format_exc(limit=-4)}
        jobs[job]["seconds"] = round(time.perf_counter() - started, 3)
    return {"import": True, "jobs": jobs}


def main(names: list[str], results: str, drop_in: bool) -> None:
    """Run the jobs of several packages and write what each gave."""
    if drop_in:
        importlib.import_module("webgpu_torch.as_torch")
    else:
        name_operations()
    import torch

    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in names:
        found[name] = run(name)
        Path(results).write_text(json.dumps(found))


if __name__ == "__main__":
    main([each for each in sys.argv[2:] if each != "--drop-in"], sys.argv[1], "--drop-in" in sys.argv)
