"""The conformance run itself: samples arrive as they were, and what is wrong is found and named."""

from __future__ import annotations

import sys
import time
from typing import Any

import comparison
import pytest
import running
import variants
from database import Missing, entries, ours, torch
from run import Worker, dead
from running import TimeUp, run_entry, time_limit
from translation import Translator, to_torch

TABLE = entries()
#: answers each name with its length, dies of "bad" and never answers "slow"
ANSWERER = """
import json, sys, time
for line in sys.stdin:
    name = line.strip()
    if name == "bad": sys.exit(3)
    if name == "slow": time.sleep(60)
    print(json.dumps({"samples": len(name), "forward": "", "gradient": "", "variants": {}, "memory": 9 if name == "big" else 10**9}), flush=True)
"""


def outcome_of(monkeypatch: pytest.MonkeyPatch, name: str, function: Any, **more: Any) -> dict[str, Any]:
    monkeypatch.setattr(running, "our_function", lambda entry: function)
    return run_entry(TABLE[name], "cpu", "float32", **more)


def test_tensors_arrive_with_strides_type_and_gradient() -> None:
    base = torch.arange(24.0).reshape(2, 3, 4)
    samples = [
        base.transpose(0, 2)[1:], base[:, 1], base[:1].expand(5, 3, 4), base.to(torch.float16), base.to(torch.bfloat16), base > 3,
        torch.randn(3, 2, dtype=torch.complex64).mT, torch.empty(0, 3), torch.tensor(2.0, requires_grad=True), base.to(torch.int64),
    ]  # fmt: skip
    for each in samples:
        found = Translator("cpu")(each)
        assert found.stride() == each.stride()
        assert found.storage_offset() == each.storage_offset()
        assert found.requires_grad == each.requires_grad
        assert torch.equal(to_torch(found), each.detach())
        assert to_torch(found).dtype is each.dtype


def test_the_same_tensor_stays_the_same() -> None:
    value = torch.ones(2)
    found = Translator("cpu")({"a": [value, (value,)], "b": slice(1, None), "c": torch.float16, "d": torch.Size([2])})
    assert found["a"][0] is found["a"][1][0]
    assert (found["b"], found["c"], found["d"]) == (slice(1, None), ours.float16, ours.Size([2]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: ours.exp(x) * 1.0001, "Mismatched elements"),
        (lambda x: ours.exp(x)[None], "shape"),
        (lambda x: ours.exp(x).to(ours.float16), "torch.float16 instead of torch.float32"),
        (lambda x: [ours.exp(x)], "list instead of a tensor"),
        (lambda x: ours.exp(x) if x.is_contiguous() else x, "strides"),
        (lambda x: ours.exp(x, 1), "TypeError"),
    ],
)
def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch, function: Any, words: str) -> None:
    outcome = outcome_of(monkeypatch, "exp", function)
    assert words in outcome["forward"]
    assert outcome["gradient"].startswith("forward")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: ours.exp(x).detach(), "does not require a gradient"),
        (lambda x: ours.exp(x.detach()) + 0 * x, "gradient 0: Mismatched"),
    ],
)
def test_wrong_gradients_are_found(monkeypatch: pytest.MonkeyPatch, function: Any, words: str) -> None:
    outcome = outcome_of(monkeypatch, "exp", function)
    assert not outcome["forward"]
    assert words in outcome["gradient"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "function", "words"),
    [
        ("method", lambda x: ours.sin(x), "Mismatched"),
        ("in_place", lambda x: ours.exp(x), "the result is not the input"),
        ("in_place", lambda x: x.sin_(), "Mismatched"),
    ],
)
def test_wrong_variants_are_found(monkeypatch: pytest.MonkeyPatch, form: str, function: Any, words: str) -> None:
    name = "exp_" if form == "in_place" else "exp"
    usual = variants.our_counterpart
    monkeypatch.setattr(
        variants, "our_counterpart", lambda each, entry: function if each.__name__ == name else usual(each, entry)
    )
    outcome = run_entry(TABLE["exp"], "cpu", "float32")
    assert not outcome["forward"]
    assert words in outcome["variants"].pop(form)
    assert not any(outcome["variants"].values())


@pytest.mark.filterwarnings("ignore")
def test_wrong_outputs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "our_function", lambda entry: lambda x, out: ours.exp(x))
    assert "out alike: [0]: Mismatched" in run_entry(TABLE["exp"], "cpu", "float32")["variants"]["out"]


def test_missing_functions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(entry: Any) -> Any:
        raise Missing(f"no {entry.name}")

    monkeypatch.setattr(running, "our_function", none)
    outcome = run_entry(TABLE["exp"], "cpu", "float32")
    assert (outcome["forward"], outcome["gradient"]) == ("no exp", "forward: no exp")
    assert outcome["samples"] > 0
    assert run_entry(TABLE["jiterator_unary"], "cpu", "float32")["samples"] == 0


def test_tolerances_are_pytorchs() -> None:
    assert comparison.tolerances(TABLE["add"], torch.float32) == (1.3e-6, 1e-5)
    assert comparison.tolerances(TABLE["add"], torch.int64) == (0.0, 0.0)
    assert comparison.tolerances(TABLE["acos"], torch.float16) == (1e-3, 1e-2)


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(*_: Any) -> None:
        while True:
            pass

    with pytest.raises(TimeUp), time_limit(1):
        forever()
    assert outcome_of(monkeypatch, "exp", forever, seconds=1)["forward"] == "takes more than 1 s"


def test_processes_that_die_or_hang_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    results: dict[str, Any] = {}
    started = time.perf_counter()
    worker = Worker(["one", "bad", "big", "slow", "four"], results, [sys.executable, "-c", ANSWERER], 0.2)
    worker.run()
    assert time.perf_counter() - started < 30
    assert [results[name]["samples"] for name in ("one", "big", "four")] == [3, 3, 4]
    assert results["bad"]["forward"] == "the process died with status 3"
    assert results["slow"]["forward"] == dead("slow", -9)["forward"]
    assert "FORWARD  bad: the process died" in capsys.readouterr().out
