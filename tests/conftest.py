"""Which cases run at once and which in the slow run only: on a software GPU each new kernel takes its compiler tens of ms."""

from __future__ import annotations

import gc
import re
import zlib
from collections import defaultdict

import pytest

#: of more cases on a GPU than these, one of so many runs at once, and all in the slow run
FEW = 6
SHARE = 6
#: where the cases of a file count together; those of other folders count by test
BY_FILE = ("tests/models/", "tests/examples/", "tests/huggingface/")
#: where every case is one on a GPU
ON_GPU = "tests/backend_wgpu/"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what ``slow_on`` names, and what is not among the share of a long sweep that a checksum picks."""
    sweeps: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test, _, case = item.nodeid.partition("[")
        if "webgpu" in re.split(r"[-\[\]]", case) or (case and test.startswith(ON_GPU)):
            sweeps[test.partition("::")[0] if test.startswith(BY_FILE) else test].append(item)
        names = {case.removesuffix("]"), *case.removesuffix("]").split("-")}
        if any(names & set(marker.args) for marker in item.iter_markers("slow_on")):
            item.add_marker("slow")
    for cases in sweeps.values():
        for item in cases if len(cases) > FEW else ():
            if zlib.crc32(item.nodeid.encode()) % SHARE:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Take modules and collected tests out of the cycle collector's way: tests of freed memory call it often."""
    gc.collect()
    gc.freeze()
