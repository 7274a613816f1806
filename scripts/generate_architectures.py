"""Writes docs/huggingface-architectures.md: which of transformers' architectures agree with PyTorch.

The results come from docs/huggingface-architectures.json.gz, which
``tests/huggingface/sweep.py --record docs/huggingface-architectures.json.gz`` writes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

TARGET = Path("docs/huggingface-architectures.md")
RECORD = Path("docs/huggingface-architectures.json.gz")
KINDS = {
    "base": ("Base models", "AutoModel"),
    "lm": ("Causal language models", "AutoModelForCausalLM"),
    "seq2seq": ("Sequence-to-sequence models", "AutoModelForSeq2SeqLM"),
}
INTRODUCTION = """# Architectures of transformers

This page is generated from a recorded run of `tests/huggingface/sweep.py`. It builds model types of transformers' automatic classes
with small sizes and random weights in a process with PyTorch, and writes the checkpoint, inputs, outputs, gradients of all parameters and
generated tokens. Another process, in which `import torch` is this library, loads the checkpoint with `from_pretrained` and does the same.
transformers is unmodified. Attention is the "eager" implementation. The record is brought up to date in parts, so its rows may come from
different revisions of this library; model types that are on no list of this page have not been run yet.
"""
LEGEND = """
`forward`: the largest difference of an output, relative to the largest magnitude in that output. `gradient`: the same for the gradients of
random weights of the outputs, relative to the largest gradient of the model. Both pass within {tolerance:g}. `generation`: the tokens of
`generate` are PyTorch's, one for one: g greedy, b beam search with three beams, s greedy with a static cache (`cache_implementation="static"`).
`–`: PyTorch itself does not do it with this model. Nothing: not run.
"""
Outcome = dict[str, Any]


def passes(outcome: Outcome, form: str, tolerance: float) -> bool:
    """Return whether outputs (or gradients) agree."""
    return outcome.get(form, float("inf")) <= tolerance


def cells(outcome: Outcome | None, tolerance: float) -> list[str]:
    """Return an architecture's cells of one device: outputs, gradients, tokens."""
    if outcome is None:
        return ["", "", ""]
    if "not_built" in outcome:
        return ["–", "–", "–"]
    forward = "yes" if passes(outcome, "forward", tolerance) else "no"
    if forward == "no":
        return [forward, "no", "no" if "generation" in outcome else ""]
    if "gradient" in outcome or "gradient_error" in outcome:
        gradient = "yes" if passes(outcome, "gradient", tolerance) else "no"
    else:
        gradient = "–"
    generation = outcome.get("generation")
    if generation is None:
        return [forward, gradient, ""]
    same = "".join(mode[0] for mode, text in generation.items() if text == "same")
    wrong = "".join(mode[0] for mode, text in generation.items() if text != "same" and not text.startswith("PyTorch: "))
    return [forward, gradient, (same + (f", not {wrong}" if wrong else "")) or "–"]


def quoted(text: str) -> str:
    """Return a message as code."""
    return "`" + text.replace("`", "'") + "`"


def reasons(outcome: Outcome, tolerance: float) -> list[str]:
    """Return why what does not pass does not."""
    if "error" in outcome:
        return [f"forward: {quoted(outcome['error'])}"]
    found = [
        f"{form}: differs by {outcome[form]:.2g}"
        for form in ("forward", "gradient")
        if form in outcome and not passes(outcome, form, tolerance)
    ]
    if "gradient_error" in outcome:
        found.append(f"gradient: {quoted(outcome['gradient_error'])}")
    for mode, text in outcome.get("generation", {}).items():
        if text != "same" and not text.startswith("PyTorch: "):
            found.append(f"{mode}: {quoted(text)}")
    return found


def row(name: str, runs: dict[str, Any], tolerance: float) -> list[str]:
    """Return an architecture's cells."""
    results = [cells(run["results"].get(name), tolerance) for run in runs.values()]
    return [f"`{name.partition('.')[2]}`", *(cell for each in results for cell in each)]


def sums(device: str, run: dict[str, Any], tolerance: float) -> list[str]:
    """Return the cells that sum up one device."""
    built = [each for each in run["results"].values() if "not_built" not in each]
    good = [each for each in built if passes(each, "forward", tolerance)]
    sloped = [each for each in built if "gradient" in each or "gradient_error" in each]
    name = f"{device} ({run['adapter']})" if run.get("adapter") else device
    counts = [name, run["date"], run["torch"], run["transformers"], f"{len(good)}/{len(built)}"]
    counts.append(f"{sum(passes(each, 'gradient', tolerance) for each in good)}/{len(sloped)}")
    for mode in ("greedy", "beam", "static"):
        texts = [each.get("generation", {}).get(mode) for each in built]
        possible = [text for text in texts if text and not text.startswith("PyTorch: ")]
        counts.append(f"{possible.count('same')}/{len(possible)}" if possible else "")
    return counts


def table_of(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Return a Markdown table."""
    return [f"| {' | '.join(each)} |" for each in (heads, ["---"] * len(heads), *rows)]


def page(record: dict[str, Any]) -> str:
    """Return the page."""
    tolerance, devices = record["tolerance"], sorted(record["devices"])
    runs = {device: record["devices"][device] for device in devices}
    lines = [INTRODUCTION]
    lines += table_of(
        ["device", "date", "PyTorch", "transformers", "forward", "gradient", "greedy", "beam", "static cache"],
        [sums(device, runs[device], tolerance) for device in devices],
    )
    lines += [LEGEND.format(tolerance=tolerance)]
    names = sorted({name for run in runs.values() for name in run["results"]})
    unbuilt = {
        name: next(iter(found))
        for name in names
        if (found := {run["results"][name].get("not_built") for run in runs.values() if name in run["results"]})
        and None not in found
    }
    heads = [
        "model type",
        *(f"{device} {form}" for device in devices for form in ("forward", "gradient", "generation")),
    ]
    for kind, (title, automatic) in KINDS.items():
        rows = [row(name, runs, tolerance) for name in names if name.startswith(f"{kind}.") and name not in unbuilt]
        if rows:
            lines += [f"## {title}", "", f"Built by `{automatic}`: {len(rows)}.", "", *table_of(heads, rows), ""]
    lines += ["## What does not pass, and why", "", *failures(runs, names, tolerance), ""]
    lines += [
        "## What was not built",
        "",
        "PyTorch does not run these at the sizes and with the inputs of this test.",
        "",
    ]
    lines += [f"- `{name}`: {quoted(reason)}" for name, reason in unbuilt.items()] or ["Everything was."]
    return "\n".join(lines).rstrip() + "\n"


def failures(runs: dict[str, Any], names: list[str], tolerance: float) -> list[str]:
    """Return a line for each thing that does not pass, each reason once."""
    lines = []
    for name in names:
        places: dict[str, list[str]] = {}
        for device, run in runs.items():
            for reason in reasons(run["results"].get(name, {}), tolerance):
                places.setdefault(reason, []).append(device)
        lines += [f"- `{name}`, {', '.join(where)}; {reason}" for reason, where in places.items()]
    return lines or ["Everything that was run passes."]


def main() -> None:
    """Write the page."""
    if RECORD.exists():
        TARGET.write_text(page(json.loads(gzip.decompress(RECORD.read_bytes()))))


if __name__ == "__main__":
    main()
