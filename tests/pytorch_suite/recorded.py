"""pytest plugin: one line of JSON for each test, its name, outcome and the last line of its error, in the file that OUTCOMES names."""

from __future__ import annotations

import json
import os
import signal
import zlib
from collections.abc import Iterator
from types import FrameType

import pytest

PLACE = os.environ["OUTCOMES"]
#: how many tests run, chosen by their names and the seed; all where it is 0
SAMPLE, SEED = int(os.environ.get("SAMPLE", "0")), os.environ.get("SEED", "0")
#: a file with the names of the tests that run, one a line, in place of a choice
ONLY = os.environ.get("ONLY")
#: seconds of the processor's time after which a test has failed; what waits has a longer limit of its own
EACH = float(os.environ.get("EACH", "60"))
#: the file or folder whose tests run: names are those inside of it
TARGET = os.environ["TARGET"]
_outcomes: dict[str, tuple[str, str]] = {}


def _name(nodeid: str) -> str:
    return nodeid.removeprefix(TARGET).lstrip(":/")


def _write(**row: object) -> None:
    with open(PLACE, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # PyTorch's references in Python are not what a program calls.
    items[:] = [each for each in items if "_refs_" not in each.name]
    if ONLY:
        with open(ONLY, encoding="utf-8") as file:
            names = set(file.read().splitlines())
        items[:] = [each for each in items if _name(each.nodeid) in names]
    elif SAMPLE:
        chosen = set(sorted(items, key=lambda each: zlib.crc32(f"{SEED} {each.nodeid}".encode()))[:SAMPLE])
        items[:] = [each for each in items if each in chosen]
    _write(chosen=[_name(each.nodeid) for each in items])


def pytest_runtest_logstart(nodeid: str) -> None:
    # Where the process ends inside of a test this is all that is known of it.
    _write(name=_name(nodeid), outcome="failed", error="the process ended")


class TookLong(BaseException):
    """A test has used up its time: no test catches it."""


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TookLong(f"took longer than {EACH:g} s of the processor's time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    del item
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, EACH)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(name=None, outcome="not collected", error=str(report.longrepr)[-2000:])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome, error = _outcomes.get(report.nodeid, ("passed", ""))
    if report.outcome == "failed" and outcome != "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        outcome, error = "failed", str(crash.message if crash is not None else report.longrepr)[:400]
    elif outcome == "passed" and (report.outcome == "skipped" or hasattr(report, "wasxfail")):
        outcome = "skipped"
    _outcomes[report.nodeid] = (outcome, error)
    if report.when == "teardown":
        _write(name=_name(report.nodeid), outcome=outcome, error=error)
