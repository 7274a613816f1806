"""``import torch`` as this library: names, metadata, what is missing, and programs run through the command line."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

RunPython = Callable[..., subprocess.CompletedProcess[str]]

INSTALL = "import webgpu_torch; webgpu_torch.install_as_torch(); import torch, sys\n"


def _dedented(code: str) -> str:
    return INSTALL + textwrap.dedent(code)


def test_modules_are_this_librarys(run_code: Callable[..., str]) -> None:
    """``torch`` and its submodules are the same objects, however they are imported; installing twice is harmless."""
    code = """
    import importlib
    import torch.nn.functional as F
    import torch.optim.lr_scheduler
    import torch.utils.data
    from torch import nn, Tensor
    from torch.nn.modules.linear import Linear
    from torch.nn.parameter import Parameter
    from torch.utils._pytree import tree_map
    assert torch is webgpu_torch and torch.torch is torch and sys.modules["torch"] is webgpu_torch
    assert F is torch.nn.functional is webgpu_torch.nn.functional
    assert nn is torch.nn and Linear is nn.Linear is webgpu_torch.nn.Linear and Tensor is webgpu_torch.Tensor
    assert importlib.import_module("torch.linalg") is torch.linalg
    assert torch.optim.lr_scheduler.StepLR and torch.utils.data.DataLoader and tree_map
    webgpu_torch.install_as_torch()
    # Libraries patch functions where sys.modules says that they are.
    assert sys.modules["torch.nn.init"] is torch.nn.init and "torch.nn.modules.activation" in sys.modules
    assert sum(type(each).__name__ == "TorchFinder" for each in sys.meta_path) == 1
    print(float(F.relu(torch.tensor([-1.0, 2.0])).sum()))
    """
    assert run_code(_dedented(code)) == "2.0\n"


def test_version_and_class_names(run_code: Callable[..., str]) -> None:
    """The distribution's metadata, its specification and the classes' modules answer as PyTorch's would."""
    code = """
    import importlib.metadata, importlib.util, pickle, typing
    assert importlib.metadata.version("torch") == str(torch.__version__) == "2.13.0"
    assert "torch" in [each.metadata["Name"] for each in importlib.metadata.distributions(name="torch")]
    assert importlib.metadata.version("numpy") != "2.13.0"
    assert importlib.util.find_spec("torch") is not None
    assert str(type(torch.zeros(1))) == "<class 'torch.Tensor'>"
    assert str(torch.nn.Linear).startswith("<class 'torch.nn.modules.linear.")
    assert torch.nn.Parameter.__module__ == "torch.nn.parameter"
    assert type(pickle.loads(pickle.dumps(torch.nn.Linear(1, 1)))) is torch.nn.Linear
    """
    run_code(_dedented(code))


def test_missing_names_are_there_until_called(run_code: Callable[..., str]) -> None:
    """Names this library has not can be imported, annotated, subclassed and asked about; calling one raises."""
    code = """
    from torch.distributed.tensor import DTensor, distribute_tensor
    def annotated(mesh: DTensor | None = None, kinds: "list[DTensor]" = ()) -> None: ...
    class Mine(DTensor):
        def __init__(self): self.value = 3
    assert Mine().value == 3 and not isinstance(torch.zeros(1), DTensor)
    for missing in (DTensor, distribute_tensor, torch.cuda.CUDAGraph, DTensor.from_local):
        try:
            missing("cpu")
        except NotImplementedError as error:
            assert missing.__name__ in str(error) and "not part of webgpu-torch" in str(error), error
        else:
            raise AssertionError(f"{missing} was silent")
    try:
        import torch.no_such_module
    except ModuleNotFoundError as error:
        assert "torch.no_such_module" in str(error)
    else:
        raise AssertionError("found a module that does not exist")
    assert not hasattr(torch, "no_such_function") and not hasattr(torch.nn, "NoSuchModule")
    """
    run_code(_dedented(code))


def test_refuses_when_pytorch_is_loaded(run_python: RunPython, tmp_path: Path) -> None:
    """A program that has PyTorch already is told so, with both ways out."""
    (tmp_path / "torch.py").write_text("__version__ = '2.9.1'\n")
    code = "import torch, webgpu_torch; webgpu_torch.install_as_torch()"
    ended = run_python("-W", "ignore", "-c", code)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: PyTorch 2.9.1 ") and "is already imported (from " in last
    assert "before anything imports torch" in last and "python -m webgpu_torch run" in last


def test_run_passes_arguments_and_status(run_python: RunPython, tmp_path: Path) -> None:
    """``run`` gives a program its arguments, its folder on the path, ``__main__`` and its own exit status."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("import torch\nnumber = torch.ones(3).sum().item()\n")
    (tmp_path / "sub" / "program.py").write_text(
        "import sys, torch, beside\n"
        "assert __name__ == '__main__' and torch.__name__ == 'torch'\n"
        "print(sys.argv, beside.number)\nsys.exit(7)\n"
    )
    ended = run_python("-m", "webgpu_torch", "run", "sub/program.py", "--help", "-m", "3")
    assert ended.returncode == 7, ended.stderr
    assert ended.stdout == "['sub/program.py', '--help', '-m', '3'] 3.0\n"


def test_run_with_a_module(run_python: RunPython, tmp_path: Path) -> None:
    """``run -m`` runs a module as ``python -m`` does."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "tool.py").write_text("import sys, torch\nprint(torch.__name__, sys.argv[1:])\n")
    ended = run_python("-m", "webgpu_torch", "run", "-m", "package.tool", "--flag", "a")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "torch ['--flag', 'a']\n"


def test_run_errors(run_python: RunPython, tmp_path: Path) -> None:
    """A missing file is one line; an exception of the program keeps its own traceback, without this library's frames."""
    ended = run_python("-m", "webgpu_torch", "run", "missing.py")
    assert (ended.returncode, ended.stderr) == (1, "error: there is no file missing.py\n")
    ended = run_python("-m", "webgpu_torch", "run", "-m", "no_such_package.tool")
    assert (ended.returncode, ended.stderr) == (1, "error: there is no module no_such_package.tool\n")
    (tmp_path / "fails.py").write_text("def inner():\n    raise KeyError('lost')\n\ninner()\n")
    ended = run_python("-m", "webgpu_torch", "run", "fails.py")
    assert ended.returncode == 1
    assert ended.stderr.endswith("KeyError: 'lost'\n") and "line 4, in <module>" in ended.stderr
    assert "drop_in" not in ended.stderr and "runpy" not in ended.stderr and "cli" not in ended.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_started_processes_import_this_library(run_python: RunPython, tmp_path: Path, method: str) -> None:
    """A program's own processes have this library under the name of ``torch``, too, and get tensors."""
    (tmp_path / "starts.py").write_text(
        "import torch\nimport torch.multiprocessing as mp\n"
        "def work(i, queue, x):\n"
        "    queue.put((i, torch.__name__, (torch.ones(2) + x).tolist()))\n"
        "if __name__ == '__main__':\n"
        f"    queue = mp.get_context('{method}').SimpleQueue()\n"
        f"    mp.start_processes(work, (queue, torch.ones(2)), start_method='{method}')\n"
        "    print(queue.get())\n"
    )
    ended = run_python("-m", "webgpu_torch", "run", "starts.py")
    assert ended.stdout == "(0, 'torch', [2.0, 2.0])\n", ended.stderr


def test_libraries_import(run_code: Callable[..., str]) -> None:
    """The libraries import in one process, and believe that PyTorch is there."""
    for name in ("transformers", "diffusers", "peft", "accelerate", "safetensors"):
        pytest.importorskip(name)
    code = """
    import accelerate, diffusers, peft, safetensors.torch, transformers
    assert transformers.is_torch_available() and diffusers.utils.is_torch_available()
    print(transformers.LlamaForCausalLM, diffusers.UNet2DConditionModel, peft.LoraConfig, accelerate.Accelerator)
    print(transformers.Trainer)
    assert sys.modules["torch"] is webgpu_torch
    """
    assert "LlamaForCausalLM" in run_code(_dedented(code))


def test_extensions_of_pytorch_are_hidden(run_code: Callable[..., str], tmp_path: Path) -> None:
    """Packages compiled against PyTorch count as not installed: libraries that ask go on without them."""
    for name in ("torchaudio", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise OSError('libtorch.so: cannot open shared object file')\n")
        information = tmp_path / f"{name}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    code = f"""
    import importlib.metadata
    import importlib.util
    sys.path.insert(0, {str(tmp_path)!r})
    assert importlib.util.find_spec("torchaudio") is None
    assert importlib.metadata.version("other") == "1.0"
    assert "torchaudio" not in [each.name for each in importlib.metadata.distributions()]
    try:
        importlib.metadata.version("torchaudio")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        raise AssertionError
    try:
        import torchaudio
    except ModuleNotFoundError:
        print("hidden")
    """
    assert run_code(_dedented(code)) == "hidden\n"
