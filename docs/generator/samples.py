"""The example of every entry, run by the build: what it prints, and of operations what their calls tell and become.

Examples are written in tables (:mod:`.examples`) or made up from the names of parameters, so a new operation has its
example without anybody writing it. Results are kept in ``build/reference-samples.json`` until a source changes.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any
from unittest import mock

import webgpu_torch as torch
from webgpu_torch_backend_cpu.compiler import source_of
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_backend_wgpu.modules import text_of
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.record import engine
from webgpu_torch_core.record.devices import engine_for

from . import examples, measured
from .public_names import ROOT, Entry, parameters, sources_digest

CACHE = ROOT / "build" / "reference-samples.json"
#: an adapter with WebGPU's default limits and no optional feature: what every implementation has
PLAIN_ADAPTER = Capabilities(
    software=False, facts=TYPICAL["discrete"], workgroups_per_dimension=65535, invocations=256, workgroup_bytes=16384,
    storage_buffers=8, binding_bytes=128 << 20, half=False, int64=False, subgroups=False, enables_subgroups=True, matrix_units=(), subgroup_size=0,
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
#: functions that only tell something, which may be called without arguments
_TELLING = re.compile(r"(is|get|are|has|can|current|memory|max_memory|device|initial)_\w+|version|is_\w+|\w+_enabled")


class Samples:
    """The samples of all entries, remembered between builds.

    Attributes:
        failed: what is wrong with examples, a line each.
    """

    def __init__(self) -> None:
        self.digest = sources_digest(
            *(Path(module.__file__) for module in (examples, measured) if module.__file__), Path(__file__)
        )
        kept = json.loads(CACHE.read_text(encoding="utf-8")) if CACHE.exists() else {}
        self.kept: dict[str, Any] = kept["samples"] if kept.get("digest") == self.digest else {}
        self.failed: list[str] = []

    def of(self, entry: Entry, described: bool = False) -> dict[str, Any]:
        """Return what an entry's example told; an empty dictionary if it has none.

        ``ran`` is a list of (statement, what it printed); of operations ``kernels`` is a list of (name, NumPy, WGSL),
        and ``shapes``, ``types``, ``gradient`` and ``wrong`` are as :mod:`.measured` has them: neither is asked of
        a method whose function is ``described`` with them.
        """
        program = examples.written().get(entry.full_name)
        key = f"{entry.full_name} {program or ''}"
        if key not in self.kept:
            try:
                self.kept[key] = _sampled(entry, program, computes(entry) and not described)
            except examples.ExampleError as error:
                self.failed.append(str(error))
                self.kept[key] = {}
        return self.kept[key]

    def save(self) -> None:
        """Write the samples down for the next build; those that failed are tried again."""
        CACHE.parent.mkdir(exist_ok=True)
        kept = self.kept if not self.failed else {key: each for key, each in self.kept.items() if each}
        CACHE.write_text(json.dumps({"digest": self.digest, "samples": kept}), encoding="utf-8")


def computes(entry: Entry) -> bool:
    """Return whether an entry is a function of tensors."""
    return entry.kind in ("function", "method") and (
        entry.operation is not None
        or entry.module in ("webgpu_torch.nn.functional", "webgpu_torch.Tensor", "webgpu_torch.special")
        or (entry.module == "webgpu_torch" and entry.group() != "types and settings")
    )


def _calls(entry: Entry) -> Iterator[list[str]]:
    """Yield programs that call a function of tensors, the likeliest first."""
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
            yield [f"{name}({', '.join(given)})"]
            continue
        for operand in INPUTS:
            call = f"x.{entry.name}({', '.join(given)})" if method else f"{name}({', '.join(['x', *given])})"
            yield [f"x = {operand}", call]


def _made_up(entry: Entry) -> Iterator[list[str]]:
    """Yield programs that may be the example of an entry without a written one."""
    name = entry.full_name.removeprefix("webgpu_") if entry.module.startswith("webgpu_torch.") else entry.name
    name = name if entry.module != "webgpu_torch" else f"torch.{entry.name}"
    start = [] if name != entry.name else [f"from {entry.module} import {entry.name}"]
    if entry.module == "webgpu_torch.Tensor" and entry.kind in ("property", "data"):
        yield from ([f"x = {operand}", f"x.{entry.name}"] for operand in INPUTS)
    elif entry.kind == "data":
        yield [*start, name]
    elif inspect.isclass(entry.value) and issubclass(entry.value, Enum):
        yield [*start, f"list({name})"]
    elif computes(entry):
        yield from itertools.islice(_calls(entry), TRIES)
    elif entry.kind == "function" and _TELLING.fullmatch(entry.name):
        yield [*start, f"{name}()"]


def _sampled(entry: Entry, program: str | None, measures: bool) -> dict[str, Any]:
    """Run the example of an entry and what follows from it, of functions of tensors that are measured too.

    Raises:
        ExampleError: a written example cannot be shown.
    """
    if program is not None:
        return _run(entry, examples.statements(program), measures)
    if entry.name.startswith("empty"):
        return {}  # the elements of an empty tensor are whatever was in memory
    with contextlib.suppress(ValueError, TypeError):
        for each in _made_up(entry):
            with contextlib.suppress(examples.ExampleError):
                return _run(entry, each, measures)
    return {}


def _run(entry: Entry, program: list[str], measures: bool) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    if inspect.isclass(entry.value) and issubclass(entry.value, torch.nn.Module):
        with measured.seen_calls(entry.value) as shapes:
            ran = examples.run_example(entry.full_name, program, scope)
        return {"ran": ran, "shapes": shapes[0] if shapes else ""}
    if not measures:
        return {"ran": examples.run_example(entry.full_name, program, scope)}
    ran, kernels = _with_kernels(lambda: examples.run_example(entry.full_name, program, scope))
    found: dict[str, Any] = {"ran": ran, "kernels": kernels}
    call = measured.call_in(program, entry.name, entry.value, scope, entry.kind == "method")
    # Integers that stand for numbers have no other type, and no gradient.
    if call is None or any(one.is_quantized for each in call.arguments for one in measured.tensors_in(each.value)):
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found | measured.told(call, entry.operation.kind if entry.operation else None)


def _with_kernels(run: Callable[[], examples.Ran]) -> tuple[examples.Ran, list[tuple[str, str, str]]]:
    """Run something on the CPU and return what it returned, and the source of the kernels that it ran."""
    # What earlier examples left to do is none of its kernels, and that they ran one at a time no reason to plan none.
    measured.settle()
    place = engine_for(torch.device("cpu"))
    place.plans.clear()
    place.recorder.lone = 0
    plans: list[Plan] = []
    with mock.patch.object(engine, "explain", lambda device, plan: plans.append(plan)):
        result = run()
    steps = [step for plan in plans for step in plan.steps if isinstance(step, Step)]
    kernels = list(dict.fromkeys(step.kernel for step in steps))
    return result, [(each.name, source_of(each), _wgsl(each)) for each in kernels[:MOST_KERNELS]]


def _wgsl(kernel: Any) -> str:
    try:
        return text_of(generate(kernel, PLAIN_ADAPTER))
    except Exception as error:
        return f"// not on an adapter with default limits: {error}"
