"""``torch.utils.benchmark``: what is measured, and PyTorch's texts and tables letter by letter."""

from __future__ import annotations

import itertools
import random
import re
import time
from typing import Any

import pytest
import torch.utils.benchmark as theirs
import webgpu_torch
import webgpu_torch.utils.benchmark as ours
from webgpu_torch_core.record.devices import engine_for

BOTH = pytest.mark.parametrize("library", [theirs, ours], ids=["torch", "ours"])
STATISTICS = ("median", "mean", "iqr", "significant_figures", "has_warnings", "title", "as_row_name", "label", "env")


def measurements(library: Any, seed: int) -> list[Any]:
    draw = random.Random(seed)
    found = []
    environments = (None,) if seed % 2 else ("usual", "another one")
    kinds = itertools.product(("a label", None), (1, 4), ("x", "a longer name", None), ("n=1", "n=2"), environments)
    for label, threads, sub_label, description, env in kinds:
        if draw.random() < 0.2:
            continue
        # PyTorch rounds in float32: at most seven digits in one unit.
        base, spread = 10 ** (draw.uniform(0, 4) + seed - 7), draw.choice([0.01, 0.3, 1])
        times = [base * (1 + spread * draw.random()) * 10 for _ in range(draw.choice([1, 3, 5, 20]))]
        setup = draw.choice(["pass", "x = 1", "x = 1\ny = 2"])
        stmt = "f(x)" if sub_label else "f(x)\ng(y)"
        found.append(
            library.Measurement(
                10, times, library.TaskSpec(stmt, setup, "", label, sub_label, description, env, threads)
            )
        )
    return found


def without_address(text: str) -> str:
    return re.sub(r"^<.*Measurement object at 0x\w+>", "<>", text)


@pytest.mark.parametrize("seed", range(6))
def test_statistics_and_texts(seed: int) -> None:
    for expected, found in zip(measurements(theirs, seed), measurements(ours, seed), strict=True):
        for name in STATISTICS:
            value = getattr(expected, name)
            assert getattr(found, name) == (pytest.approx(value) if isinstance(value, float) else value), name
        assert without_address(repr(found)) == without_address(repr(expected))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("colorize", [None, False, True])
@pytest.mark.parametrize("warn", [False, True])
def test_tables(seed: int, trim: bool, colorize: bool | None, warn: bool) -> None:
    def text(library: Any) -> str:
        table = library.Compare(measurements(library, seed))
        if trim:
            table.trim_significant_figures()
        if colorize is not None:
            table.colorize(rowwise=colorize)
        if warn:
            table.highlight_warnings()
        return str(table)

    assert text(ours) == text(theirs)


def test_helpers(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in (1e-9, 3.3e-5, 1e-6, 999e-6, 1e-3, 0.5, 1.0, 1000.0):
        assert ours.select_unit(seconds) == theirs.select_unit(seconds)
        assert ours.unit_to_english(ours.select_unit(seconds)[0]) == theirs.unit_to_english(
            theirs.select_unit(seconds)[0]
        )
    for number, figures in itertools.product((3.14159, 1.0, 99.96, 0.00123, 123456.0), range(1, 5)):
        assert ours.trim_sigfig(number, figures) == pytest.approx(theirs.trim_sigfig(number, figures), rel=1e-6)
    assert ours.ordered_unique([2, 1, 2, 3, 1]) == [2, 1, 3]
    spec = ours.TaskSpec("f()", "pass")
    first, second = ours.Measurement(10, [1.0, 2.0], spec), ours.Measurement(5, [3.0], spec)
    (merged,) = ours.Measurement.merge([first, second])
    assert merged.raw_times == [0.1, 0.2, 0.6] and merged.number_per_run == 1
    ours.Compare([first]).print()
    assert "Times are in" in capsys.readouterr().out
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        ours.Compare([1])  # type: ignore[list-item]


@BOTH
def test_timer(library: Any) -> None:
    timer = library.Timer("time.sleep(0.001)", "import time", label="sleep", description="d", num_threads=2)
    found = timer.timeit(5)
    assert found.number_per_run == 5 and len(found.raw_times) == 1 and found.label == "sleep"
    assert 0.001 < found.median < 0.1 and found.num_threads == 2
    calls: list[tuple[int, float]] = []
    found = timer.blocked_autorange(callback=lambda number, seconds: calls.append((number, seconds)), min_run_time=0.02)
    assert [seconds for _, seconds in calls] == found.raw_times and sum(found.raw_times) >= 0.02
    found = timer.adaptive_autorange(threshold=5.0, max_run_time=20.0)
    assert len(found.raw_times) >= 4 and found.meets_confidence(5.0)


def test_threads_are_set_meanwhile() -> None:
    seen: list[int] = []
    before = webgpu_torch.get_num_threads()
    names = {"look": lambda: seen.append(webgpu_torch.get_num_threads())}
    ours.Timer("look()", globals=names, num_threads=before + 3).timeit(1)
    assert set(seen) == {before + 3} and webgpu_torch.get_num_threads() == before


@BOTH
def test_statements_over_several_lines(library: Any) -> None:
    seen: list[int] = []
    library.Timer(
        """
        for number in range(2):
            if number:
                seen.append(number + offset)
        """,
        """
        offset = 5
        """,
        globals={"seen": seen},
    ).timeit(1)
    assert set(seen) == {6}


@BOTH
def test_errors(library: Any) -> None:
    with pytest.raises(ValueError, match="Currently only a `str` stmt is supported."):
        library.Timer(len)
    with pytest.raises(ValueError, match="Invalid language `fortran`."):
        library.Timer("pass", language="fortran")
    with pytest.raises(ValueError, match="global_setup is C"):
        library.Timer("pass", global_setup="x")
    with pytest.raises(SyntaxError):
        library.Timer("a b")
    timer = library.Timer("no_such_name")
    with pytest.raises(NameError):
        timer.timeit(1)
    for refused in (timer.repeat, timer.autorange):
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            refused()


def test_what_is_not_there() -> None:
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        ours.Timer("pass", language="c++")
    with pytest.raises(NotImplementedError, match="not part of webgpu-torch"):
        ours.Timer("pass").collect_callgrind()


@pytest.mark.parametrize("stmt", ["x @ x", "y = x @ x", "x @ x; None", "f(x)"])
def test_results_that_nobody_reads_are_computed(stmt: str, device: str) -> None:
    """Every execution runs on the device, within the block's time."""
    x = webgpu_torch.ones(32, 32, device=device)
    engine = engine_for(x.device)
    x.tolist()
    ran = engine.statistics["kernels"]
    ours.Timer(stmt, globals={"x": x, "f": lambda x: x @ x}).timeit(10)
    assert engine.statistics["kernels"] - ran == 12
    assert not engine.kernels


def test_the_clock_waits_for_the_device(device: str) -> None:
    waited: list[str] = []
    engine = engine_for(webgpu_torch.device(device, 0 if device == "webgpu" else None))
    original = engine.device.synchronize

    def synchronize() -> None:
        waited.append(device)
        original()

    engine.device.synchronize = synchronize  # type: ignore[method-assign]
    try:
        ours.Timer("pass").timeit(3)
    finally:
        del engine.device.synchronize
    assert len(waited) == 4
    before = time.perf_counter()
    assert ours.timer() >= before
