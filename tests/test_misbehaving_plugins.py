"""Plugins that misbehave, installed for real: other devices work, and ``webgpu-torch info`` lists what is wrong with which."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

GOOD = """
from webgpu_torch_core.backend.interface import Backend
from webgpu_torch_core.backend.plugins import hookimpl
from webgpu_torch_core.backend.python_device import PythonDevice

class Mine(Backend):
    device_type = "mine"
    interface_version = 1

    def device_count(self):
        return 1

    def open(self, index):
        return PythonDevice()

@hookimpl
def webgpu_torch_backends():
    return [Mine()]
"""


def without(line: str) -> str:
    assert line in GOOD
    return GOOD.replace(line, "pass")


def instead(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


#: by name: the plugin's source, what ``info`` says of it, and what asking for its device says (None: it works)
AT_LOAD = {
    "exits": ("import sys; sys.exit('no driver')", "SystemExit: no driver"),
    "raises": ("raise OSError('libfast.so: cannot open')", "OSError: libfast.so: cannot open"),
    "imports_what_is_missing": ("import no_such_driver", "ModuleNotFoundError: No module named 'no_such_driver'"),
    "syntax": ("def (", "SyntaxError"),
    "empty": ("", "it has no function webgpu_torch_backends marked with @hookimpl"),
    "unmarked": (without("@hookimpl"), "its webgpu_torch_backends is not marked with @hookimpl"),
    "misspelt": (instead("def webgpu_torch_backends", "def webgpu_torch_backend"), "unknown hook 'webgpu_torch_backend'"),
    "none": (instead("return [Mine()]", "return None"), "its webgpu_torch_backends returned None"),
    "nothing": (instead("return [Mine()]", "return []"), "its webgpu_torch_backends returned an empty list"),
    "one": (instead("return [Mine()]", "return Mine()"), "its webgpu_torch_backends returned a Mine, expected a list"),
    "argument": (instead("backends():", "backends(which):"), "PluginValidationError"),
    "hook_raises": (instead("return [Mine()]", "raise KeyError('driver')"), "KeyError: 'driver'"),
    "class": (instead("return [Mine()]", "return [Mine]"), "which is no instance of Backend"),
    "no_backend": (instead("class Mine(Backend)", "class Mine"), "which is no instance of Backend"),
    "abstract": (without("def open(self, index):\n        return PythonDevice()"), "TypeError: Can't instantiate abstract"),
    "no_type": (without('device_type = "mine"'), "Mine.device_type must be the name of a device type, got None"),
    "number": (instead('"mine"', "3"), "Mine.device_type must be the name of a device type, got 3"),
    "with_index": (instead('"mine"', '"bad:1"'), "must be a name like 'fast', without an index, got 'bad:1'"),
    "meta": (instead('"mine"', '"meta"'), "claims the device type 'meta', which belongs to webgpu-torch-core"),
    "python": (instead('"mine"', '"python"'), "claims the device type 'python', which belongs to webgpu-torch-core"),
    "raising_type": (
        instead('device_type = "mine"', "device_type = property(lambda self: 1 / 0)"), "ZeroDivisionError"
    ),
    "no_version": (without("interface_version = 1"), "set interface_version = 1 in the class"),
    "newer": (instead("interface_version = 1", "interface_version = 99"), "has version 1; upgrade webgpu-torch-core"),
    "older": (instead("interface_version = 1", "interface_version = 0"), "has version 1; upgrade misbehaving-older"),
}  # fmt: skip
IN_USE = {
    "count_raises": (
        instead("return 1", "raise OSError('bus error')"), "device_count() of 'mine' raised OSError: bus error",
        "device_count() of 'mine' raised OSError: bus error",
    ),
    "count_none": (
        instead("return 1", "return None"), "device_count() of 'mine' returned None",
        "device_count() of 'mine' returned None, expected a number of devices",
    ),
    "count_exits": (
        instead("return 1", "raise SystemExit(3)"), "device_count() of 'mine' raised SystemExit: 3",
        "device_count() of 'mine' raised SystemExit: 3",
    ),
    "describe_raises": (
        GOOD + "    \nMine.describe = lambda self: 1 / 0", "describe() of 'mine' raised ZeroDivisionError", None,
    ),
    "describe_none": (GOOD + "    \nMine.describe = lambda self: None", "describe() of 'mine' raised", None),
    "open_raises": (
        instead("return PythonDevice()", "raise OSError('in use')"), "device type mine: misbehaving-open_raises",
        "OSError: in use [device 'mine:0' is brought by misbehaving-open_raises 1.0 (misbehaving_open_raises)]",
    ),
    "open_none": (
        instead("return PythonDevice()", "return None"), "device type mine: misbehaving-open_none",
        "opening 'mine:0' returned None, expected a Device",
    ),
    "open_exits": (
        instead("return PythonDevice()", "raise SystemExit"), "device type mine: misbehaving-open_exits",
        "opening 'mine:0' of misbehaving-open_exits 1.0 (misbehaving_open_exits) raised SystemExit",
    ),
    "types_by_name": (
        instead("return PythonDevice()", "device = PythonDevice(); device.dtypes = ('float32',); return device"),
        "device type mine: misbehaving-types_by_name", "dtypes of 'mine:0' must be a set of the element types",
    ),
    "types_none": (
        instead("return PythonDevice()", "device = PythonDevice(); device.dtypes = None; return device"),
        "device type mine: misbehaving-types_none", "dtypes of 'mine:0' must be a set of the element types",
    ),
    "complex_types": (
        instead("return PythonDevice()", "import webgpu_torch_core as t; d = PythonDevice(); d.dtypes = {t.complex64}; return d"),
        "device type mine: misbehaving-complex_types", "without complex ones, which are pairs of float32",
    ),
}  # fmt: skip

PROGRAM = """
import json, sys
import webgpu_torch_core as torch
from webgpu_torch_core.backend.plugins import describe

def asked(place):
    try:
        return (torch.ones(2, device=place) * 2).tolist()
    except Exception as error:
        return f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}".replace("'[", "[").replace('"', "")

first = torch.zeros(1).device.type
print(json.dumps([first, *[asked(each) for each in ("python", "cpu", *sys.argv[1:])], describe()]))
"""


def install(folder, name: str, source: str) -> None:
    """Write a distribution with an entry point as an installer would."""
    (folder / f"misbehaving_{name}.py").write_text(textwrap.dedent(source))
    about = folder / f"misbehaving_{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: misbehaving-{name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[webgpu_torch]\n{name} = misbehaving_{name}\n")


def outcome(folder, *places: str) -> tuple[list, str]:
    """Return what a program got from each device and from ``describe``, and what it wrote to stderr."""
    path = os.pathsep.join([str(folder), *(each for each in sys.path if each)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *places], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Install all of them at once, those that load as device types of their own; return what each device gave, and info."""
    folder = tmp_path_factory.mktemp("site")
    for name, (source, _) in AT_LOAD.items():
        install(folder, name, source)
    for name, (source, *_) in IN_USE.items():
        install(folder, name, source.replace('"mine"', f'"{name}"'))
    (default, python, cpu, *asked, info), stderr = outcome(folder, "mine", *IN_USE)
    return (default, python, cpu), dict(zip(["mine", *IN_USE], asked, strict=True)), info, stderr


def test_other_devices_work_beside_plugins_that_misbehave(together):
    assert together[0] == ("cpu", [2.0, 2.0], [2.0, 2.0])


@pytest.mark.parametrize("name", AT_LOAD)
def test_a_plugin_that_fails_to_load_is_listed(together, name):
    _, asked, info, stderr = together
    said = f"misbehaving-{name} 1.0 (misbehaving_{name}): "
    assert asked["mine"].startswith("RuntimeError: no backend is installed for device type 'mine'")
    for text in (asked["mine"], info, stderr):
        (after,) = [part for part in text.split(said)[1:2]]
        assert AT_LOAD[name][1].replace('"', "") in after[:400].replace('"', "")


@pytest.mark.parametrize("name", IN_USE)
def test_a_plugin_that_fails_in_use_is_listed(together, name):
    _, said, refused = IN_USE[name]
    _, asked, info, _ = together
    assert said.replace("mine", name) in info
    if refused is None:
        assert asked[name] == [2.0, 2.0]
    else:
        assert refused.replace("mine", name) in asked[name]


def test_two_plugins_that_claim_one_type_affect_that_type_only(tmp_path):
    install(tmp_path, "first", GOOD)
    install(tmp_path, "second", GOOD.replace("[Mine()]", "[Mine(), Other()]") + OTHER)
    install(tmp_path, "third", GOOD)
    (default, python, cpu, mine, other, info), stderr = outcome(tmp_path, "mine", "other")
    assert (default, python, cpu, other) == ("cpu", [2.0, 2.0], [2.0, 2.0], [2.0, 2.0])
    for text in (mine, info, stderr):
        assert "3 backends claim the device type 'mine'" in text
        for name in ("first", "second", "third"):
            assert f"misbehaving-{name} 1.0 (misbehaving_{name})" in text


OTHER = """
class Other(Mine):
    device_type = "other"
"""


def test_the_cpu_backend_claimed_twice_leaves_the_others(tmp_path):
    install(tmp_path, "double", GOOD.replace('"mine"', '"cpu"'))
    (default, python, cpu, info), _ = outcome(tmp_path)
    assert python == [2.0, 2.0]
    assert default != "cpu"
    assert "two backends claim the device type 'cpu'" in cpu
    assert "webgpu-torch-backend-cpu" in cpu and "misbehaving-double" in info


def test_one_good_backend_of_a_list_is_used(tmp_path):
    install(tmp_path, "mixed", GOOD.replace("[Mine()]", "[3, Mine()]"))
    (_, _, _, mine, info), _ = outcome(tmp_path, "mine")
    assert mine == [2.0, 2.0]
    assert "returned a list with 3, which is no instance of Backend" in info


def test_a_plugin_without_metadata_is_reported(tmp_path):
    install(tmp_path, "anonymous", GOOD)
    (tmp_path / "misbehaving_anonymous-1.0.dist-info" / "METADATA").unlink()
    (default, python, cpu, info), _ = outcome(tmp_path)
    assert (default, python, cpu) == ("cpu", [2.0, 2.0], [2.0, 2.0])
    assert "misbehaving_anonymous" in info


def test_the_command_line_lists_all_of_them(tmp_path):
    for name, (source, *_) in {
        **AT_LOAD,
        **{key: value for key, value in IN_USE.items() if key == "count_raises"},
    }.items():
        install(tmp_path, name, source)
    path = os.pathsep.join([str(tmp_path), *(each for each in sys.path if each)])
    done = subprocess.run(
        [sys.executable, "-m", "webgpu_torch", "info"], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for name in (*AT_LOAD, "count_raises"):
        assert f"failed: misbehaving-{name} 1.0 (misbehaving_{name}): " in done.stdout
