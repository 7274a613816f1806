"""The distributions: what each depends on, and that each combination works when installed by itself from its wheel."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "packages"
#: folder -> (import name, distributions it depends on)
LAYERS = {
    "core": ("webgpu_torch_core", {"pluggy"}),
    "backend-wgpu": ("webgpu_torch_backend_wgpu", {"webgpu-torch-core", "cffi", "wgpu"}),
    "backend-cpu": ("webgpu_torch_backend_cpu", {"webgpu-torch-core", "numpy"}),
    "nn": ("webgpu_torch_nn", {"webgpu-torch-core"}),
    "models": (
        "webgpu_torch_models",
        {"webgpu-torch-core", "webgpu-torch-nn", "tokenizers", "huggingface-hub", "tqdm"},
    ),
    "webgpu-torch": ("webgpu_torch", {"webgpu-torch-core", "webgpu-torch-nn"}),
    "tools": ("webgpu_torch_tools", {"webgpu-torch", "webgpu-torch-core", "webgpu-torch-nn"}),
    "drop-in": (
        "webgpu_torch_drop_in",
        {"webgpu-torch", "webgpu-torch-core", "webgpu-torch-nn", "webgpu-torch-tools"},
    ),
    "cli": ("webgpu_torch_cli", {"webgpu-torch", "webgpu-torch-core", "webgpu-torch-drop-in", "webgpu-torch-web"}),
    "testing": ("webgpu_torch_testing", {"webgpu-torch-core", "pytest"}),
    "serve": (
        "webgpu_torch_serve",
        {"webgpu-torch-core", "webgpu-torch-models", "prometheus-client", "starlette", "uvicorn"},
    ),
    "web": ("webgpu_torch_web", {"webgpu-torch-backend-wgpu", "webgpu-torch-core", "webgpu-torch-nn"}),
}


def project(folder: str) -> dict:
    return tomllib.loads((PACKAGES / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]


def run(command: list[str], expect: int = 0) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == expect, f"{command} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_every_package_is_known():
    assert {path.parent.name for path in PACKAGES.glob("*/pyproject.toml")} == set(LAYERS)


@pytest.mark.parametrize("folder", LAYERS)
def test_dependencies(folder):
    import_name, dependencies = LAYERS[folder]
    described = project(folder)
    assert {name_of(each) for each in described["dependencies"]} == dependencies
    assert described["version"] == project("core")["version"]
    for each in described["dependencies"]:
        if each.startswith("webgpu-torch"):
            assert each.endswith(f"=={described['version']}"), "parts of one release fit only each other"
    assert (PACKAGES / folder / "src" / import_name / "py.typed").is_file()


def test_every_distribution_is_an_extra():
    extras = project("webgpu-torch")["optional-dependencies"]
    for folder in set(LAYERS) - {"core", "nn", "webgpu-torch"}:
        name = project(folder)["name"]
        extra = name.removeprefix("webgpu-torch-").removeprefix("backend-")
        (required,) = extras[extra]
        assert re.sub(r"\[.*\]", "", required) == f"{name}=={project(folder)['version']}"


def test_extra_all_is_all():
    extras = project("webgpu-torch")["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(everything.removeprefix("webgpu-torch[").removesuffix("]").split(",")) == set(extras) - {"all"}


@pytest.mark.parametrize("folder", LAYERS)
def test_imports_are_declared(folder):
    """What a package imports of ours, it says it needs; the façade and the command line load extras when asked."""
    names = {import_name: project(each)["name"] for each, (import_name, _) in LAYERS.items()}
    import_name, dependencies = LAYERS[folder]
    used: set[str] = set()
    for path in (PACKAGES / folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used.add(node.module.partition(".")[0])
    needed = {names[each] for each in used & set(names) if each != import_name}
    optional = {
        "webgpu-torch": {"webgpu-torch-tools", "webgpu-torch-web"},
        "cli": {"webgpu-torch-serve", "webgpu-torch-models"},
    }
    assert needed - optional.get(folder, set()) <= dependencies


def test_lock_needs_only_pypi_and_not_pytorch():
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    hosts = set(re.findall(r"https?://([^/\"]+)", text))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    names = {package["name"] for package in tomllib.loads(text)["package"]}
    assert not {each for each in names if each in ("torch", "triton") or each.startswith("nvidia-")}


@pytest.mark.parametrize("module", ["webgpu_torch_core", "webgpu_torch_nn", "webgpu_torch_models", "webgpu_torch"])
def test_importing_loads_no_array_library(module):
    program = f"import sys, {module}; print(sorted({{'numpy', 'torch', 'wgpu', 'tokenizers'}} & set(sys.modules)))"
    assert run([sys.executable, "-W", "error", "-c", program]).strip() == "[]"


def test_facade_names_are_those_of_core():
    import webgpu_torch
    import webgpu_torch_core

    for name in ("Tensor", "ones", "float32", "manual_seed", "webgpu", "compile"):
        assert getattr(webgpu_torch, name) is getattr(webgpu_torch_core, name)
    for name in ("nn", "optim", "autograd", "linalg", "utils"):
        assert getattr(webgpu_torch, name).__name__ == f"webgpu_torch.{name}"


# ---- installed from wheels, into empty environments ----


@pytest.fixture(scope="module")
def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        pytest.skip("uv is not installed")
    return found


@pytest.fixture(scope="module")
def wheels(uv, tmp_path_factory) -> Path:
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("wheels")
    options = ["--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(target)]
    run([uv, "build", "--all-packages", *options])
    built = {path.name.split("-")[0] for path in target.glob("*.whl")}
    assert built == {import_name for import_name, _ in LAYERS.values()}
    return target


@pytest.fixture
def installed(uv, wheels, tmp_path):
    """Return a function that installs some of our folders with what they need, and returns the environment's Python."""

    def install(*folders: str) -> str:
        environment = tmp_path / "environment"
        run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)])
        python = str(environment / "bin" / "python")
        ours = [project(folder)["name"] for folder in folders]
        foreign = sorted({each for folder in folders for each in project(folder)["dependencies"]})
        foreign = [each for each in foreign if not each.startswith("webgpu-torch")]
        pip = [uv, "pip", "install", "--quiet", "--python", python]
        # Ours never come from an index, where somebody else might own the name; the rest never comes from the folder.
        run([*pip, "--no-index", "--no-deps", "--find-links", str(wheels), *ours])
        run([*pip, *foreign])
        run([uv, "pip", "check", "--quiet", "--python", python])
        return python

    return install


COMPUTE = """
import webgpu_torch_core as torch
device = torch.device({device!r})
assert (torch.ones(3, device=device) + 1).tolist() == [2.0, 2.0, 2.0]
"""


def test_core_alone_says_what_to_install(installed):
    python = installed("core")
    run([python, "-W", "error", "-c", COMPUTE.format(device="python")])
    said = run([python, "-c", 'import webgpu_torch_core as torch; torch.ones(3, device="cpu").tolist()'], expect=1)
    assert "RuntimeError" in said and "pip install webgpu-torch-backend-cpu" in said


def test_core_and_cpu(installed):
    python = installed("core", "backend-cpu")
    run([python, "-W", "error", "-c", COMPUTE.format(device="cpu")])
    run([python, "-c", "import webgpu_torch_core as torch; assert (torch.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]"])


def test_core_and_wgpu(installed):
    python = installed("core", "backend-wgpu")
    count = "import webgpu_torch_core as torch; print(torch.webgpu.device_count())"
    if run([python, "-c", count]).split()[-1] == "0":
        said = run([python, "-c", COMPUTE.format(device="webgpu")], expect=1)
        assert "0 device(s)" in said
    else:
        run([python, "-W", "error", "-c", COMPUTE.format(device="webgpu")])


def test_core_nn_and_cpu(installed):
    python = installed("core", "nn", "backend-cpu")
    program = (
        "import webgpu_torch_core as torch, webgpu_torch_nn as nn\n"
        "layer = nn.Linear(3, 2)\n"
        "layer(torch.ones(4, 3)).sum().backward()\n"
        "assert layer.bias.grad.tolist() == [4.0, 4.0]\n"
    )
    run([python, "-W", "error", "-c", program])


def needed(folder: str) -> list[str]:
    """Return the folders that one needs, itself included."""
    folders = {project(each)["name"]: each for each in LAYERS}
    found = {folder}
    for name in LAYERS[folder][1] & set(folders):
        found |= set(needed(folders[name]))
    return sorted(found)


@pytest.mark.parametrize("folder", LAYERS)
def test_every_wheel_is_enough_for_itself(folder, installed):
    """Installed with what it declares and nothing else, each distribution imports, all of its modules."""
    python = installed(*needed(folder))
    program = (
        "import importlib, pkgutil\n"
        f"import {LAYERS[folder][0]} as package\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if not module.name.endswith(('__main__', 'as_torch')):\n"
        "        try: importlib.import_module(module.name)\n"
        "        except ImportError as error:\n"
        "            if 'pip install' not in str(error): raise\n"
    )
    run([python, "-W", "error", "-c", program])


def test_facade_says_which_extra_to_install(installed):
    python = installed(*needed("webgpu-torch"))
    program = (
        "import webgpu_torch as torch\n"
        "assert not hasattr(torch, 'profiler') and not hasattr(torch.utils, 'benchmark')\n"
        "torch.install_as_torch()\n"
    )
    assert "pip install 'webgpu-torch[drop-in]'" in run([python, "-c", program], expect=1)
    assert "pip install 'webgpu-torch[tools]'" in run([python, "-c", "import webgpu_torch.testing"], expect=1)
    assert "pip install 'webgpu-torch[cli]'" in run([python, "-m", "webgpu_torch", "info"], expect=1)


def test_facade_with_everything(installed):
    python = installed(*LAYERS)
    run([python, "-W", "error", "-c", "import webgpu_torch as torch, webgpu_torch_models; torch.nn.Linear(1, 1)"])
    said = run([str(Path(python).with_name("webgpu-torch")), "info"])
    assert "device type cpu" in said and "device type webgpu" in said


#: what a page installs to compute with networks and models, and the most bytes that they and all of ours may take
OF_PAGES = ("webgpu_torch", "webgpu_torch_core", "webgpu_torch_nn", "webgpu_torch_backend_wgpu", "webgpu_torch_models")
MOST_OF_PAGES, MOST = 1_450_000, 2_550_000


@pytest.mark.slow
def test_packed_wheels_are_small_and_install(wheels, uv, tmp_path):
    """``make wheels`` packs them: the same files, fewer bytes."""
    pytest.importorskip("zopfli", reason="install what builds wheels: make setup")
    copies = [Path(shutil.copy(each, tmp_path)) for each in sorted(wheels.glob("*.whl"))]
    run([sys.executable, "scripts/pack_wheels.py", *map(str, copies)])
    sizes = {}
    for copy in copies:
        sizes[copy.name.partition("-")[0]] = copy.stat().st_size
        assert copy.stat().st_size < (wheels / copy.name).stat().st_size
        with zipfile.ZipFile(copy) as packed, zipfile.ZipFile(wheels / copy.name) as original:
            assert packed.testzip() is None
            assert [(each.filename, each.external_attr) for each in packed.infolist()] == [
                (each.filename, each.external_attr) for each in original.infolist()
            ]
            assert all(packed.read(each) == original.read(each) for each in original.namelist())
    assert sum(sizes[each] for each in OF_PAGES) <= MOST_OF_PAGES, sizes
    assert sum(sizes.values()) <= MOST, sizes
    run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "environment")])
    python = str(tmp_path / "environment" / "bin" / "python")
    run([uv, "pip", "install", "--quiet", "--python", python, "--no-index", "--no-deps", *map(str, copies)])
    run([python, "-c", "import webgpu_torch_drop_in.records as r; assert r.record('torch.nn').kinds['Linear'] == '@'"])
