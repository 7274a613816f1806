"""Engines that run exported folders, one of each for all tests of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from engines import Chromium, Node


@pytest.fixture(scope="module", params=[Node, Chromium], ids=lambda kind: kind.name)
def engine(request, tmp_path_factory) -> Iterator[Node | Chromium]:
    made = request.param(tmp_path_factory.mktemp(f"export-{request.param.name}"))
    yield made
    made.close()
