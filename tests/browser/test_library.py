"""The library under Pyodide in Chromium: the same Python over ``navigator.gpu``."""

from __future__ import annotations

from typing import Any

import pytest

#: run in one page by the quick test: starting Python takes longer than they do
QUICK = ("tensors.py", "errors.py")
LONG = ("training.py", "large.py")


def test_the_library_computes_in_the_browser(python: Any) -> None:
    failed = {}
    for name in QUICK:
        try:
            python.run_file(name)
        except AssertionError as error:
            failed[name] = str(error)
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_programs(python: Any, name: str) -> None:
    python.run_file(name)
