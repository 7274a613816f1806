"""Exported functions compute what Python computes, in Node and in Chromium."""

from __future__ import annotations

import json

import pytest
import webgpu_torch as torch
from engines import Failed
from exported import close, computed
from four_bits import from_blocks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file
from webgpu_torch import nn
from webgpu_torch_backend_wgpu.gpu.interface import WORDS
from webgpu_torch_models.linear import encode_linears
from webgpu_torch_web.exporting import folder as folders


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 12, 3, stride=2)
        self.head = nn.Linear(12 * 3 * 3, 10)

    def forward(self, image):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(image))), 2)
        x = torch.relu(self.second(x))
        logits = self.head(x.flatten(1))
        # A view, an index and a number besides.
        return {"logits": logits, "channels": x[:, ::3], "best": logits.argmax(-1), "classes": 10}


def test_network_of_linear_layers(engine):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
    x = torch.randn(3, 8)
    torch.web.export(net, torch.zeros(3, 8), engine.root / "mlp")
    first, second = computed(engine, "mlp", {"input": x}, {"input": x + 1})
    close(first["output"], net(x))
    close(second["output"], net(x + 1))


def test_weights_in_several_files(engine, monkeypatch):
    most = 600
    monkeypatch.setattr(folders, "SHARD_BYTES", most)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    x = torch.randn(2, 16)
    written = torch.web.export(net, torch.zeros(2, 16), engine.root / "shards")
    files = [load_file(each) for each in written.glob("weights-*.safetensors")]
    assert all(sum(part.nbytes for part in each.values()) <= most for each in files)
    # A matrix is longer than a file.
    assert {"0.weight.part0", "0.weight.part1"} <= set().union(*files)
    assert sum(part.size for each in files for part in each.values()) == sum(each.numel() for each in net.parameters())
    (found,) = computed(engine, "shards", {"input": x})
    close(found["output"], net(x))


def test_node(node):
    """One short function; the long run does everything in Node, too."""
    scale = torch.tensor([3.0, -1.0, 0.5])

    def function(x):
        return (x * scale).tanh(), x.sum()

    torch.web.export(function, torch.ones(3), node.root / "short")
    (found,) = computed(node, "short", {"x": torch.tensor([0.1, 0.2, 0.3])})
    expected = function(torch.tensor([0.1, 0.2, 0.3]))
    close(found["output0"], expected[0])
    close(found["output1"], expected[1])


def test_the_host_has_kernels_of_its_own(engine):
    """They compute the same; by default they are taken where the adapter says that the host does its work, as it does here."""

    def function(x):
        return torch.softmax(x, -1), x * 2

    x = torch.linspace(-4, 4, 512).reshape(2, 256)
    torch.web.export(function, x, engine.root / "host")
    found = engine.run(
        """
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}host/runner.js`);
  const results = [];
  for (const software of [undefined, true, false]) {
    const model = await load(`${base}host`, { gpu, software });
    const { functions, functionsForHost } = model.plan;
    const { output0, output1 } = await model.run({ x: %s });
    results.push([functions.run === functionsForHost.run, output0.toNumbers(), output1.toNumbers()]);
  }
  return results;
};"""
        % x.flatten().tolist()
    )
    assert [ours for ours, *_ in found] == [True, True, False]
    for _, soft, double in found:
        torch.testing.assert_close(torch.tensor(soft).reshape(2, 256), torch.softmax(x, -1).cpu(), rtol=1e-5, atol=1e-6)
        assert double == (x * 2).flatten().tolist()


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    heads=st.integers(1, 3),
    queries=st.integers(1, 70),
    keys=st.integers(1, 140),
    features=st.integers(1, 70),
    causal=st.booleans(),
)
def test_attention_is_what_the_device_gains_by(engine, heads, queries, keys, features, causal):
    """Cards may take one kernel; where the host does the work it takes the products and the softmax that it takes in Python."""

    def function(query, key, value):
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

    inputs = {"query": torch.randn(heads, queries, features)}
    inputs |= {name: torch.randn(heads, keys, features) for name in ("key", "value")}
    folder = f"attention{engine.count}"
    torch.web.export(function, inputs, engine.root / folder)
    plan = json.loads((engine.root / folder / "plan.json").read_text(encoding="utf-8"))
    kernels = [
        {plan["pipelines"][commands[at + 1]]["label"] for at in range(0, len(commands), WORDS) if not commands[at]}
        for commands in (plan["functions"]["run"]["commands"], plan["functionsForHost"]["run"]["commands"])
    ]
    assert any("attention" in each for each in kernels[0]) and not any("attention" in each for each in kernels[1])
    (found,) = computed(engine, folder, inputs)
    close(found["output"], function(**inputs), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["float32", "float16", "int4"])
def test_convolutions(engine, weights):
    torch.manual_seed(1)
    net = Net().eval()
    x = torch.randn(2, 3, 16, 16)
    torch.web.export(net, (torch.zeros(2, 3, 16, 16),), engine.root / weights, weights=weights)
    stored = load_file(engine.root / weights / "weights-00001.safetensors")
    for name, each in net.state_dict().items():
        if weights == "int4" and name.endswith("weight") and each.ndim > 1 and each.numel() % 32 == 0:
            each.copy_(torch.from_numpy(from_blocks(stored[name])).reshape(each.shape))
        elif each.is_floating_point() and weights != "float32":
            each.copy_(each.half())
    (found,) = computed(engine, weights, {"image": x})
    expected = net(x)
    close(found["logits"], expected["logits"])
    close(found["channels"], expected["channels"])
    close(found["best"], expected["best"])
    assert found["classes"] == 10


@pytest.mark.slow
def test_weights_stay_in_few_bits_on_the_gpu(engine):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32))
    assert encode_linears(net, net.state_dict(), "int4", net[0].weight.device) == {}
    x = torch.randn(3, 64)
    torch.web.export(net, torch.zeros(3, 64), engine.root / "encoded")
    (found,) = computed(engine, "encoded", {"input": x})
    close(found["output"], net(x))
    # Scales are bfloat16, which NumPy does not have: the file's other tensors are read without them.
    with safe_open(engine.root / "encoded" / "weights-00001.safetensors", "np") as file:
        assert file.get_tensor("0.packed").nbytes == 64 * 32 // 2


def test_element_types(engine):
    def function(a, b, c, d, e):
        """Every kind of input comes back as what it was."""
        return a + 1, b.cumsum(0), ~c, d * 2, e * 1.5, (a > 2) | c, b.to(torch.int32), e.to(torch.bfloat16)

    inputs = {
        "a": torch.tensor([1, 2, 3, 2**31 - 2, 5], dtype=torch.int32),
        "b": torch.tensor([2**40, -3, 5, 7, 11]),
        "c": torch.tensor([True, False, True, False, True]),
        "d": torch.tensor([1, 2, 3, 250, 5], dtype=torch.uint8),
        "e": torch.tensor([1.0, 2.5, -3.25, 1e-6, 60000.0], dtype=torch.float16),
    }
    torch.web.export(function, inputs, engine.root / "types")
    (found,) = computed(engine, "types", inputs)
    expected = function(**inputs)
    for at, each in enumerate(expected):
        close(found[f"output{at}"], each, 0.0)


def test_state_lasts_between_runs(engine):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.tensor([10.0, 20.0]))
            self.register_buffer("history", torch.zeros(4, 2))

        def forward(self, step, position):
            self.total += step
            self.history.index_copy_(0, position, self.total[None])
            return self.total * 2, self.history

    counter = Counter()
    torch.web.export(counter, (torch.ones(2), torch.tensor([0])), engine.root / "state")
    assert counter.total.tolist() == [10.0, 20.0] and counter.history.sum().item() == 0
    inputs = [{"step": torch.tensor([float(n), 1.0]), "position": torch.tensor([n])} for n in range(4)]
    for one, found in zip(inputs, computed(engine, "state", *inputs), strict=True):
        total, history = counter(**one)
        close(found["output0"], total)
        close(found["output1"], history)


def test_functions_share_their_state(engine):
    store = nn.Module()
    store.register_buffer("kept", torch.zeros(3))

    class Put(nn.Module):
        def __init__(self):
            super().__init__()
            self.store = store

        def forward(self, x):
            self.store.kept.copy_(x * 2)
            return x.sum()

    class Get(nn.Module):
        def __init__(self):
            super().__init__()
            self.store = store

        def forward(self, scale):
            return self.store.kept * scale

    functions = {"put": (Put(), torch.ones(3)), "get": (Get(), torch.tensor(3.0))}
    torch.web.export_functions(functions, engine.root / "shared")
    found = engine.run("""
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}shared/runner.js`);
  const { functions, destroy } = await load(`${base}shared`, { gpu });
  const before = await functions.get.run({ scale: 1 });
  const put = await functions.put.run({ x: [1, 2, 3] });
  const after = await functions.get.run({ scale: [5] });
  return [before, put, after].map(({ output }) => output.toNumbers());
};""")
    assert found == [[0, 0, 0], [6], [10, 20, 30]]


def test_runs_may_overlap(engine):
    torch.web.export(lambda x: (x * 2, x.sum()), torch.ones(3), engine.root / "double")
    found = engine.run("""
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}double/runner.js`);
  const model = await load(`${base}double`, { gpu });
  const runs = [1, 2, 3, 4, 5].map((each) => model.run({ x: [each, each, -each] }));
  return (await Promise.all(runs)).map(({ output0, output1 }) => [...output0.toNumbers(), output1.toNumbers()[0]]);
};""")
    assert found == [[2 * each, 2 * each, -2 * each, each] for each in range(1, 6)]


@pytest.mark.parametrize(
    "inputs, message",
    [
        ("{}", "TypeError: input 'x' is missing"),
        ("{x: [1, 2]}", "RangeError: input 'x' has shape [3], 3 elements, got 2"),
        ("{x: 'abc'}", "TypeError: input 'x' must be a Float32Array or numbers, got string"),
        ("{x: [1, 2, 3], y: 1}", "TypeError: there is no input 'y'; there are x"),
    ],
)
def test_runner_refuses(engine, inputs, message):
    torch.web.export(lambda x: x + 1, torch.ones(3), engine.root / "plus")
    job = """
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}plus/runner.js`);
  return (await load(`${base}plus`, { gpu })).run(INPUTS);
};"""
    with pytest.raises(Failed) as caught:
        engine.run(job.replace("INPUTS", inputs))
    assert str(caught.value) == message


def test_runner_without_webgpu(engine):
    torch.web.export(lambda x: x + 1, torch.ones(3), engine.root / "plus")
    job = """
export default async ({ base }) => {
  const { load } = await import(`${base}plus/runner.js`);
  return load(`${base}plus`, { gpu: { requestAdapter: async () => null } });
};"""
    with pytest.raises(Failed, match="WebGPU found no adapter"):
        engine.run(job)


@pytest.mark.parametrize(
    "options, adapter, message",
    [
        ({"features": ["shader-f16"]}, "{}", "this adapter lacks the features shader-f16"),
        (
            {"limits": {"max_compute_invocations_per_workgroup": 1024}},
            "{ limits: { maxComputeInvocationsPerWorkgroup: 512 } }",
            "this adapter allows maxComputeInvocationsPerWorkgroup up to 512; the export needs 1024",
        ),
    ],
)
def test_adapters_that_lack_something(engine, options, adapter, message):
    # Pages have what they loaded of a folder before.
    folder = f"lacking{engine.count}"
    torch.web.export(lambda x: x + 1, torch.ones(3), engine.root / folder, **options)
    job = """
export default async ({ base }) => {
  const { load, UnsupportedError } = await import(`${base}FOLDER/runner.js`);
  const adapter = { features: new Set(), limits: {}, info: {}, ...ADAPTER };
  try {
    await load(`${base}FOLDER`, { gpu: { requestAdapter: async () => adapter } });
  } catch (error) {
    return [error instanceof UnsupportedError, error.message];
  }
};"""
    assert engine.run(job.replace("ADAPTER", adapter).replace("FOLDER", folder)) == [True, message]


def test_the_download_tells_how_far_it_is(engine, monkeypatch):
    monkeypatch.setattr(folders, "SHARD_BYTES", 4000)
    torch.web.export(nn.Linear(64, 64), torch.ones(64), engine.root / "far")
    told = engine.run("""
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}far/runner.js`), told = [];
  (await load(`${base}far`, { gpu, cache: false, onProgress: (each) => told.push([each.loaded, each.total]) })).destroy();
  return told;
};""")
    loaded, totals = zip(*told, strict=True)
    assert {*totals} == {4 * 65 * 64} and [*loaded] == sorted(loaded) and len(loaded) >= 5
    assert loaded[0] < loaded[-1] == totals[0]


def test_lost_device(engine):
    torch.web.export(lambda x: x + 1, torch.ones(3), engine.root / "plus")
    job = """
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}plus/runner.js`);
  const model = await load(`${base}plus`, { gpu });
  model.device.destroy();
  await model.device.lost;
  return model.run({ x: [1, 2, 3] });
};"""
    with pytest.raises(Failed, match="the WebGPU device was lost .* Load the folder again"):
        engine.run(job)
