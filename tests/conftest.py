"""Which cases of long sweeps run at once: on a software GPU each new kernel takes its compiler tens of milliseconds."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict

import pytest

#: a parametrised test with more cases than these on one GPU device runs one of three of them, and all in the slow run
FEW = 12
SHARE = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is not among the third of a long sweep that a checksum of its name picks."""
    sweeps: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test, _, case = item.nodeid.partition("[")
        if "webgpu" in re.split(r"[-\[\]]", case):
            sweeps[test].append(item)
    for cases in sweeps.values():
        for item in cases if len(cases) > FEW else ():
            if zlib.crc32(item.nodeid.encode()) % SHARE:
                item.add_marker("slow")
