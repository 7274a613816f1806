"""Importing core pulls in none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys


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
