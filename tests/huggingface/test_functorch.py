"""The package ``functorch``, which programs import beside ``torch`` and PyTorch's distribution brings."""

from __future__ import annotations

from collections.abc import Callable

CODE = """
import warnings
import webgpu_torch
webgpu_torch.install_as_torch()
import functorch, torch
from functorch import make_functional, vmap
warnings.simplefilter("ignore")
model, parameters = make_functional(torch.nn.Linear(2, 1))
batch = torch.ones(3, 2)
assert torch.equal(vmap(lambda each: model(parameters, each))(batch), model(parameters, batch))
print(functorch.grad(lambda x: (x * x).sum())(torch.tensor([1.0, 2.0])).tolist())
"""


def test_older_names_of_functions_of_functions(run_code: Callable[..., str]) -> None:
    assert run_code(CODE).strip() == "[2.0, 4.0]"
