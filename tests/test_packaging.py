"""The distributions: what each depends on, and that each combination works when installed by itself from its wheel."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from webgpu_torch_web.site.leaving_out import never_run

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
    "cli": (
        "webgpu_torch_cli",
        {"webgpu-torch", "webgpu-torch-core", "webgpu-torch-drop-in", "webgpu-torch-web", "tqdm"},
    ),
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


def run(command: list[str], expect: int = 0, seconds: int = 300) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
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
            exact = each.partition(";")[0]
            assert exact.endswith(f"=={described['version']}"), "parts of one release fit only each other"
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
        used |= set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
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


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Where environments are made one after the other: Python finds what it has compiled by the path of its source."""
    return tmp_path_factory.mktemp("installed")


@pytest.fixture
def installed(uv, wheels, place, monkeypatch):
    """Return a function that installs some of our folders with what they need, and returns the environment's Python."""
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(place / "compiled"))

    def install(*folders: str) -> str:
        environment = place / "environment"
        shutil.rmtree(environment, ignore_errors=True)
        run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)])
        python = str(environment / "bin" / "python")
        ours = [project(folder)["name"] for folder in folders]
        foreign = sorted({each for folder in folders for each in project(folder)["dependencies"]})
        foreign = [each for each in foreign if not each.startswith("webgpu-torch")]
        pip = [uv, "pip", "install", "--quiet", "--python", python]
        # Ours never come from an index, where somebody else might own the name; the rest never comes from the folder.
        run([*pip, "--no-index", "--no-deps", "--find-links", str(wheels), *ours])
        # Asked of an index only where uv has not kept them: its answers take most of the time.
        if subprocess.run([*pip, "--offline", *foreign], capture_output=True, check=False).returncode:
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


# The parts of which others are made are installed by themselves above.
@pytest.mark.slow_on("core", "backend-cpu", "nn", "webgpu-torch", "tools")
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


#: what a page installs to compute with networks and models, and the most bytes that they take, the drop-in with them, and all of ours
OF_PAGES = ("webgpu_torch", "webgpu_torch_core", "webgpu_torch_nn", "webgpu_torch_backend_wgpu", "webgpu_torch_models")
MOST_OF_PAGES, MOST_WITH_DROP_IN, MOST = 1_530_000, 1_730_000, 2_800_000


def documented(source: bytes) -> dict[str, str | None]:
    """Return the docstrings of a module, and of classes and functions in it."""
    tree = ast.parse(source)
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = {each.name: ast.get_docstring(each) for each in ast.walk(tree) if isinstance(each, kinds)}
    return found | {"": ast.get_docstring(tree)}


class Untyped(ast.NodeTransformer):
    """Takes the types of results, of parameters of methods, and of functions' variables out of a syntax tree."""

    inside = False

    def visit_FunctionDef(self, node):
        node.returns, before = None, self.inside
        self.inside = True
        self.generic_visit(node)
        self.inside = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        before, self.inside = self.inside, False
        for each in node.body:
            for one in ast.walk(each.args) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) else ():
                if isinstance(one, ast.arg):
                    one.annotation = None
        self.generic_visit(node)
        self.inside = before
        return node

    def visit_AnnAssign(self, node):
        if not self.inside or node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def program(source: bytes) -> str:
    """Return a module's syntax tree with all lines, but without docstrings, columns and types that only checks read."""
    tree = Untyped().visit(ast.parse(source))
    for each in ast.walk(tree):
        body = getattr(each, "body", None)
        if isinstance(body, list):
            # The three dots of a body without a program go, too.
            each.body = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        # The last line is that of a body that ends with a docstring, and columns are those of fewer spaces.
        for place in ("end_lineno", "end_col_offset", "col_offset"):
            vars(each).pop(place, None)
    return ast.dump(tree, include_attributes=True)


def check_packed(packed: zipfile.ZipFile, original: zipfile.ZipFile, without: set[str] = frozenset()) -> None:
    """Same files but some, same programs line by line, public docstrings, and a RECORD of what is there."""
    assert packed.testzip() is None
    assert [(each.filename, each.external_attr) for each in packed.infolist()] == [
        (each.filename, each.external_attr) for each in original.infolist() if each.filename not in without
    ]
    (record,) = [name for name in packed.namelist() if name.endswith(".dist-info/RECORD")]
    recorded = {row[0]: row[1:] for row in csv.reader(packed.read(record).decode().splitlines())}
    assert recorded.pop(record) == ["", ""] and {*recorded, record} == set(packed.namelist())
    for name, (digest, length) in recorded.items():
        data, before = packed.read(name), original.read(name)
        found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert [digest, length] == [f"sha256={found}", str(len(data))]
        if not name.endswith(".py"):
            assert data == before
            continue
        assert program(data) == program(before), name
        assert not any(kind == tokenize.COMMENT for kind, *_ in tokenize.tokenize(io.BytesIO(data).readline)), name
        if name.endswith("/__init__.py"):
            assert documented(data)[""] == documented(before)[""], name


@pytest.mark.slow
def test_packed_wheels_are_small_and_install(wheels, uv, tmp_path):
    """``make wheels`` packs them: the same programs in fewer bytes."""
    pytest.importorskip("zopfli", reason="install what builds wheels: make setup")
    copies = [Path(shutil.copy(each, tmp_path)) for each in sorted(wheels.glob("*.whl"))]
    run([sys.executable, "scripts/pack_wheels.py", *map(str, copies)], seconds=1200)
    sizes, in_pages = {}, {}
    without = never_run(dict(programs(wheels)))
    assert any("/gpu/dawn" in each for each in without) and any("/typed/" in each for each in without)
    for copy in copies:
        twin, name = copy.parent / "pages" / copy.name, copy.name.partition("-")[0]
        sizes[name], in_pages[name] = copy.stat().st_size, twin.stat().st_size
        assert copy.stat().st_size < (wheels / copy.name).stat().st_size
        with zipfile.ZipFile(copy) as packed, zipfile.ZipFile(wheels / copy.name) as original:
            check_packed(packed, original)
        with zipfile.ZipFile(twin) as packed, zipfile.ZipFile(wheels / copy.name) as original:
            check_packed(packed, original, without)
    assert sum(in_pages[each] for each in OF_PAGES) <= MOST_OF_PAGES, in_pages
    assert sum(in_pages[each] for each in (*OF_PAGES, "webgpu_torch_drop_in")) <= MOST_WITH_DROP_IN, in_pages
    assert sum(sizes.values()) <= MOST, sizes
    run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "environment")])
    python = str(tmp_path / "environment" / "bin" / "python")
    ours = (*OF_PAGES, "webgpu_torch_drop_in")
    pages = [each.parent / "pages" / each.name for each in copies if each.name.partition("-")[0] in ours]
    pip = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps"]
    run([*pip, "pluggy"])
    run([*pip, "--no-index", *map(str, pages)])
    run([python, "-W", "error", "-c", IMPORTED, *OF_PAGES])
    stands = (
        "import webgpu_torch as t; t.install_as_torch(); import torch; assert torch is t and torch.jit.ScriptModule"
    )
    run([python, "-c", stands])
    # What a page has: the names that public modules reach, and of private ones nothing else.
    names = (
        "import webgpu_torch_drop_in.records as r; kind = lambda path, name: r.record(path) and r.record(path).kinds.get(name);"
        "print(kind('torch.nn', 'Linear'), kind('torch.fx._symbolic_trace', 'Tracer'), kind('torch._inductor.ir', 'Pointwise'))"
    )
    assert run([python, "-c", names]).split() == ["@", "c", "None"]
    run([*pip, "--reinstall", "--no-index", *map(str, copies)])
    assert run([python, "-c", names]).split() == ["@", "c", "c"]
    run([python, "-c", stands])
    # Whatever the reference shows, help shows of what was installed, too.
    listed = tmp_path / "names.json"
    run([sys.executable, "-c", LISTED, str(listed)])
    here, there = (json.loads(run([each, "-c", HELPED, str(listed)])) for each in (sys.executable, python))
    common = here.keys() & there.keys()
    assert len(common) > 2000 and {name for name in common if here[name] != there[name]} == set()


def programs(wheels: Path) -> Iterator[tuple[str, str]]:
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            yield from ((each, archive.read(each).decode()) for each in archive.namelist() if each.endswith(".py"))


#: imports all modules there are, which need none of those that were left out, and computes
IMPORTED = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        try: importlib.import_module(module.name)
        except ImportError as error:
            if "pip install" not in str(error): raise
import webgpu_torch as torch
assert (torch.ones(3, device="python") + 1).tolist() == [2.0, 2.0, 2.0]
"""
LISTED = """
import json, pathlib, sys
sys.path.insert(0, "docs")
from generator.public_names import NAMESPACES, entries
names = [(module, each.name) for namespace in NAMESPACES for module in namespace.modules for each in entries(module)]
pathlib.Path(sys.argv[1]).write_text(json.dumps(names))
"""
HELPED = """
import functools, importlib, inspect, json, pathlib, re, sys
found = {}
def told(value):
    # Functions as defaults have another address each time.
    try: return re.sub(" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError): return None
for module, name in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    try:
        path = module.removesuffix(".Tensor")
        value = functools.reduce(getattr, name.split("."), getattr(importlib.import_module(path), "Tensor")
                                 if path != module else importlib.import_module(module))
    except (ImportError, AttributeError):
        continue
    if type(value).__module__ in ("builtins", "functools") or isinstance(value, type):
        found[f"{module}.{name}"] = value.__doc__, told(value)
print(json.dumps(found))
"""


def test_packing_takes_out_what_nobody_is_shown():
    pytest.importorskip("zopfli", reason="install what builds wheels: make setup")
    run([sys.executable, "-c", PACKING], seconds=60)


PACKING = '''
import sys
sys.path.insert(0, "scripts")
from pack_wheels import Shown, shortened
SOURCE = """# About the file.
\'\'\'Module.\'\'\'

def shown():  # of all
    \'\'\'Shown.

    More.
    \'\'\'
    def inner():
        \'\'\'Inner.\'\'\'
    return "# no comment", inner

class _Own:
    \'\'\'Own.\'\'\'

    size: int = 2

    def __init__(self, kind: str = "") -> None:
        \'\'\'Make.\'\'\'
        self._kind: str = kind

def other(x: int) -> int:
    y: int = x
    return y
"""
def lines(path, *names, bases=()):
    found = shortened(SOURCE, path, Shown(frozenset(names), frozenset(bases))).split("\\n")
    assert len(found) == len(SOURCE.split("\\n"))
    return {number: line for number, line in enumerate(found) if line}
shown = {3: "def shown():", 4: " \'\'\'Shown.", 6: "    More.", 7: "    \'\'\'"}
rest = {8: " def inner():", 9: "  \'\'\'Inner.\'\'\'", 10: ' return "# no comment",inner', 12: "class _Own:",
        15: " size:int=2", 17: ' def __init__(self,kind=""):', 19: "  self._kind=kind",
        21: "def other(x:int):", 22: " y=x", 23: " return y"}
assert lines("a/b.py", "shown", "Own") == shown | rest, lines("a/b.py", "shown")
assert lines("a/__init__.py", "shown") == shown | rest | {1: "\'\'\'Module.\'\'\'"}
assert lines("a/b.py") == {3: "def shown():"} | rest
made = {17: ' def __init__(self,kind:str="")->None:'}
assert lines("a/b.py", bases=["_Own"]) == {3: "def shown():"} | rest | made
assert lines("a/b.py", "other") == {3: "def shown():"} | rest | {21: "def other(x:int)->int:"}
'''
