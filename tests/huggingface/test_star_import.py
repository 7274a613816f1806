"""``from transformers import *``: every public name of the library can be had, as with PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CODE = """
import webgpu_torch
webgpu_torch.install_as_torch()
import torch
def annotated(program: torch.export.ExportedProgram, node: torch.fx.Node | None = None) -> torch.export.Dim: ...
assert isinstance(torch.export.export(torch.nn.Linear(1, 1), (torch.ones(1, 1),)), torch.export.ExportedProgram)
assert not isinstance(torch.nn.Linear(1, 1), torch.fx.GraphModule) and not torch.onnx.is_in_onnx_export()
for missing in (torch.jit.jit_module_from_flatbuffer, torch.jit.run_frozen_optimizations):
    try:
        missing(None)
    except NotImplementedError as error:
        assert missing.__name__ in str(error), error
    else:
        raise AssertionError(f"{missing} was silent")
from torch.fx import wrap
assert wrap(annotated) is annotated and wrap("annotated") == "annotated"
from transformers import *
assert TorchExportableModuleWithStaticCache and issubclass(LlamaForCausalLM, torch.nn.Module)
print(len(globals()))
"""


@pytest.mark.slow
def test_everything_of_transformers_can_be_imported(run_code: Callable[..., str]) -> None:
    """The star import reaches every module of the library, whose annotations name what this library has not."""
    pytest.importorskip("transformers")
    assert int(run_code(CODE)) > 3000
