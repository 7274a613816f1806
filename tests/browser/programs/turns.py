"""Waiting for the GPU takes no turns of the event loop of Python's own: who waits goes on when the GPU is done."""

import js
import webgpu_torch as torch

js.eval("""globalThis.turns = 0; for (const kind of [MessagePort.prototype, globalThis]) {
  const post = kind.postMessage;
  kind.postMessage = function (...given) { globalThis.turns += 1; return post.apply(this, given); };
}""")
x = torch.ones(4)
for number in range(5):
    assert (x + number).tolist() == [1.0 + number] * 4
    torch.webgpu.synchronize()
assert js.turns == 0, js.turns
