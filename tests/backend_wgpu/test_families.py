"""Kernels that differ in sizes only share pipelines until their sizes turn out to stay."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch_backend_wgpu.codegen.wgsl import spelled
from webgpu_torch_backend_wgpu.families import (
    FAMILY_LIMIT,
    MOST_OWN,
    MOST_SIZES,
    SETTLED_ROUNDS,
    SIZES_PER_ROUND,
    Families,
)
from webgpu_torch_backend_wgpu.gpu.interface import GpuError
from webgpu_torch_backend_wgpu.program import Binding, Pass, Size
from webgpu_torch_core.record.devices import canonical_device, engine_for

BINDINGS = (Binding("operand", 0, False), Binding("output", 0, True))


def entry(*pieces: str | int | Size, workgroups: int = 1) -> Pass:
    """Return a pass of text and sizes; plain numbers are sizes of type u32."""
    made = tuple(Size(each, "u32") if isinstance(each, int) else each for each in pieces)
    source = "".join(spelled(each) if isinstance(each, Size) else each for each in made)
    return Pass("test", source, (workgroups, 1, 1), BINDINGS, (), made)


def looped(count: int, stride: int, value: int, workgroups: int = 1) -> Pass:
    return entry(
        "let a1 = 7u + ", count, "; if (i >= ", count, ") { x[i * ", stride, "] = ", Size(value, "i32"), " + 2.5; }",
        workgroups=workgroups,
    )  # fmt: skip


def test_numbers_that_differ_become_sizes() -> None:
    families = Families()
    first = looped(10, 4, 3)
    assert families.member(first, 0) is first
    second = families.member(looped(11, 4, 3, workgroups=5), 1)
    assert second.sizes == (11,)
    assert second.workgroups == (5, 1, 1)
    assert second.bindings == (*BINDINGS, Binding("sizes", 0, False))
    assert second.source.startswith("let a1 = 7u + sizes[0u].x; if (i >= sizes[0u].x) { x[i * 4u] = 3i + 2.5; }")
    assert second.source.endswith("@group(0) @binding(2) var<uniform> sizes: array<vec4<u32>, 1>;\n")
    # The same text again: nothing new to compile.
    assert families.member(looped(99, 4, 3), 2).source == second.source
    # Another number differs: from now on both are run-time values, and an equal one (12) is told apart by its history.
    third = families.member(looped(12, 12, 3), 2)
    assert third.sizes == (12, 12)
    assert "x[i * sizes[0u].y] = 3i" in third.source
    fourth = families.member(looped(5, 6, 8), 2)
    assert fourth.sizes == (5, 6, 8)
    assert "bitcast<i32>(sizes[0u].z) + 2.5" in fourth.source
    assert families.member(first, 3) is first


def test_short_and_long_passes_are_compiled_once_for_all_numbers() -> None:
    families = Families()
    first = looped(10, 10, 3)
    assert families.member(first, 0, 1) is first
    # As soon as one number differs all are run-time values; equal ones of other roles are told apart.
    second = families.member(looped(11, 10, 3), 0, 1)
    assert second.sizes == (11, 11, 10, 3)
    for count, stride, value in ((12, 7, 9), (7, 7, 7), (10, 10, 4)):
        found = families.member(looped(count, stride, value), 1, 1)
        assert (found.source, found.sizes) == (second.source, (count, count, stride, value))
    # So it is where sizes come together.
    other = Families()
    other.foresee([first, looped(11, 10, 3)])
    assert other.member(first, 0, 1).source == second.source
    assert other.member(looped(12, 7, 9), 1, 1).source == second.source
    # And where one is known of which others are expected.
    other = Families()
    other.foresee([first], several=1)
    assert other.member(first, 0, 1).source == other.member(looped(12, 7, 9), 1, 1).source == second.source
    # A text without numbers is the same in all sizes.
    plain = entry("plain()")
    other.foresee([plain], several=1)
    assert other.member(plain, 0, 1) is other.member(plain, 1, 1) is plain


def test_numbers_that_are_no_sizes_stay_as_they_are() -> None:
    families = Families()
    for outside in (-3, 1 << 31):
        families.member(looped(10, 4, outside), 0, 1)
        found = families.member(looped(11, 4, outside), 1, 1)
        assert found.sizes == (11, 11, 4)
        assert f"{outside}i + 2.5" in found.source
        # One that differs is compiled for itself.
        other = looped(10, 4, outside + 1 if outside > 0 else outside - 1)
        assert families.member(other, 2, 1) is other
        families = Families()


def test_too_many_roles_are_no_reason_to_share_nothing() -> None:
    families = Families()
    texts = [f"call_{chr(97 + number % 26) * (1 + number // 26)}(" for number in range(MOST_SIZES + 1)]

    def called(number: int) -> Pass:
        pieces = [piece for text in texts[1:] for piece in (text, 5, ") ")]
        return entry(texts[0], number, ") ", *pieces)

    families.member(called(1), 0, 1)
    assert families.member(called(2), 1, 1).sizes == (2,)


def test_sizes_of_the_first_round_are_a_networks_own() -> None:
    families = Families()
    layers = [entry("f(", size, ")") for size in range(MOST_OWN)]
    assert [families.member(each, 7) for each in layers] == layers
    # A loop that never waits for results is no network with that many layers.
    assert families.member(entry("f(", 1000, ")"), 7).sizes == (1000,)
    assert families.member(entry("f(", 2000, ")"), 8).sizes == (2000,)
    assert families.member(layers[5], 9) is layers[5]


def test_equal_numbers_share_a_place_only_while_they_are_equal() -> None:
    def called(a: int, b: int, c: int, d: int) -> Pass:
        return entry("f(", a, ", ", b, ", ", c, ", ", Size(d, "i64"), ")")

    families = Families()
    families.member(called(1, 1, 1, 1), 0)
    assert families.member(called(2, 2, 1, 2), 1).source.startswith("f(sizes[0u].x, sizes[0u].x, 1u, i64(sizes[0u].x))")
    parted = families.member(called(3, 4, 1, 3), 1)
    assert parted.source.startswith("f(sizes[0u].x, sizes[0u].y, 1u, i64(sizes[0u].x))")
    assert parted.sizes == (3, 4)


def test_numbers_of_the_generator_stay() -> None:
    families = Families()
    families.member(entry("g(5u, ", 5, ")"), 0)
    assert families.member(entry("g(5u, ", 6, ")"), 1).source.startswith("g(5u, sizes[0u].x)")


def test_what_does_not_fit_is_compiled_for_itself() -> None:
    families = Families()
    families.member(entry(*range(MOST_SIZES + 1)), 0)
    others = entry(*[number + 1 for number in range(MOST_SIZES + 1)])
    assert families.member(others, 1) is others
    families.member(entry("g(", 5, ")"), 0)
    large = entry("g(", 2147483648, ")")
    assert families.member(large, 1) is large
    # Other bindings are another family.
    alone = Pass("test", "g(6u)", (1, 1, 1), BINDINGS[:1], (), ("g(", Size(6, "u32"), ")"))
    assert families.member(alone, 1) is alone


def test_families_are_bounded() -> None:
    families = Families()
    for number in range(FAMILY_LIMIT + 10):
        families.member(entry(f"name_{number} ", 1), 0)
    assert len(families._kept) == FAMILY_LIMIT


def test_a_family_of_many_sizes_is_more_patient() -> None:
    families = Families()
    families.member(entry("f(", 0, ")"), 0)
    few = families.member(entry("f(", 1, ")"), 1).patience
    assert few is not None
    assert few() == SETTLED_ROUNDS
    for size in range(2, 1 + 5 * SIZES_PER_ROUND):
        families.member(entry("f(", size, ")"), size)
    assert few() == SETTLED_ROUNDS + 5


@pytest.fixture
def device(webgpu: None) -> Any:
    return engine_for(canonical_device("webgpu")).device


def attention_with_a_growing_cache(steps: int, device: str) -> list[Any]:
    torch.manual_seed(0)
    query = torch.randn(1, 3, 1, 12).to(device)
    keys, values = torch.randn(1, 3, 1, 12).to(device), torch.randn(1, 3, 1, 12).to(device)
    results = []
    for step in range(steps):
        keys = torch.cat([keys, keys[:, :, :1] * (0.5 + 0.01 * step)], dim=2)
        values = torch.cat([values, values[:, :, :1] + step], dim=2)
        weights = torch.softmax(query @ keys.transpose(-1, -2), dim=-1)
        results.append((weights @ values).cpu())
    return results


def test_a_growing_cache_stops_compiling(device: Any) -> None:
    attention_with_a_growing_cache(3, "webgpu")
    expected = attention_with_a_growing_cache(36, "cpu")
    before = device.statistics["programs"]
    found = attention_with_a_growing_cache(36, "webgpu")
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    # Where the layout changes (sizes that are multiples of four, teams of threads that double) other text is needed,
    # which happens ever more seldom: without sharing there would be four programs at each step.
    assert device.statistics["programs"] - before <= 36
    before = device.statistics["programs"]
    for _ in range(2):
        attention_with_a_growing_cache(36, "webgpu")
    # What came at few lengths only has settled; what comes at each is shared.
    assert device.statistics["programs"] - before <= 4


def wait_for(device: Any, programs: int) -> None:
    """Wait until more programs have been compiled than some, which nothing else waits for."""
    until = time.monotonic() + 120
    while device.statistics["programs"] <= programs and time.monotonic() < until:
        time.sleep(0.01)
        device.compiler.beside.take()


def test_sizes_that_stay_get_text_of_their_own(device: Any) -> None:
    def run(size: int) -> Any:
        return torch.softmax(torch.arange(size, dtype=torch.float32, device="webgpu") * 0.03125 + 2, 0).tolist()

    run(4321)
    expected = run(4325)
    before = device.statistics["programs"]
    results = [run(4325) for _ in range(SETTLED_ROUNDS - 1)]
    assert device.statistics["programs"] == before
    results += [run(4325) for _ in range(2)]
    wait_for(device, before)
    results += [run(4325) for _ in range(2)]
    assert all(each == expected for each in results)
    after = device.statistics["programs"]
    assert after > before
    results = [run(4325) for _ in range(8)]
    assert device.statistics["programs"] == after


def test_nobody_waits_for_text_of_its_own(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(size: int) -> Any:
        return torch.softmax(torch.arange(size, dtype=torch.float32, device="webgpu") * 0.0625 + 3, 0).tolist()

    go_on = threading.Event()
    compile_now = device.gpu.pipeline_beside
    monkeypatch.setattr(device.gpu, "pipeline_beside", lambda request: go_on.wait(120) and compile_now(request))
    run(4331)
    expected = run(4337)
    before = device.statistics["programs"]
    results = [run(4337) for _ in range(SETTLED_ROUNDS + 4)]
    assert device.statistics["programs"] == before
    go_on.set()
    wait_for(device, before)
    results += [run(4337) for _ in range(2)]
    assert device.statistics["programs"] > before
    assert all(each == expected for each in results)


def test_text_that_is_refused_stays_shared(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(size: int) -> Any:
        return torch.softmax(torch.arange(size, dtype=torch.float32, device="webgpu") * 0.125 + 5, 0).tolist()

    refused = threading.Event()

    def refuse(_request: Any) -> GpuError:
        refused.set()
        return GpuError("internal", "no more room")

    monkeypatch.setattr(device.gpu, "pipeline_beside", refuse)
    run(4341)
    expected = run(4347)
    for _ in range(SETTLED_ROUNDS + 4):
        assert run(4347) == expected
    assert refused.wait(120)
    for _ in range(4):
        assert run(4347) == expected


def test_a_captured_function_does_not_share(device: Any) -> None:
    def scaled(x: Any) -> Any:
        return (x * 1.2345 + 7).cumsum(0)

    scaled(torch.ones(2221, device="webgpu")).tolist()
    x = torch.ones(2223, device="webgpu")
    expected = scaled(x).tolist()
    captured = torch.compile(scaled)
    first = captured(x).tolist()
    assert first == expected
    captured(x).tolist()
    before = device.statistics["programs"]
    for _ in range(6):
        assert captured(x).tolist() == expected
    assert device.statistics["programs"] == before


def test_new_sizes_of_a_short_program_share_pipelines(device: Any) -> None:
    def program(rows: int) -> Any:
        x = torch.arange(rows * 33, dtype=torch.float32, device="webgpu").reshape(rows, 33)
        return torch.relu((x - 300) * 0.0625 + torch.ones(rows, 1, device="webgpu")).sum()

    before = device.statistics["programs"]
    # All of them before the host waits for any.
    found = [program(61 + number) for number in range(30)]
    expected = [sum(max((each - 300) * 0.0625 + 1, 0.0) for each in range((61 + number) * 33)) for number in range(30)]
    assert [each.item() for each in found] == pytest.approx(expected, rel=1e-5)
    assert device.statistics["programs"] - before <= 5


def test_sizes_that_come_together_share_from_the_first_on() -> None:
    families = Families()
    together = [entry("f(", size, ") + g(", 2 * size, ", 7u)") for size in (3, 5, 9)]
    families.foresee([*together, entry("alone(", 4, ")")])
    found = [families.member(each, 0, 1) for each in together]
    assert len({each.source for each in found}) == 1
    assert [each.sizes for each in found] == [(3, 6), (5, 10), (9, 18)]
    # One size is no family yet, and what is known stays as it is.
    alone = entry("alone(", 4, ")")
    assert families.member(alone, 0, 1) is alone
    families.foresee([alone, entry("alone(", 5, ")")])
    assert families.member(alone, 1, 1) is alone
