"""``torch.profiler``: what is recorded, when, and how it is shown, against PyTorch's where both record it."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.autograd.profiler
import torch.profiler
import webgpu_torch
import webgpu_torch.autograd
import webgpu_torch.profiler
from webgpu_torch.profiler import ProfilerActivity, profile, record_function
from webgpu_torch_core.backend import profiling
from webgpu_torch_core.dispatch.overrides import TorchFunctionMode, mode_stack

BOTH = pytest.mark.parametrize("library", [torch, webgpu_torch], ids=["torch", "ours"])
HOST = [ProfilerActivity.CPU]


def host_only(library: Any) -> list[Any]:
    return [library.profiler.ProfilerActivity.CPU]


def program(library: Any) -> None:
    """Operations whose names are the same in both libraries."""
    with library.profiler.record_function("outer"):
        x = library.ones(4, 3)
        y = x @ x.T
        with library.profiler.record_function("inner"):
            y.add_(1).relu()
            library.softmax(1 - y, -1)
        library.nn.functional.linear(x, x)
        library.nn.functional.conv2d(library.ones(1, 2, 5, 4), library.ones(3, 2, 2, 3))
        (y == 1).sum().item()
    library.linalg.det(library.eye(2))
    x.mul(x)


def counts(library: Any, **options: Any) -> dict[str, int]:
    with library.profiler.profile(activities=host_only(library), **options) as prof:
        program(library)
    # PyTorch records what operations call inside, too.
    names = [each.key for each in prof.events() if each.cpu_parent is None or each.cpu_parent.is_user_annotation]
    return {name: names.count(name) for name in names}


def test_public_calls_have_pytorchs_keys_and_counts() -> None:
    expected, found = counts(torch), counts(webgpu_torch)
    ours = {key: count for key, count in found.items() if not key.startswith("webgpu_torch::")}
    assert {"aten::matmul", "aten::add_", "aten::rsub", "aten::linear", "aten::eq", "aten::item", "outer"} <= set(ours)
    assert {key: expected[key] for key in ours} == ours


def test_parents_and_self_times() -> None:
    with profile(activities=HOST) as prof:
        program(webgpu_torch)
    events = {each.name: each for each in prof.events()}
    outer, inner, relu = events["outer"], events["inner"], events["aten::relu"]
    assert relu.cpu_parent is inner and inner.cpu_parent is outer and outer.cpu_parent is None
    assert outer.time_range.start <= inner.time_range.start <= inner.time_range.end <= outer.time_range.end
    assert outer.self_cpu_time_total == pytest.approx(
        outer.cpu_time_total - sum(each.cpu_time_total for each in outer.cpu_children)
    )
    roots = [each.cpu_time_total for each in prof.events() if each.cpu_parent is None]
    assert sum(roots) == pytest.approx(prof.events().self_cpu_time_total)
    assert prof.key_averages().total_average().key == "Total"


def test_running_is_told_from_recording() -> None:
    """What is recorded in a range and read after it runs after it; what nobody reads runs before the end."""
    with profile(activities=HOST) as prof:
        with record_function("recording"):
            x = webgpu_torch.ones(8).add(1)
        with record_function("reading"):
            x.tolist()
        kept = x * 3
    runs = [each for each in prof.events() if each.name == "webgpu_torch::run"]
    assert [each.cpu_parent.name for each in runs] == ["Tensor.tolist", "webgpu_torch::flush"]
    assert runs[0].cpu_parent.cpu_parent.name == "reading"
    kernels = [each for each in prof.events() if each.name.startswith("kernel::")]
    assert len(kernels) == 2 and all(each.cpu_parent in runs and each.cpu_time_total > 0 for each in kernels)
    assert kept.tolist() == [6.0] * 8


def test_kernels_of_the_device() -> None:
    if not webgpu_torch.webgpu.is_available():
        pytest.skip("no WebGPU device")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof, record_function("range"):
        x = webgpu_torch.ones(64, 64, device="webgpu")
        (x @ x).sum().item()
    kernels = [each for each in prof.events() if each.device_type is webgpu_torch.profiler.DeviceType.PrivateUse1]
    assert kernels and {each.clock for each in kernels} <= {"device", "host"}
    whole = next(each for each in prof.events() if each.name == "range")
    assert whole.device_time_total == pytest.approx(sum(each.device_time_total for each in kernels))
    table = prof.key_averages().table(sort_by="self_cuda_time_total")
    for heading in ("Self WEBGPU ", "Self WEBGPU %", "WEBGPU total", "WEBGPU time avg", "Self WEBGPU time total"):
        assert heading in table
    with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
        (x + 1).tolist()
    assert [each.device_type.name for each in prof.events()] == ["PrivateUse1"]
    with profile(activities=HOST) as prof:
        (x + 1).tolist()
    assert {each.device_type.name for each in prof.events()} == {"CPU"}


def headings(table: str) -> list[str]:
    return re.split(r" {2,}", table.splitlines()[1].strip())


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}, {"with_flops": True}, {"profile_memory": True}])
def test_table_headings(options: dict[str, Any]) -> None:
    found = []
    for library in (torch, webgpu_torch):
        with library.profiler.profile(activities=host_only(library), **options) as prof:
            x = library.ones(4, 4)
            (x @ x).sum().item()
        averages = prof.key_averages(group_by_input_shape=bool(options.get("record_shapes")))
        found.append(headings(averages.table(sort_by="cpu_time_total", row_limit=3)))
    assert found[0] == found[1]


def test_table_layout() -> None:
    """Rows, rules and totals of one made-up list are PyTorch's, letter by letter."""
    from torch.autograd.profiler_util import EventList as Theirs
    from torch.autograd.profiler_util import FunctionEvent as TheirEvent
    from webgpu_torch.autograd.profiler_util import EventList, FunctionEvent

    def text(kind: Any, event: Any, **options: Any) -> str:
        first = event(1, "aten::mm", 1, 0.0, 2500.5, input_shapes=[[2, 2]], stack=[], flops=0, overload_name="")
        second = event(2, "x" * 80, 1, 10.0, 20.0, input_shapes=[], stack=[], flops=4000, overload_name="")
        third = event(3, "aten::mm", 1, 3e6, 6e6, input_shapes=[[3]], stack=[], flops=2000, overload_name="")
        third.cpu_memory_usage = 3 << 20
        first.append_cpu_child(second)
        second.set_cpu_parent(first)
        events = kind([first, second, third], profile_memory=True, with_flops=True)
        if kind is Theirs:
            events._tree_built = True
        return events.key_averages().table(**options)

    for options in (
        {},
        {"sort_by": "count"},
        {"row_limit": 1, "header": "a header"},
        {"time_unit": "ms", "max_name_column_width": 20},
        {"top_level_events_only": True, "row_limit": -1},
    ):
        assert text(EventList, FunctionEvent, **options) == text(Theirs, TheirEvent, **options)
    assert EventList().table() == Theirs().table() == ""


def test_shapes_and_flops() -> None:
    expected: dict[str, Any] = {}
    for library in (torch, webgpu_torch):
        with library.profiler.profile(activities=host_only(library), with_flops=True) as prof:
            x, w = library.ones(4, 3), library.ones(3, 5)
            library.mm(x, w)
            library.bmm(library.ones(2, 4, 3), library.ones(2, 3, 5))
            library.addmm(library.ones(5), x, w)
            library.mul(x, x)
            library.nn.functional.conv2d(library.ones(2, 2, 5, 4), library.ones(3, 2, 2, 3), stride=2)
        names = ("aten::mm", "aten::bmm", "aten::addmm", "aten::mul", "aten::conv2d")
        found = {each.key: (each.flops, each.input_shapes) for each in prof.events() if each.key in names}
        assert len(found) == 5
        if library is torch:
            expected = found
    for name, (count, shapes) in found.items():
        assert count == expected[name][0], name
        assert shapes[:2] == expected[name][1][:2]


@BOTH
def test_schedule(library: Any) -> None:
    """Cycles as PyTorch has them: the callback's calls, the steps seen in each, and what follows the end."""
    seen: list[Any] = []

    def ready(prof: Any) -> None:
        steps = sorted(each.trace_name for each in prof.events() if each.name == "ProfilerStep*")
        seen.append((prof.step_num, steps, {each.key: each.count for each in prof.key_averages()}.get("aten::add", 0)))

    plan = library.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with library.profiler.profile(activities=host_only(library), schedule=plan, on_trace_ready=ready) as prof:
            x = library.ones(2)
            for _ in range(12):
                library.add(x, x)
                prof.step()
    assert seen == [(5, ["ProfilerStep#3", "ProfilerStep#4"], 2), (9, ["ProfilerStep#7", "ProfilerStep#8"], 2)]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 0, "warmup": 1, "active": 1, "repeat": 2},
        {"wait": 2, "warmup": 3, "active": 2, "repeat": 1, "skip_first": 4},
        {"wait": 4, "warmup": 1, "active": 2, "skip_first": 2, "skip_first_wait": 1},
    ],
)
def test_actions_of_a_schedule(given: dict[str, int]) -> None:
    theirs, ours = torch.profiler.schedule(**given), webgpu_torch.profiler.schedule(**given)
    assert [ours(step).name for step in range(40)] == [theirs(step).name for step in range(40)]


@BOTH
def test_errors(library: Any, tmp_path: Path) -> None:
    profiler = library.profiler
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments. Got wait=-1"):
        profiler.schedule(wait=-1, warmup=0, active=1)
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1."):
        profiler.schedule(wait=0, warmup=1, active=1)(-1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        profiler.schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profiler.profile(activities=[])
    unused = profiler.profile(activities=host_only(library))
    for ask in (unused.key_averages, unused.events, lambda: unused.export_chrome_trace(str(tmp_path / "x"))):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            ask()
    with profiler.profile(activities=host_only(library)) as prof:
        library.ones(2)
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="no_such_time")
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(str(tmp_path / "x"))
    with profiler.profile(activities=host_only(library), with_stack=True) as prof:
        library.ones(2)
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(tmp_path / "x"), "size")
    with pytest.raises(ValueError, match="DEVICE_STOPPED is set internally"):
        profiler.profile(schedule=lambda step: profiler.ProfilerAction.DEVICE_STOPPED)
    with pytest.raises(AssertionError, match="No activities specified"), pytest.warns(UserWarning, match="CUDA"):
        profiler.profile(activities=[profiler.ProfilerActivity.CUDA]).start()


def test_results_come_at_the_end() -> None:
    with profile(activities=HOST) as prof, pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.key_averages()


def test_chrome_trace(tmp_path: Path) -> None:
    with profile(activities=HOST, record_shapes=True, with_stack=True) as prof:
        prof.add_metadata("who", 'me "too"')
        program(webgpu_torch)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    assert trace["who"] == 'me "too"' and trace["record_shapes"] == 1 and trace["trace_id"] == prof.get_trace_id()
    complete = {each["name"]: each for each in trace["traceEvents"] if each["ph"] == "X"}
    assert complete["outer"]["cat"] == "user_annotation" and complete["aten::relu"]["cat"] == "cpu_op"
    assert complete["aten::matmul"]["args"]["Input Dims"] == [[4, 3], [3, 4]]
    assert "test_profiler.py(" in complete["aten::relu"]["args"]["Call stack"]
    for each in complete.values():
        assert each["dur"] >= 0 and isinstance(each["pid"], int) and isinstance(each["tid"], int)
    folder = tmp_path / "log"
    webgpu_torch.profiler.tensorboard_trace_handler(str(folder), "worker", use_gzip=True)(prof)
    (written,) = folder.iterdir()
    assert re.fullmatch(r"worker\.\d+\.pt\.trace\.json\.gz", written.name)
    assert json.loads(gzip.decompress(written.read_bytes()))["traceEvents"] == trace["traceEvents"]


def test_stacks(tmp_path: Path) -> None:
    with profile(activities=HOST, with_stack=True) as prof:
        webgpu_torch.ones(1000).cumsum(0)
    line = next(each for each in prof.events() if each.key == "aten::cumsum").stack[0]
    assert re.fullmatch(r".*test_profiler\.py\(\d+\): test_stacks", line)
    assert "Source Location" in prof.key_averages(group_by_stack_n=2).table()
    prof.export_stacks(str(tmp_path / "stacks"))
    assert "test_stacks" in (tmp_path / "stacks").read_text()


def test_memory() -> None:
    with profile(activities=HOST, profile_memory=True) as prof, record_function("range"):
        kept = webgpu_torch.ones(1 << 18).add(1)
        kept.sum().item()
    whole = next(each for each in prof.events() if each.name == "range")
    assert whole.cpu_memory_usage >= 1 << 20
    assert "MB" in prof.key_averages().table()


def test_parts_of_training() -> None:
    """Steps of optimisers and waits for data have PyTorch's names; what comes after a profile is not in it."""
    found: dict[str, dict[str, int]] = {}
    for library in (torch, webgpu_torch):
        model = library.nn.Linear(3, 2)
        optimizer = library.optim.SGD(model.parameters(), 0.1)
        loader = library.utils.data.DataLoader(library.ones(4, 3), batch_size=2)
        with library.profiler.profile(activities=host_only(library)) as prof:
            for batch in loader:
                optimizer.zero_grad()
                model(batch).sum().backward()
                optimizer.step()
        optimizer.step()
        found[library.__name__] = {each.key: each.count for each in prof.key_averages()}
    ours = found["webgpu_torch"]
    marks = {key: count for key, count in found["torch"].items() if "#" in key}
    assert len(marks) == 3 and {key: count for key, count in ours.items() if "#" in key} == marks
    assert ours["Tensor.backward"] == ours["aten::linear"] == 2


def test_nothing_is_left_behind() -> None:
    """After a profile, also one that an error ended, calls go straight to their functions again."""
    with pytest.raises(ValueError), profile(activities=HOST) as prof, record_function("broken"):
        webgpu_torch.ones(2).add(1)
        raise ValueError
    assert profiling.listener is None and mode_stack() == []
    assert [each.name for each in prof.events()][:2] == ["broken", "aten::ones"]
    with record_function("alone"):
        webgpu_torch.ones(2)
    assert "alone" not in {each.name for each in prof.events()}


def test_other_modes_and_order_of_closing() -> None:
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {})) * 2

    prof = profile(activities=HOST)
    prof.start()
    with Doubles():
        x = webgpu_torch.ones(2)
        prof.stop()
        assert len(mode_stack()) == 1
    assert x.tolist() == [2.0, 2.0]
    assert {"aten::ones", "aten::mul"} <= {each.name for each in prof.events()}
    assert mode_stack() == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_are_not_recorded() -> None:
    from webgpu_torch_nn.optim import optimizer

    with profile(activities=HOST) as prof:
        webgpu_torch.ones(2)
        child = os.fork()
        if not child:
            webgpu_torch.zeros(2).add(1).tolist()
            hooks = len(optimizer._global_optimizer_pre_hooks) + len(optimizer._global_optimizer_post_hooks)
            os._exit(len(prof.profiler._recorders[0].ranges) + hooks + (profiling.listener is not None))
        _, status = os.waitpid(child, 0)
        webgpu_torch.eye(2)
    assert os.waitstatus_to_exitcode(status) == 0
    names = {each.name for each in prof.events()}
    assert {"aten::ones", "aten::eye"} <= names and "aten::zeros" not in names


def test_decorator_threads_and_captured_functions() -> None:
    @record_function("decorated")
    def twice(x: Any, depth: int = 1) -> Any:
        return twice(x, depth - 1) + 1 if depth else x

    step = webgpu_torch.compile(lambda x: (x * 2).relu())
    x = webgpu_torch.ones(3)
    step(x).tolist()
    with profile(activities=HOST) as prof:
        twice(x)
        thread = threading.Thread(target=lambda: (webgpu_torch.ones(2) + 1).tolist())
        thread.start()
        thread.join()
        step(x).tolist()
    names = [each.name for each in prof.events()]
    assert names.count("decorated") == 2
    runs = [each for each in prof.events() if each.name == "webgpu_torch::run"]
    assert len({each.thread for each in runs}) == 2
    with record_function("decorated"):
        pass


def test_toggling_and_accumulating() -> None:
    with profile(activities=HOST) as prof:
        webgpu_torch.ones(2)
        prof.toggle_collection_dynamic(False, HOST)
        webgpu_torch.zeros(2)
        prof.toggle_collection_dynamic(True, HOST)
        webgpu_torch.eye(2)
    names = {each.name for each in prof.events()}
    assert {"aten::ones", "aten::eye"} <= names and "aten::zeros" not in names
    plan = webgpu_torch.profiler.schedule(wait=0, warmup=1, active=1)
    with profile(activities=HOST, schedule=plan, acc_events=True) as prof:
        for _ in range(6):
            webgpu_torch.ones(2)
            prof.step()
    assert sum(each.name == "aten::ones" for each in prof.events()) == 3


@BOTH
def test_older_profiler(library: Any) -> None:
    with library.autograd.profiler.profile(record_shapes=True) as prof:
        with library.autograd.profiler.record_function("range"):
            library.ones(3).sum()
    assert {"range", "aten::ones", "aten::sum"} <= {each.name for each in prof.function_events}
    assert prof.self_cpu_time_total > 0 and "range" in str(prof) and "Self CPU time total" in prof.table()
    assert prof.total_average().key == "Total"
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        prof.__enter__()
    assert repr(library.autograd.profiler.profile()) == "<unfinished torch.autograd.profile>"
    with library.autograd.profiler.profile(enabled=False):
        library.ones(2)
