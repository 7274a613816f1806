"""Finding backends: conflicts, broken plugins, missing ones."""

from __future__ import annotations

import threading

import pytest
from webgpu_torch_core import plugins
from webgpu_torch_core.backend.interface import INTERFACE_VERSION, Backend
from webgpu_torch_core.backend.plugins import Origin, Registry, hookimpl
from webgpu_torch_core.backend.python_device import PythonDevice


class FakeBackend(Backend):
    interface_version = INTERFACE_VERSION

    def __init__(self, device_type, count=1):
        self.device_type = device_type
        self.count = count
        self.opened = []

    def device_count(self):
        return self.count

    def open(self, index):
        self.opened.append(index)
        return PythonDevice()


class Plugin:
    def __init__(self, *backends):
        self.backends = list(backends)

    @hookimpl
    def webgpu_torch_backends(self):
        return self.backends


class FakeEntryPoint:
    group = "webgpu_torch"

    def __init__(self, name, result):
        self.name = name
        self.value = f"{name}.plugin"
        self.result = result

    def load(self):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class FakeDistribution:
    def __init__(self, name, version="1.2"):
        self.metadata = {"Name": name}
        self.version = version


def registry_with(monkeypatch, *found):
    monkeypatch.setattr(plugins, "_entry_points", lambda: list(found))
    return Registry()


def test_two_backends_of_one_device_type_name_both(monkeypatch, capsys):
    registry = registry_with(
        monkeypatch,
        (FakeDistribution("first-backend"), FakeEntryPoint("first", Plugin(FakeBackend("fast")))),
        (FakeDistribution("second-backend", "3.4"), FakeEntryPoint("second", Plugin(FakeBackend("fast")))),
    )
    registry.load()
    assert "two backends claim the device type 'fast'" in capsys.readouterr().err
    assert registry.device("python", 0).name == "python"
    # Asking again must not go on as if nothing had happened.
    for ask in (lambda: registry.backend("fast"), lambda: registry.device("fast", 0)):
        with pytest.raises(RuntimeError, match=r"'fast'") as caught:
            ask()
        assert "first-backend 1.2 (first.plugin)" in str(caught.value)
        assert "second-backend 3.4 (second.plugin)" in str(caught.value)
    assert registry.device_count("fast") == 0


def test_a_conflict_claims_nothing(monkeypatch):
    registry = registry_with(monkeypatch)
    registry.load()
    with pytest.raises(RuntimeError, match="python"):
        registry.register(Plugin(FakeBackend("new"), FakeBackend("python")))
    with pytest.raises(RuntimeError, match="two backends claim the device type 'same'"):
        registry.register(Plugin(FakeBackend("new"), FakeBackend("same"), FakeBackend("same")))
    assert list(registry.backends) == ["python"]


def test_registering_what_is_installed_names_both(monkeypatch):
    registry = registry_with(monkeypatch, (FakeDistribution("one"), FakeEntryPoint("one", Plugin(FakeBackend("mine")))))
    with pytest.raises(RuntimeError, match=r"'mine': one 1\.2 \(one\.plugin\) and Plugin - \(registered"):
        registry.register(Plugin(FakeBackend("mine")))


def test_a_plugin_that_fails_to_load_is_reported_and_skipped(monkeypatch, capsys):
    registry = registry_with(
        monkeypatch,
        (FakeDistribution("broken-backend"), FakeEntryPoint("broken", ImportError("no module named 'driver'"))),
        (FakeDistribution("good-backend"), FakeEntryPoint("good", Plugin(FakeBackend("good")))),
    )
    assert registry.backend("good").device_type == "good"
    assert "broken-backend 1.2 (broken.plugin): ImportError: no module named 'driver'" in capsys.readouterr().err
    monkeypatch.setattr(plugins, "registry", registry)
    text = plugins.describe()
    assert "failed: broken-backend 1.2 (broken.plugin): ImportError: no module named 'driver'" in text
    assert "device type good: good-backend 1.2 (good.plugin), 1 device(s)" in text


def test_a_hook_that_fails_is_reported_and_skipped(monkeypatch, capsys):
    class Failing:
        @hookimpl
        def webgpu_torch_backends(self):
            raise OSError("libdriver.so: cannot open shared object file")

    registry = registry_with(
        monkeypatch,
        (FakeDistribution("failing-backend"), FakeEntryPoint("failing", Failing())),
        (FakeDistribution("good-backend"), FakeEntryPoint("good", Plugin(FakeBackend("good")))),
    )
    assert registry.backend("good").device_count() == 1
    assert "failing-backend 1.2 (failing.plugin): OSError: libdriver.so" in capsys.readouterr().err
    assert [each.origin.distribution for each in registry.failures] == ["failing-backend"]


def test_a_backend_that_is_installed_and_broken_is_not_to_be_installed_again(monkeypatch):
    registry = registry_with(
        monkeypatch,
        (FakeDistribution("webgpu-torch-backend-cpu"), FakeEntryPoint("cpu", ImportError("no module named 'numpy'"))),
    )
    with pytest.raises(RuntimeError, match="failed to load: .*no module named 'numpy'") as caught:
        registry.backend("cpu")
    assert "pip install" not in str(caught.value)


@pytest.mark.parametrize(
    ("device_type", "command"),
    [("cpu", "pip install webgpu-torch-backend-cpu"), ("webgpu", "pip install webgpu-torch-backend-wgpu")],
)
def test_a_missing_backend_names_the_pip_command(monkeypatch, device_type, command):
    registry = registry_with(monkeypatch)
    with pytest.raises(RuntimeError, match=f"'{device_type}'") as caught:
        registry.backend(device_type)
    assert command in str(caught.value)
    monkeypatch.setattr(plugins, "registry", registry)
    assert f"device type {device_type}: not installed ({command})" in plugins.describe()


def test_an_unknown_device_type_lists_the_known_ones(monkeypatch):
    registry = registry_with(monkeypatch)
    registry.register(Plugin(FakeBackend("mine")), Origin("my-backend", "1", "my.plugin"))
    with pytest.raises(RuntimeError, match=r"'cuda'; known here: .*mine"):
        registry.backend("cuda")


def test_devices_are_opened_once_and_checked(monkeypatch):
    backend = FakeBackend("two", count=2)
    registry = registry_with(monkeypatch, (FakeDistribution("two-backend"), FakeEntryPoint("two", Plugin(backend))))
    assert registry.device("two", 1) is registry.device("two", 1)
    assert registry.device("two", 1).name == "python"
    assert backend.opened == [1]
    with pytest.raises(RuntimeError, match=r"'two:2' does not exist: this machine has 2 device\(s\)"):
        registry.device("two", 2)
    assert len(registry.opened()) == 1


def test_the_interpreter_is_always_there(monkeypatch):
    registry = registry_with(monkeypatch)
    assert registry.device("python", 0).name == "python"


def test_one_plugin_may_bring_several_backends(monkeypatch):
    plugin = Plugin(FakeBackend("one"), FakeBackend("two"))
    registry = registry_with(monkeypatch, (FakeDistribution("pair"), FakeEntryPoint("pair", plugin)))
    assert registry.backend("one") is plugin.backends[0]
    assert registry.backend("two") is plugin.backends[1]


def test_threads_that_ask_first_at_once_find_all(monkeypatch):
    """While one thread imports plugins, others wait for them; a plugin that asks meanwhile goes on."""
    importing, imported = threading.Event(), threading.Event()

    class Slow(FakeEntryPoint):
        def load(self):
            importing.set()
            assert registry.device_count("python") == 1
            imported.wait(10)
            return self.result

    registry = registry_with(monkeypatch, (FakeDistribution("slow"), Slow("slow", Plugin(FakeBackend("slow")))))
    found = []
    threads = [threading.Thread(target=lambda: found.append(registry.device_count("slow"))) for _ in range(3)]
    threads[0].start()
    assert importing.wait(10)
    for each in threads[1:]:
        each.start()
    # Who does not wait has no such device by then.
    threads[1].join(0.1)
    imported.set()
    for each in threads:
        each.join()
    assert found == [1, 1, 1]
