"""The record of operations: every fact of an element-wise one is declared in one place, and the check of the record fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import webgpu_torch_core as torch
from webgpu_torch_core.dispatch.registry import OPERATIONS, Operation

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"

#: all that a stranger writes for an element-wise operation with every fact, and what follows from it
PROGRAM = """
import webgpu_torch_core as torch
from webgpu_torch_core.dispatch.registry import OPERATIONS
from webgpu_torch_core.ir.dtypes import bool_, int64
from webgpu_torch_core.operations.elementwise.call import elementwise
from webgpu_torch_core.tensors.tensor import Tensor


def refuse_flags(operands, promoted):
    if promoted is bool_:
        raise RuntimeError("triple of flags")


@elementwise(
    aliases=("thrice",),
    title=lambda operands: f"TripleBackward{len(operands)}",
    refuses=refuse_flags,
    rounds_numbers=True,
    takes_numbers=True,
    saves_result=True,
    result_dtype=lambda operands: operands[0].dtype if isinstance(operands[0], Tensor) else int64,
)
def triple_sum(input, other):
    'three times the sum'
    return (input + other) * 3


x = torch.tensor([1.0, 2.0], requires_grad=True)
y = triple_sum(x, 1)
print(y.tolist(), y.grad_fn.name(), y.grad_fn is x.thrice(1).grad_fn)
y.sum().backward()
print(x.grad.tolist(), torch.tensor([1.0]).thrice_(2).tolist(), torch.triple_sum if hasattr(torch, "triple_sum") else None)
try:
    triple_sum(torch.tensor([True]), True)
except RuntimeError as error:
    print(error)
print(triple_sum(1, 2).item(), OPERATIONS["triple_sum"].in_place)
half = torch.tensor([0.0], dtype=torch.float16)
print(triple_sum(half, 0.1).item() == (torch.tensor(0.1, dtype=torch.float16).double() * 3).half().item())
"""


def test_an_element_wise_operation_with_every_fact_is_one_definition() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[6.0, 9.0] TripleBackward2 False",
        "[3.0, 3.0] [9.0] None",
        "triple of flags",
        "9 triple_sum_",
        "True",
    ]


def test_an_unknown_fact_is_refused() -> None:
    from webgpu_torch_core.operations.elementwise.call import elementwise

    with pytest.raises(TypeError, match="saves_results"):
        elementwise(saves_results=True)(lambda input: input)
    assert "<lambda>" not in OPERATIONS


def test_the_check_of_the_record_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import check_operations

    assert [problem for each in OPERATIONS.values() for problem in check_operations.problems(each)] == []

    def silent(input: torch.Tensor) -> torch.Tensor:
        return input

    wrong = Operation("no_such_name", "nowhere", "unheard", silent, True, ("add",))
    found = "; ".join(check_operations.problems(wrong))
    assert "kind 'unheard'" in found and "namespace 'nowhere'" in found and "no docstring" in found
    assert "Tensor has no 'no_such_name'" in found
    taken = Operation("add", "torch", "composite", silent, False, ())
    assert any("another function" in each for each in check_operations.problems(taken))
    monkeypatch.setitem(OPERATIONS, "second", Operation("second", "torch", "composite", silent, False, ("add",)))
    assert any("'add' of namespace torch is claimed" in each for each in check_operations.claimed_twice())
