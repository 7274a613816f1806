"""A plan whose result is waited for goes to the GPU together with the copy of that result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import webgpu_torch as torch
from device_programs import INCREMENT, READ_X, RELU, WRITE_Y, download, kernel, one_pass, plan, upload, use
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.errors import KernelError
from webgpu_torch_backend_wgpu.program import Pass, Program
from webgpu_torch_core.record.devices import canonical_device, engine_for


def test_an_operation_and_its_result_take_one_submit(webgpu: None) -> None:
    gpu = engine_for(canonical_device("webgpu")).device.gpu
    x, total = torch.zeros(16, device="webgpu"), 0.0
    total += (x + 1)[0].item()
    before = gpu.submits
    for _ in range(20):
        x = x + 1
        total += x[0].item()
    assert gpu.submits - before == 20
    assert total == 1 + sum(range(1, 21))
    # Read again, it is here.
    before = gpu.submits
    assert (x[3:].tolist(), x.tolist()) == ([20.0] * 13, [20.0] * 16)
    assert gpu.submits - before == 0
    # What was computed while nobody asked for it is only copied.
    torch.zeros(3, device="webgpu").tolist()
    before = gpu.submits
    assert x.tolist() == [20.0] * 16
    assert gpu.submits - before == 1


# Kernels of threads that read each result run as they are called, and what they compute comes along.
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            ("run", "run", "read", "read", "first", "earlier", "write", "in place", "wide", "wrong", "wait")
        ),
        max_size=40,
    )
)
def test_results_that_come_along_are_those_of_the_last_write(webgpu: None, calls: list[str]) -> None:
    x, expected = torch.zeros(5, device="webgpu"), [0.0] * 5
    earlier, kept = x, expected
    table, place = torch.ones(4, 2, device="webgpu"), torch.full((2,), 3, device="webgpu")
    for _ in range(6):
        x, expected = x + 1, [each + 1 for each in expected]
        assert x.tolist() == expected
    for each in calls:
        if each == "run":
            earlier, kept = x, expected
            x, expected = x * 2 - x + 1, [each + 1 for each in expected]
        elif each == "read":
            assert x.tolist() == expected
            x, expected = x + 1, [each + 1 for each in expected]
        elif each == "first":
            assert x[0].item() == expected[0]
        elif each == "earlier":
            assert earlier.tolist() == kept
        elif each == "write":
            x.copy_(torch.full((5,), 7.0))
            expected = [7.0] * 5
            earlier, kept = x, expected
        elif each == "in place":
            x[1] = -1.0
            expected = [expected[0], -1.0, *expected[2:]]
            earlier, kept = x, expected
        elif each == "wide":
            assert (x.expand(3000, 5) + 0.0).sum().item() == pytest.approx(3000 * sum(expected))
        elif each == "wrong":
            wrong = torch.nn.functional.embedding(place + 1, table)
            with pytest.raises(IndexError):
                wrong.tolist()
        else:
            torch.accelerator.synchronize("webgpu")
    assert (x.tolist(), earlier.tolist()) == (expected, kept)


# What a list of calls leaves behind is read at its end: the next one begins with a buffer of its own.
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(("run", "held", "launch", "read", "other", "write", "synchronize", "allocate")), max_size=24
    )
)
def test_what_is_held_runs_before_all_that_follows(opened: Any, calls: list[str]) -> None:
    step, relu = kernel("increment", 4, initial=0), kernel("relu", 4)
    use(opened, {step: one_pass("increment", INCREMENT, 4, (WRITE_Y,)), relu: one_pass("relu", RELU, 4)})
    made = plan([(step, (0,), (0,), ())] * 40, 1)
    launch = opened.single(plan([(relu, (0,), (1,), ())], 2), (16,))
    x, other, expected = upload(opened, [0.0] * 4), upload(opened, [5.0]), 0.0
    for each in calls:
        if each == "launch":
            # What it computes is what the next calls change.
            value = SimpleNamespace(buffer=x, engine=SimpleNamespace(device=opened))
            (x,) = launch([value], ())
        elif each in ("run", "held"):
            opened.expects_read = each == "held"
            opened.run(made, [x], [])
            opened.expects_read = False
            expected += 40
        elif each == "read":
            assert download(opened, x, 4) == [expected] * 4
        elif each == "other":
            assert download(opened, other, 1) == [5.0]
        elif each == "write":
            opened.write(x, memoryview(bytes(16)))
            expected = 0.0
        elif each == "synchronize":
            opened.synchronize()
        else:
            opened.empty_cache()
            opened.allocate(1 << 12)
    assert download(opened, x, 4) == [expected] * 4


def test_what_fails_while_it_is_held_is_named(opened: Any) -> None:
    relu, broken = kernel("relu", 4), kernel("broken", 4)
    # More workgroups than the adapter runs: the command buffer is refused.
    wrong = Program((Pass("broken_pass", RELU.replace("SIZE", "4"), (70000, 1, 1), (READ_X, WRITE_Y)),), ())
    use(opened, {relu: one_pass("relu", RELU, 4), broken: wrong})
    opened.compiler.capabilities = opened.capabilities.replace(workgroups_per_dimension=1 << 20)
    x, y = upload(opened, [1.0] * 4), opened.allocate(16)
    for follows in (lambda: opened.read(y, 16), opened.synchronize):
        opened.expects_read = True
        opened.run(plan([(relu, (0,), (1,), ()), (broken, (0,), (1,), ())], 2), [x, y], [])
        opened.expects_read = False
        with pytest.raises(KernelError, match="(?s)'broken_pass' \\(operation broken\\)"):
            follows()
        opened.synchronize()
        assert download(opened, x, 4) == [1.0] * 4


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(("add", "begin", "wait", "wait for the last", "read", "wrong", "right")), max_size=30))
def test_results_are_those_of_when_reading_began(webgpu: None, calls: list[str]) -> None:
    x, table, expected = torch.zeros(3, device="webgpu"), torch.ones(4, 2, device="webgpu"), 0.0
    waiting: list[tuple[Any, list[float]]] = []
    wrong = raised = 0
    for each in [*calls, "read", *["wait"] * len(calls), "read"]:
        try:
            if each == "add":
                x.add_(1)
                expected += 1
            elif each == "begin":
                waiting.append((torch.webgpu.read_later(x), [expected] * 3))
            elif each.startswith("wait") and waiting:
                finish, then = waiting.pop(-1 if each.endswith("last") else 0)
                assert finish() == then
            elif each == "read":
                assert x.tolist() == [expected] * 3
            elif each in ("wrong", "right"):
                torch.nn.functional.embedding(torch.full((2,), 4 if each == "wrong" else 3, device="webgpu"), table)
                wrong += each == "wrong"
        except IndexError:
            raised += 1
            assert raised <= wrong
    # Nobody waited for what was wrong without being told; what is told is told once.
    assert bool(raised) == bool(wrong)


def test_what_kernels_report_comes_along_with_what_is_read_later(webgpu: None) -> None:
    gpu = engine_for(canonical_device("webgpu")).device.gpu
    table, place = torch.ones(4, 2, device="webgpu"), torch.full((2,), 3, device="webgpu")
    total = torch.nn.functional.embedding(place, table).sum()
    total.item()
    before = gpu.submits
    for _ in range(5):
        finish = torch.webgpu.read_later(torch.nn.functional.embedding(place, table).sum())
        assert finish() == 4.0
    # A submit for the kernels and one for what is read: none for reports.
    assert gpu.submits - before == 10
    finish = torch.webgpu.read_later(torch.nn.functional.embedding(place + 1, table).sum())
    with pytest.raises(IndexError):
        finish()
    assert total.item() == 4.0
