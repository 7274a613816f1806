"""Every name of PyTorch can be imported; what this library does not have raises when it is used, saying what to do instead."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALL = "import webgpu_torch; webgpu_torch.install_as_torch(); import torch, sys\n"
#: asks for every recorded name of some modules and prints those that cannot be had
ASK = """
import importlib, json, warnings
from webgpu_torch_drop_in import records
warnings.simplefilter("ignore")
lost, asked = [], 0
for path in records.modules():
    if not CHOSEN(path):
        continue
    module = importlib.import_module(path)
    for name, kind in records.record(path).kinds.items():
        asked += 1
        borrowed = records.record(path).borrowed.get(name, "torch")
        # PyTorch's own test suite is not recorded, and other libraries need not be installed.
        if not hasattr(module, name) and borrowed.startswith("torch") and "_internal" not in borrowed + name:
            lost.append(f"{path}.{name}")
print(json.dumps([asked, lost]))
"""


def _ask(run_code: Callable[..., str], chosen: str) -> tuple[int, list[str]]:
    asked, lost = json.loads(run_code(INSTALL + ASK.replace("CHOSEN", chosen)))
    return asked, lost


def test_names_of_public_modules(run_code: Callable[..., str]) -> None:
    """All names, public and private, of the modules below ``torch`` can be had."""
    asked, lost = _ask(run_code, "(lambda path: path.count('.') <= 1)")
    assert asked > 7000 and lost == []


@pytest.mark.slow
def test_names_of_all_modules(run_code: Callable[..., str]) -> None:
    """All names of all modules can be had."""
    asked, lost = _ask(run_code, "(lambda path: True)")
    assert asked > 50000 and lost == []


#: prints the names that PyTorch has in the modules that its own import loads
PYTORCH = """
import json, sys, types
import torch
names = {}
for path, module in list(sys.modules.items()):
    if path.partition(".")[0] == "torch" and type(module) is types.ModuleType and not path.startswith("torch.testing._internal"):
        names[path] = [name for name in vars(module) if not name.startswith("__")]
print(json.dumps([torch.__version__.partition("+")[0], names]))
"""


def test_recorded_names_are_pytorchs(tmp_path: Path) -> None:
    """The record is that of the PyTorch installed here: ``scripts/generate_names.py`` writes it."""
    pytest.importorskip("torch")
    from webgpu_torch_drop_in import records

    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTORCH], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    version, names = json.loads(ended.stdout)
    assert version == records.version()
    known = {path: records.record(path) for path in names}
    assert [path for path, record in known.items() if record is None] == []
    lost = {
        f"{path}.{name}": True for path, record in known.items() for name in names[path]
        if record is not None and name not in record.kinds
    }  # fmt: skip
    # What is neither PyTorch's nor of the standard library is not recorded, nor are texts that name files of a machine.
    assert len(lost) < 0.02 * sum(map(len, names.values())), sorted(lost)[:50]


def test_stand_ins_are_what_they_stand_for(run_code: Callable[..., str]) -> None:
    """Classes have PyTorch's bases, enumerations their members, exceptions can be raised; one object has one identity.

    Calling, instantiating and initialising the others raise NotImplementedError with the name and what to use instead.
    """
    code = """
    import enum
    from torch.fx import *
    from torch.fx.graph import Graph as other
    assert torch.fx.Graph is other is Graph and issubclass(torch.fx.GraphModule, torch.nn.Module)
    assert not isinstance(torch.nn.Linear(1, 1), torch.fx.GraphModule) and not hasattr(torch.package.PackageExporter, "no_such_method")
    from torch.distributed.checkpoint.planner import WriteItemType
    assert issubclass(WriteItemType, enum.Enum) and WriteItemType["TENSOR"] in list(WriteItemType)
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    assert issubclass(ChildFailedError, Exception)
    from torch.nn.modules.conv import ConvTranspose2d
    assert ConvTranspose2d is torch.nn.ConvTranspose2d
    from torch.functional import einsum
    assert einsum is torch.einsum
    assert torch.distributed.is_nccl_available() is False and torch.mtia.device_count() == 0
    assert torch.fft.__all__ and "fft2" in torch.fft.__all__ and "Graph" in dir(torch.fx)
    assert torch.ops.aten.add.Tensor is torch.ops.aten.add.Tensor and not hasattr(torch.ops.aten, "no_such_operation")
    assert torch.ops.aten._cudnn_rnn.default is torch.ops.aten._cudnn_rnn.default
    assert not hasattr(torch.zeros(1), "all_input_nodes") and not hasattr(torch, "no_such_name")
    def refused(function, *words):
        try:
            function()
        except NotImplementedError as error:
            assert all(word in str(error) for word in (*words, "not part of webgpu-torch")), error
        else:
            raise AssertionError("silent")
    class Mine(torch.package.PackageImporter):
        pass
    class Begun(torch.package.PackageExporter):
        def __init__(self):
            super().__init__(None)
    refused(torch.export.draft_export, "draft_export", "torch.export.export")
    refused(torch.package.PackageImporter, "PackageImporter")
    refused(Mine, "PackageImporter")
    refused(Begun, "PackageExporter")
    refused(torch.zeros(2).to_padded_tensor, "torch.Tensor.to_padded_tensor")
    refused(torch.ops.aten._cudnn_rnn.default, "_cudnn_rnn")
    """
    run_code(INSTALL + textwrap.dedent(code))


def test_functions_whose_name_a_module_has_too_stay(run_code: Callable[..., str]) -> None:
    code = """
    import warnings
    import torch.autograd.gradcheck
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    print(torch.autograd.gradcheck(torch.sin, (x,), check_forward_ad=True), "torch.autograd.gradcheck" in sys.modules)
    with warnings.catch_warnings(record=True) as caught, torch._C._DisableTorchDispatch():
        warnings.simplefilter("always")
        print(torch._functorch.deprecated.vmap(torch.sum)(torch.ones(2, 3)).tolist(), caught[0].category.__name__)
    torch._C._functorch._set_vmap_fallback_enabled(False)
    print(torch._C._functorch._is_vmap_fallback_enabled())
    """
    assert run_code(INSTALL + textwrap.dedent(code)).split("\n")[:3] == [
        "True True",
        "[3.0, 3.0] FutureWarning",
        "False",
    ]


def test_modules_inside_of_parts_are_whole(run_code: Callable[..., str]) -> None:
    """A part that is loaded when it is asked for brings modules, which have all names of PyTorch's, too."""
    assert (
        run_code("import webgpu_torch.as_torch, torch; print(torch.ao.nn.quantizable.modules.LSTM.__name__)").strip()
        == "LSTM"
    )
