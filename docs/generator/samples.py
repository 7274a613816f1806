"""Small calls of operations, run by the build: what they print, the kernels they become, and whether gradients pass.

Calls are made up from the names of parameters, so a new operation has its sample without anybody writing it. Results are
kept in ``build/reference-samples.json`` until a source changes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import webgpu_torch as torch
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_backend_wgpu.modules import text_of
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.record import engine
from webgpu_torch_core.record.devices import engine_for

from .public_names import ROOT, Entry, parameters

CACHE = ROOT / "build" / "reference-samples.json"
#: an adapter with WebGPU's default limits and no optional feature: what every implementation has
PLAIN_ADAPTER = Capabilities(
    software=False, facts=TYPICAL["discrete"], workgroups_per_dimension=65535, invocations=256, workgroup_bytes=16384,
    storage_buffers=8, binding_bytes=128 << 20, half=False, int64=False, subgroups=False, matrix_units=(),
)  # fmt: skip
#: first operands, the most telling one first: the first that an operation takes is its sample
INPUTS = (
    "torch.tensor([[-1.0, 0.5, 2.0], [3.0, -0.25, 1.0]])",
    "torch.tensor([[4.0, 1.0], [1.0, 3.0]])",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor([[6, 5, 4], [3, 2, 1]])",
    "torch.tensor([3, 1, 2])",
    "torch.arange(9.0).reshape(1, 3, 3)",
    "torch.arange(16.0).reshape(1, 1, 4, 4)",
    "torch.arange(27.0).reshape(1, 1, 3, 3, 3)",
    "torch.tensor([1 + 2j, 3 - 1j])",
    "(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))",
    "2",
)
#: what other required parameters are given, by their names; several are tried in order
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "other": ("torch.tensor([2.0, -1.0, 0.5])", "torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]])", "x", "torch.tensor(2)"),
    "mat2": ("torch.ones(3, 2)", "x.mT"), "vec": ("torch.ones(3)", "torch.ones(2)"), "vec2": ("torch.ones(3)",),
    "mat": ("torch.ones(3, 3)", "torch.ones(2, 3)"), "mat1": ("torch.ones(2, 2)",), "batch1": ("torch.ones(1, 2, 2)",),
    "batch2": ("torch.ones(1, 2, 3)",), "tensor1": ("torch.ones(3)",), "tensor2": ("torch.full((3,), 2.0)",),
    "dim": ("1", "0"), "dims": ("(0, 1)", "(0,)"), "dim0": ("0",), "dim1": ("1",), "axis": ("0",), "axis0": ("0",),
    "axis1": ("1",), "index": ("torch.tensor([[0, 1, 0]])", "torch.tensor([0, 1])", "0"), "source": ("1", "0", "torch.ones(2, 3)"),
    "src": ("torch.ones(2, 3)", "torch.ones(3)"), "destination": ("0",), "sections": ("(3,)", "2"), "chunks": ("2",),
    "split_size_or_sections": ("2",), "split_size": ("2",), "split_sizes": ("(1, 1)",), "indices_or_sections": ("2", "3"),
    "mask": ("x > 0", "torch.ones(2, 3, dtype=torch.bool)"), "value": ("7.0", "1"), "repeats": ("2",), "n": ("4", "2"),
    "p": ("0.5", "2"), "q": ("0.5",), "k": ("2",), "exponent": ("2",), "weight": ("torch.ones(2, 3)", "torch.ones(1, 1, 2, 2)", "0.5",
    "torch.tensor([0.25])"), "end": ("torch.tensor(4.0)", "5"), "size": ("(2, 3)", "(3, 2)"), "fill_value": ("7.0",), "steps": ("5",),
    "high": ("10",), "condition": ("x > 0",), "values": ("torch.tensor([0.5])", "torch.tensor(0.5)"), "min": ("0.0",), "shape": ("(3, 2)", "(1,)"),
    "diagonal": ("0",), "dimension": ("0",), "step": ("1",), "start": ("0",), "length": ("1",), "boundaries": ("torch.tensor([0.0, 1.0])",),
    "sorted_sequence": ("torch.tensor([1.0, 3.0, 5.0])",), "lengths": ("torch.tensor([2, 1])",), "mean": ("torch.zeros(3)",),
    "std": ("torch.ones(3)",), "B": ("torch.ones(2, 1)",), "A": ("torch.tensor([[4.0, 1.0], [1.0, 3.0]])",), "b": ("torch.ones(2)",),
    "N": ("3",), "M": ("5",), "window_length": ("5",), "n_fft": ("4",), "kernel_size": ("2",), "output_size": ("2", "(2, 2)"),
    "normalized_shape": ("(3,)",), "num_groups": ("1",), "target": ("torch.zeros(2, 3)", "torch.tensor([0, 2])", "torch.ones(3)"),
    "num_classes": ("4",), "upscale_factor": ("1",), "downscale_factor": ("2",), "groups": ("1",), "threshold": ("0.1",), "lambd": ("0.5",),
    "pad": ("(1, 1)",), "key": ("torch.ones(1, 3, 3)", "x"), "tensor": ("torch.tensor([1.0, 2.0])",), "equation": ("'ij->ji'",),
    "x1": ("torch.zeros(2, 3)",), "x2": ("torch.ones(2, 3)",), "input1": ("x",), "input2": ("x * 2",), "running_mean": ("torch.zeros(3)",),
    "running_var": ("torch.ones(3)",), "negative_slope": ("0.1",), "real": ("torch.tensor([1.0, 0.0])",),
    "imag": ("torch.tensor([0.0, 1.0])",), "abs": ("torch.tensor([1.0, 2.0])",), "angle": ("torch.tensor([0.0, 1.0])",), "dtype": ("torch.float16",),
    "reduce": ("'sum'",), "input2_": ("x",), "full": ("x",), "query": ("torch.ones(1, 3, 3)",), "anchor": ("x",), "positive": ("x + 1",),
    "negative": ("x - 1",), "var": ("torch.ones(2, 3)",), "log_input": ("True",), "margin": ("0.0",), "n_bins": ("3",), "spacing": ("1.0",),
}  # fmt: skip
TRIES = 40
MOST_KERNELS = 3


def _sources_digest() -> str:
    """Return a hash of all that samples depend on."""
    found = hashlib.sha256()
    for path in sorted([*(ROOT / "packages").glob("*/src/**/*.py"), Path(__file__)]):
        found.update(path.read_bytes())
    return found.hexdigest()


class Samples:
    """The samples of all entries, remembered between builds."""

    def __init__(self) -> None:
        self.digest = _sources_digest()
        kept = json.loads(CACHE.read_text(encoding="utf-8")) if CACHE.exists() else {}
        self.kept: dict[str, Any] = kept["samples"] if kept.get("digest") == self.digest else {}

    def of(self, entry: Entry) -> dict[str, Any] | None:
        """Return ``code``, ``printed``, ``gradient`` and ``kernels`` (name, NumPy, WGSL) of an operation's small call.

        Other functions have none: they may change settings.
        """
        functional = entry.module == "webgpu_torch.nn.functional" and entry.kind == "function"
        if (entry.operation is None and not functional) or entry.name.startswith("empty"):
            return None  # the elements of an empty tensor are whatever was in memory
        if entry.full_name not in self.kept:
            self.kept[entry.full_name] = _sampled(entry)
        return self.kept[entry.full_name]

    def save(self) -> None:
        """Write the samples down for the next build."""
        CACHE.parent.mkdir(exist_ok=True)
        CACHE.write_text(json.dumps({"digest": self.digest, "samples": self.kept}), encoding="utf-8")


def _calls(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield (the operand's text or nothing, the call's text), the likeliest first."""
    method = entry.kind == "method"
    needed = [
        each for each in parameters(entry.value, method)
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]  # fmt: skip
    name = entry.full_name.removeprefix("webgpu_")
    takes_input = method or (bool(needed) and needed[0].name in ("input", "self", "A", "x", "tensors", "a", "arrays"))
    rest = needed if method or not takes_input else needed[1:]
    for combination in itertools.product(*(ARGUMENTS.get(each.name, ("x",)) for each in rest)):
        given = [
            f"{each.name}={text}" if each.kind is each.KEYWORD_ONLY else text
            for each, text in zip(rest, combination, strict=True)
        ]
        if not takes_input:
            yield "", f"{name}({', '.join(given)})"
            continue
        for operand in INPUTS:
            call = f"x.{entry.name}({', '.join(given)})" if method else f"{name}({', '.join(['x', *given])})"
            yield operand, call


def _sampled(entry: Entry) -> dict[str, Any] | None:
    try:
        calls = list(itertools.islice(_calls(entry), TRIES))
    except (ValueError, TypeError):
        return None
    for operand, call in calls:
        scope: dict[str, Any] = {"torch": torch}
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scope["x"] = eval(operand, scope) if operand else None
                result, kernels = _run(call, scope)
            except Exception:
                continue
            gradient = _passes_gradient(call, scope)
        code = ([f"x = {operand}"] if operand else []) + [call]
        return {"code": code, "printed": repr(result), "gradient": gradient, "kernels": kernels}
    return None


def _run(call: str, scope: dict[str, Any]) -> tuple[Any, list[tuple[str, str, str]]]:
    """Evaluate a call on the CPU and return what came out, and the source of the kernels that it ran."""
    place = engine_for(torch.device("cpu"))
    place.plans.clear()
    plans: list[Plan] = []
    usual, engine.explain = engine.explain, lambda device, plan: plans.append(plan)
    try:
        result = eval(call, scope)
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, torch.Tensor):
                each.tolist()
    finally:
        engine.explain = usual
    steps = [step for plan in plans for step in plan.steps if isinstance(step, Step)]
    kernels = list(dict.fromkeys(step.kernel for step in steps))
    return result, [(each.name, source_of(each), _wgsl(each)) for each in kernels[:MOST_KERNELS]]


def _wgsl(kernel: Any) -> str:
    try:
        return text_of(generate(kernel, PLAIN_ADAPTER))
    except Exception as error:
        return f"// not on an adapter with default limits: {error}"


def _passes_gradient(call: str, scope: dict[str, Any]) -> bool | None:
    """Return whether the result of a call on real numbers follows them with a gradient; None where it has no say."""
    operand = scope["x"]
    if not isinstance(operand, torch.Tensor) or not (operand.is_floating_point() or operand.is_complex()):
        return None
    try:
        result = eval(call, scope | {"x": operand.detach().clone().requires_grad_(True)})
    except Exception:
        return None
    found = result if isinstance(result, tuple | list) else (result,)
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in found)
