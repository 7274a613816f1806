"""Which cases run at once and which in the slow run only: on a software GPU each new kernel takes its compiler tens of ms."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

# The compiler of Mesa's software GPU takes longer to optimise a kernel than a test takes to run it.
os.environ.setdefault("GALLIVM_PERF", "nopt")
# As many processes as cores run tests: threads of theirs would wait for each other.
for variable in ("LP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Kernels that are compiled beside NumPy take over at no certain time; tests of compiled ones wait for them.
os.environ.setdefault("WEBGPU_TORCH_CPU_JIT", "0")
# A shell that starts tests in the background has them ignore the interrupts that some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A change is judged by cases that are the same before and after it, and not by many; the slow run, and any other, draws new ones.
# None fails for the time that it takes.
settings.register_profile("drawn", deadline=None)
settings.load_profile("drawn")
settings.register_profile("repeatable", derandomize=True, database=None, max_examples=25, deadline=None)

#: of more cases than these, one of so many runs at once, and all in the slow run: of a file on a GPU, and of a test elsewhere
FEW, SHARE = 6, 16
MANY, PART = 16, 4
#: where long sweeps are
SWEPT = ("tests/ops/", "tests/nn/")
#: where every case is one on a GPU, counted by test: each tests something else
ON_GPU = "tests/backend_wgpu/"
#: files that take long and only start other processes: begun last, they would keep one worker busy when the other is done
FIRST = tuple(
    f"tests/test_{name}.py" for name in ("packaging", "third_party_backend", "partial_installs", "misbehaving_plugins")
)
#: the suite of a GPU's kernels
SUITE = "tests/test_conformance_wgpu.py"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Have PyTorch's own test modules, which load a profile of theirs when imported, load the chosen one: later files draw by it."""
    os.environ["PYTORCH_HYPOTHESIS_PROFILE"] = settings.get_current_profile_name()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the cycle collector rest while modules are imported and tests collected, nearly all of which stays: a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what ``slow_on`` names, and what is not among the share of a long sweep that a checksum picks; order files."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    # Where a variable says that this is a service's machine, PyTorch's test modules have loaded one of theirs all the same.
    settings.load_profile(os.environ["PYTORCH_HYPOTHESIS_PROFILE"])
    if settings.get_current_profile_name() == "repeatable":
        draw_few(items)
    sweeps: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    computed: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test, _, case = item.nodeid.partition("[")
        if case and test.startswith(ON_GPU):
            sweeps[test].append(item)
        elif "webgpu" in re.split(r"[-\[\]]", case) or test.startswith(SUITE):
            sweeps[test.partition("::")[0]].append(item)
        elif case and test.startswith(SWEPT):
            computed[test].append(item)
        names = {case.removesuffix("]"), *case.removesuffix("]").split("-")}
        if any(names & set(marker.args) for marker in item.iter_markers("slow_on")):
            item.add_marker("slow")
    for groups, most, share in ((sweeps, FEW, SHARE), (computed, MANY, PART)):
        for cases in groups.values():
            for item in cases if len(cases) > most else ():
                if zlib.crc32(item.nodeid.encode()) % share:
                    item.add_marker("slow")


def draw_few(items: list[pytest.Item]) -> None:
    """Let tests that ask for more drawn cases than their profile has draw as many as it has: the slow run draws all."""
    for test in {getattr(item, "function", None) for item in items}:
        asked = getattr(test, "_hypothesis_internal_use_settings", None)
        if asked is not None and asked.max_examples > settings().max_examples:
            test._hypothesis_internal_use_settings = settings(asked, max_examples=settings().max_examples)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Take what a finished file left behind out of the cycle collector's way, too; the next begins as users' programs do."""
    if nextitem is None or nextitem.path != item.path:
        if "webgpu_torch_core" in sys.modules:
            from webgpu_torch_core import overrides

            overrides.forget_classes()
        gc.collect()
        gc.freeze()


@pytest.fixture
def no_overriding_classes() -> Iterator[None]:
    """Find and leave the library as users' programs begin: no class has overridden anything yet, and no mode is open."""
    from webgpu_torch_core import overrides

    overrides.forget_classes()
    yield
    assert not overrides.mode_stack()
    overrides.forget_classes()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested for want of a browser or of what drives it, and how to install that."""
    skipped = [each for each in terminalreporter.stats.get("skipped", ()) if each.nodeid.startswith("tests/browser/")]
    reasons = {each.longrepr[2].removeprefix("Skipped: ") for each in skipped if isinstance(each.longrepr, tuple)}
    for each in sorted(reasons):
        terminalreporter.write_line(f"NOT TESTED: {each}", red=True)


def pytest_collection_finish() -> None:
    """Take modules and collected tests out of the cycle collector's way: tests of freed memory call it often."""
    # Processes that tests start have no profile of this name.
    os.environ.pop("PYTORCH_HYPOTHESIS_PROFILE", None)
    seed_the_processor_alone()
    gc.collect()
    gc.freeze()


def seed_the_processor_alone() -> None:
    """Let PyTorch's ``manual_seed`` note nothing for accelerators that are not there: it writes down its caller's stack for each, a ms."""
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        for accelerator in (torch.cuda, torch.xpu, torch.mtia):
            accelerator.manual_seed_all = lambda seed: None
