"""Run a training example and print its loss beside the one that PyTorch recorded, step by step.

An example is a file with ``import webgpu_torch as torch`` and a function ``train(device)`` that yields every step's
loss and returns a dictionary of final results. It ends with ``sys.exit(recorded_curves.main(train))``:

    python examples/digits_cnn.py                          # train; print our loss, PyTorch's, and the difference
    python examples/digits_cnn.py --device webgpu --steps 100
    python examples/digits_cnn.py --record-with-pytorch    # write examples/curves/digits_cnn.json

For the record the very same source runs with PyTorch: its import lines find :data:`REPLACEMENTS`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent
REPLACEMENTS = {"webgpu_torch": "torch", "webgpu_torch_models": "transformers"}
# Two float32 runs drift apart: that of one library on two processors does too. So far their losses are compared.
COMPARED_STEPS = 100
TOLERANCE = 1e-4

Train = Callable[[str], Generator[Any, None, "dict[str, float]"]]


@dataclass
class Curve:
    """Every step's loss, and what was measured after the last step (nothing, if the run was cut short)."""

    losses: list[float]
    results: dict[str, float]

    def largest_difference(self, other: Curve, steps: int = COMPARED_STEPS) -> float:
        """Return the largest difference between the losses of the first ``steps`` steps that both curves have."""
        pairs = list(zip(self.losses[:steps], other.losses[:steps], strict=False))
        if not pairs:
            raise ValueError(f"no steps to compare: the curves have {len(self.losses)} and {len(other.losses)} losses")
        # A difference that is no number is the largest of all.
        return max((abs(a - b) for a, b in pairs), key=lambda difference: (difference != difference, difference))


def run(
    train: Train, device: str, steps: int | None = None, show: Callable[[int, float], None] = lambda step, loss: None
) -> Curve:
    """Train on a device, for ``steps`` steps or to the end; ``show`` is called with every step's number and loss."""
    losses: list[float] = []
    training = train(device)
    while steps is None or len(losses) < steps:
        try:
            loss = next(training)
        except StopIteration as end:
            return Curve(losses, end.value or {})
        losses.append(float(loss))
        show(len(losses), losses[-1])
    training.close()
    return Curve(losses, {})


def load(name: str) -> ModuleType:
    """Import ``examples/<name>.py``."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


class _Replace(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports PyTorch under this library's name, and transformers under its models'."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname in REPLACEMENTS else None

    def create_module(self, spec: Any) -> Any:
        module = importlib.import_module(REPLACEMENTS[spec.name])
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It was executed already; only its description was replaced.
        module.__spec__ = self.own


@contextlib.contextmanager
def pytorch_instead() -> Iterator[None]:
    """Let the import lines of the examples find PyTorch and transformers, and import the examples anew."""

    def ours(name: str) -> bool:
        path = getattr(sys.modules[name], "__file__", None)
        here = path is not None and Path(path).parent == FOLDER and name not in ("__main__", __name__)
        return here or name in REPLACEMENTS

    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if ours(name)}
    finder = _Replace()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(kept)


def record_path(name: str) -> Path:
    """Return where the curve of an example is recorded."""
    return FOLDER / "curves" / f"{name}.json"


def recorded(name: str) -> Curve:
    """Return the curve that PyTorch made."""
    data = json.loads(record_path(name).read_text(encoding="utf-8"))
    return Curve(data["losses"], data["results"])


def record(name: str) -> Curve:
    """Run the example with PyTorch on the CPU and write down its curve."""
    with pytorch_instead():
        example = load(name)
        version = sys.modules["webgpu_torch"].__version__
        curve = run(example.train, "cpu", show=lambda step, loss: print(f"step {step:4} {loss:.6f}"))
    text = json.dumps(
        {
            "made_with": f"PyTorch {version} on cpu",
            "results": curve.results,
            "losses": [float(f"{loss:.9g}") for loss in curve.losses],
        },
        indent=1,
    )
    path = record_path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"recorded {len(curve.losses)} steps in {path}; {curve.results}")
    return curve


def compare(name: str, train: Train, device: str, steps: int | None, every: int) -> bool:
    """Train, print both curves, and return whether they agree as far as they are compared."""
    theirs = recorded(name)
    print(f"device {device}\n{'step':>5} {'loss':>10} {'PyTorch':>10} {'difference':>10}")

    def show(step: int, loss: float) -> None:
        if step % every and step != 1:
            return
        beside = theirs.losses[step - 1] if step <= len(theirs.losses) else float("nan")
        print(f"{step:5} {loss:10.6f} {beside:10.6f} {abs(loss - beside):10.1e}", flush=True)

    ours = run(train, device, steps, show)
    for key, value in ours.results.items():
        print(f"{key}: {value:.4f} (PyTorch: {theirs.results[key]:.4f})")
    difference = ours.largest_difference(theirs)
    agrees = difference <= TOLERANCE
    compared = min(COMPARED_STEPS, len(ours.losses), len(theirs.losses))
    print(f"largest difference in the first {compared} steps: {difference:.1e} ({'agrees' if agrees else 'DIFFERS'})")
    return agrees


def main(train: Train) -> int:
    """Run the example that ``train`` comes from, as the command line says; return the exit status."""
    name = Path(vars(sys.modules[train.__module__])["__file__"]).stem
    parser = argparse.ArgumentParser(description=sys.modules[train.__module__].__doc__)
    parser.add_argument("--device", default=os.environ.get("WEBGPU_TORCH_DEVICE", "cpu"), help="cpu or webgpu")
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--every", type=int, default=10, help="print every so many steps")
    parser.add_argument("--record-with-pytorch", action="store_true", help="write the record, with PyTorch installed")
    arguments = parser.parse_args()
    if arguments.record_with_pytorch:
        record(name)
        return 0
    return 0 if compare(name, train, arguments.device, arguments.steps, arguments.every) else 1
