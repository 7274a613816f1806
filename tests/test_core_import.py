"""Importing core pulls in none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_core_imports_nothing_heavy() -> None:
    code = "import sys, webgpu_torch_core; print([m for m in ('numpy', 'wgpu', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


#: what a program of the standard library alone imports: about 65 ms of processor time where core takes 50
REFERENCE = "asyncio, concurrent.futures, email.mime.text, http.server, unittest.mock, xml.dom.minidom"
COUNT = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import {names}
sys.setprofile(None)
print(calls)
"""


def _calls(names: str) -> int:
    """Return how many functions several imports call."""
    found = subprocess.run(
        [sys.executable, "-c", COUNT.format(names=names)], capture_output=True, text=True, check=True
    )
    return int(found.stdout)


def test_import_calls_little() -> None:
    """What 120 ms are where the reference takes 65, in calls: a machine with other work to do counts the same."""
    ours, reference = _calls("webgpu_torch_core"), _calls(REFERENCE)
    print(f"import webgpu_torch_core: {ours} calls, the reference {reference}")
    assert ours < reference * 120 / 65


COLLECTING = """
import gc, sys, types, weakref

class Ring:
    def __init__(self):
        self.itself = self

{before}
ring, kept = Ring(), Ring()
there, stays = weakref.ref(ring), weakref.ref(kept)
del ring
try:
    import webgpu_torch
except ImportError:
    pass
print(gc.isenabled(), gc.get_freeze_count() > 10_000, there() is None, stays() is kept)
later = Ring()
found = weakref.ref(later)
del later
gc.collect()
print(found() is None)
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", ["True", "True", "True", "True"]),
        ("gc.disable()", ["False", "False", "False", "True"]),
        # An import that fails in the middle.
        ("sys.modules['webgpu_torch.sparse'] = None", ["True", "True", "True", "True"]),
    ],
)
def test_what_is_imported_is_not_looked_at_for_garbage(before: str, told: list[str]) -> None:
    """Garbage from before is collected, and what becomes garbage later; who collects none, or fails, finds it as it was."""
    code = COLLECTING.format(before=before)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [*told, "True"]
