"""What an exported folder computes, as tensors."""

from __future__ import annotations

import json

import webgpu_torch as torch

JOB = """
export default async ({ base, gpu }) => {
  const { load } = await import(`${base}%(folder)s/runner.js`);
  const model = await load(`${base}%(folder)s`, { gpu });
  const inputs = %(inputs)s, results = [];
  for (const each of inputs) {
    const found = await model.functions.%(function)s.run(each);
    results.push(Object.fromEntries(Object.entries(found).map(([name, value]) => [
      name, value.data ? { shape: value.shape, dtype: value.dtype, data: value.toNumbers().map(String) } : value])));
  }
  model.destroy();
  return results;
};
"""


def computed(engine, folder, *inputs, function="run"):
    """Return what a folder's function computes of these inputs, one dictionary of outputs per call."""
    given = [{name: each.tolist() for name, each in one.items()} for one in inputs]
    job = JOB % {"folder": folder, "inputs": json.dumps(given), "function": function}
    return engine.run(job)


def tensor(found) -> torch.Tensor:
    kind = getattr(torch, found["dtype"])
    numbers = [float(each) if kind.is_floating_point else int(each) for each in found["data"]]
    return torch.tensor(numbers, dtype=kind).reshape(found["shape"])


def close(found, expected, tolerance=1e-5):
    assert found["shape"] == list(expected.shape) and getattr(torch, found["dtype"]) is expected.dtype
    torch.testing.assert_close(tensor(found), expected.detach().cpu(), rtol=tolerance, atol=tolerance)
