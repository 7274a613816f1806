"""PyTorch's bad inputs: what it refuses we refuse, with the same type of exception."""

from __future__ import annotations

from typing import Any

from database import Missing, our_function, torch
from samples import SEED, Sample
from translation import Untranslatable, to_torch


def run_errors(entry: Any, device: str) -> tuple[int, int, int, list[str]]:
    """Return how many of PyTorch's error inputs there are, how many raise here, how many with the same type, and the others."""
    if entry.error_inputs_func is None:
        return 0, 0, 0, []
    try:
        function = our_function(entry)
    except Missing:
        function = None
    total = raised = alike = 0
    others = []
    torch.manual_seed(SEED)
    for each in entry.error_inputs("cpu"):
        sample = Sample(entry, each.sample_input, device)
        impossible = ""
        try:
            sample.prepare()
        except Untranslatable:  # an element type or a layout that nobody can pass to us
            continue
        except Exception as error:  # noqa: BLE001 - such as a tensor larger than its storage
            impossible = f"untranslatable: {error}"
        try:
            sample.expected()
        except Exception as error:  # noqa: BLE001
            refused = error
        else:
            continue
        total += 1
        problem = impossible or ("no such function" if function is None else "does not raise")
        try:
            if function is not None and not impossible:
                to_torch(sample.actual(function))
        except Exception as error:  # noqa: BLE001
            raised += 1
            problem = f"{type(error).__name__} ({error})"
            if isinstance(error, type(refused)):
                alike += 1
                continue
        first = (str(refused).splitlines() or [""])[0]
        others.append(f"{problem} instead of {type(refused).__name__} ({first[:100]}) | {sample.describe()}"[:400])
    return total, raised, alike, others
