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

#: imports every module of the package and asks for every name that PyTorch's has, read from its files
ALL = """
import ast, importlib, pathlib, sys
from importlib import util
import webgpu_torch
folder = pathlib.Path(util.find_spec("functorch").origin).parent
webgpu_torch.install_as_torch()
for file in sorted(folder.rglob("*.py")):
    parts = file.relative_to(folder).with_suffix("").parts
    name = ".".join(("functorch", *(part for part in parts if part != "__init__")))
    if name.startswith("functorch.dim.") or name.startswith("functorch.einops."):
        continue  # files of which nothing is meant for others
    module = importlib.import_module(name)
    assert "webgpu_torch" in str(module.__spec__.loader), module
    for node in ast.parse(file.read_text()).body:
        if name != "functorch.dim" and isinstance(node, ast.ImportFrom) and node.module.startswith("torch"):
            for each in node.names:
                getattr(module, each.asname or each.name)
from functorch.experimental import chunk_vmap
import torch
print(chunk_vmap(torch.sum, chunks=2)(torch.ones(4, 3)).tolist())
dim = importlib.import_module("functorch.dim")
assert dim.Dim is dim.Dim and not isinstance(torch.ones(2), (dim.Dim, dim.DimList, dim.Tensor))
try:
    dim.dims(2)
except NotImplementedError as error:
    print("functorch.dim.dims" in str(error))
"""


def test_every_module_and_name_of_the_package(run_code: Callable[..., str]) -> None:
    assert run_code(ALL).split("\n")[:2] == ["[3.0, 3.0, 3.0, 3.0]", "True"]


def test_older_names_of_functions_of_functions(run_code: Callable[..., str]) -> None:
    assert run_code(CODE).strip() == "[2.0, 4.0]"
