"""Writes docs/compatibility.md: what PyTorch's database of operations says of each, and every operation that is declared.

The results come from docs/compatibility.json.gz, which ``tests/conformance/run.py --record docs/compatibility.json.gz`` writes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from webgpu_torch_core.operations import OPERATIONS

TARGET = Path("docs/compatibility.md")
RECORD = Path("docs/compatibility.json.gz")
NAMESPACES = {
    "torch": "torch", "functional": "torch.nn.functional", "linalg": "torch.linalg", "special": "torch.special", "fft": "torch.fft",
    "method": "torch.Tensor",
}  # fmt: skip
INTRODUCTION = """
PyTorch tests its operations with a database of sample inputs. The conformance run (`tests/conformance/run.py`) gives the same samples to
this library and compares results, gradients for random cotangents, and the other forms of each call (methods, operators, in place, `out=`,
aliases) with PyTorch's, within PyTorch's tolerances. An operation passes only if all of its samples pass, contiguous and not. Where
rounding has cost PyTorch's own result more digits than the tolerance allows, its float64 result decides, for every operation alike: an
element passes that is within the tolerance of that, or no farther from it than PyTorch's own element is (which may itself be at most a
thousand tolerances away). Of equal elements, an operation that does not promise an order may name any. Where PyTorch's database says that
its own gradients fail PyTorch's check of them, differences of its float64 results decide.

`webgpu` was run on Mesa's llvmpipe, a Vulkan driver that computes on the CPU. It has no float64: samples that ask for it are left out (those
of `to` ask for bfloat16 instead, as PyTorch's do for its devices without it). Random streams equal PyTorch's on `cpu`; elsewhere a random
result must have the right shape and type. Rows of another device's name sum up a run elsewhere, with the database of the PyTorch there.
"""
#: devices that have columns in the table of operations; others are summed up only
SHOWN = ("cpu", "webgpu")
LEGEND = """
`grad`: results and gradients pass. `yes`: results pass, and there is nothing to differentiate. `no grad`: results pass, gradients do not.
`no`: results do not pass. `+`: a form of the call (method, in place, `out=` …) does not pass. `c`: computed by the CPU backend, with a warning.
Nothing: PyTorch has no samples of this type on the CPU, or they were not run.
"""
Results = dict[str, dict[str, dict[str, Any]]]


def columns_of(results: Results) -> list[tuple[str, str]]:
    """Return the (device, element type) pairs that were run."""
    return [(device, dtype) for device in sorted(results) for dtype in sorted(results[device], key=_order)]


def _order(dtype: str) -> tuple[bool, str]:
    return dtype != "float32", dtype


def mark(result: Any) -> str:
    """Return a result as a cell of the table."""
    if isinstance(result, str):
        return "grad" if result == "gradient" else "yes"
    if "forward" in result:
        return "no"
    text = "no grad" if "gradient" in result else "grad" if result["differentiable"] else "yes"
    return text + ("+" if "variants" in result else "") + (" c" if "fallback" in result else "")


def count(table: dict[str, Any], counts: dict[str, Any]) -> list[str]:
    """Return the cells that sum up one device and element type."""
    full = [{"differentiable": each == "gradient"} if isinstance(each, str) else each for each in table.values()]
    differentiable = [each for each in full if each["differentiable"]]
    passing = [each for each in full if "forward" not in each]
    gradients = [each for each in differentiable if "forward" not in each and "gradient" not in each]
    whole = [each for each in passing if "gradient" not in each and "variants" not in each]
    host = [each for each in passing if "fallback" in each]
    errors = counts.get("errors")
    return [
        _share(passing, full), _share(gradients, differentiable), _share(whole, full), str(len(host)),
        _samples(counts),
        f"{100 * errors[1] / errors[0]:.0f}%, {100 * errors[2] / errors[0]:.0f}% alike" if errors and errors[0] else "",
    ]  # fmt: skip


def _samples(counts: dict[str, Any]) -> str:
    if "samples" not in counts:
        return ""
    limit = f" (at most {counts['limit']} per operation)" if "limit" in counts else ""
    return f"{sum(counts['samples'][:2])}{limit}"


def _share(part: list[Any], whole: list[Any]) -> str:
    return f"{len(part)}/{len(whole)} ({100 * len(part) / max(len(whole), 1):.1f}%)"


def table_of(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Return a Markdown table."""
    return [f"| {' | '.join(each)} |" for each in (heads, ["---"] * len(heads), *rows)]


def database(record: dict[str, Any]) -> list[str]:
    """Return the lines about PyTorch's database."""
    results: Results = record["results"]
    columns = columns_of(results)
    counts = record["counts"]
    sums = [
        [device, dtype, *count(results[device][dtype], counts.get(device, {}).get(dtype, {}))]
        for device, dtype in columns
    ]
    heads = ["device", "type", "results", "gradients", "every form", "by the CPU", "samples", "error inputs that raise"]
    lines = ["## PyTorch's database of operations", INTRODUCTION, *table_of(heads, sums), LEGEND]
    reasoned, columns = columns, [each for each in columns if each[0] in SHOWN]
    names = sorted({name for device, dtype in columns for name in results[device][dtype]})
    rows = [
        [f"`{name}`", *(mark(results[device][dtype][name]) if name in results[device][dtype] else "" for device, dtype in columns)]
        for name in names
    ]  # fmt: skip
    lines += table_of(["operation", *(f"{device} {dtype}" for device, dtype in columns)], rows)
    return [*lines, "", "### What does not pass, and why", "", *reasons(results, reasoned, names)]


def reasons(results: Results, columns: list[tuple[str, str]], names: list[str]) -> list[str]:
    """Return a line for each thing that does not pass, each reason once."""
    lines = []
    for name in names:
        places: dict[str, list[str]] = {}
        for device, dtype in columns:
            result = results[device][dtype].get(name)
            if isinstance(result, dict):
                found = {form: result[form] for form in ("forward", "gradient") if form in result}
                for form, reason in {**found, **result.get("variants", {})}.items():
                    text = reason.replace("`", "'")
                    places.setdefault(f"{form.replace('_', '-')}: `{text}`", []).append(f"{device} {dtype}")
        lines += [f"- `{name}`, {', '.join(where)}; {reason}" for reason, where in places.items()]
    return lines or ["Everything passes."]


def row(operation: Any) -> list[str]:
    """Return one declared operation's cells."""
    name = f"`{NAMESPACES[operation.namespace]}.{operation.name}`"
    aliases = ", ".join(operation.aliases)
    return [name, operation.kind, "yes" if operation.method else "", operation.in_place or "", aliases]


def declared(record: dict[str, Any]) -> list[str]:
    """Return the lines about the registry."""
    shown = sorted(
        (each for each in OPERATIONS.values() if each.namespace in NAMESPACES),
        key=lambda each: (each.namespace, each.name),
    )
    lines = ["## Declared operations", "", f"{len(shown)} operations are declared in the registry."]
    new = sorted(set(OPERATIONS) - set(record["operations"]))
    if new:
        lines.append("Declared since the results above were recorded: " + ", ".join(f"`{each}`" for each in new) + ".")
    return [
        *lines,
        "",
        *table_of(["operation", "kind", "method", "in place", "aliases"], [row(each) for each in shown]),
    ]


def page() -> str:
    """Return the page."""
    empty: dict[str, Any] = {"operations": [], "results": {}, "counts": {}}
    record = json.loads(gzip.decompress(RECORD.read_bytes())) if RECORD.exists() else empty
    lines = [
        "# Compatibility",
        "",
        "This page is generated from the registry and from the recorded conformance run.",
        "",
    ]
    return "\n".join([*lines, *database(record), "", *declared(record)]) + "\n"


def main() -> None:
    """Write the page."""
    TARGET.write_text(page())


if __name__ == "__main__":
    main()
