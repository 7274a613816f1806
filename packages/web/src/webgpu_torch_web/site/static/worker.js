// Python with the library, in a worker: the page stays responsive, and Stop is the end of the worker.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const text = (bytes) => new TextDecoder().decode(bytes.subarray(0, (bytes.indexOf(0) + bytes.length + 1) % (bytes.length + 1)));

// Unpack a tar.gz into Python's file system: its files share the archive's memory.
async function unpack(url, FS, root) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const stream = response.body.pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  while (at < bytes.length && bytes[at]) {
    const field = (start, length) => text(bytes.subarray(at + start, at + start + length));
    const [name, size, type, prefix] = [field(0, 100), parseInt(field(124, 12), 8), field(156, 1), field(345, 155)];
    const path = `${root}/${prefix ? `${prefix}/` : ""}${name}`;
    at += 512;
    if (type === "0") {
      FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
      FS.writeFile(path, bytes.subarray(at, at + size), { canOwn: true });
    }
    at += Math.ceil(size / 512) * 512;
  }
}

const say = (kind, message) => postMessage({ kind, ...message });

async function start() {
  if (!globalThis.navigator.gpu) throw new Error("no WebGPU");
  say("state", { text: "Loading Python" });
  const python = await loadPyodide({
    indexURL: new URL("./pyodide/", import.meta.url).href,
    stdout: (line) => say("text", { text: `${line}\n`, error: false }),
    stderr: (line) => say("text", { text: `${line}\n`, error: true }),
  });
  const ready = performance.now();
  say("state", { text: "Loading the library" });
  const root = python.runPython("import site; site.getsitepackages()[0]");
  await unpack(new URL("./library.tar.gz", import.meta.url), python.FS, root);
  globalThis.page = { say: (message) => postMessage(JSON.parse(message)) };
  await python.runPythonAsync(`
import importlib
importlib.invalidate_caches()
import webgpu_torch as torch
torch.zeros(1).tolist()
`);
  say("ready", { seconds: (performance.now() - ready) / 1000 });
  return python;
}

const started = start().catch((error) => {
  say("failed", { text: String(error.message ?? error) });
  return null;
});

// Programs run one after the other, each in a namespace of its own unless it asks for the one before.
let last = Promise.resolve();
let names = null;

async function run({ id, code, keep }) {
  const python = await started;
  if (!python) return;
  if (!keep || !names) {
    names?.destroy();
    names = python.toPy({ __name__: "__main__" });
  }
  const begun = performance.now();
  const done = (rest) => say("done", { id, seconds: (performance.now() - begun) / 1000, ...rest });
  try {
    const value = await python.runPythonAsync(code, { globals: names, filename: "<playground>" });
    done({ value: value?.toString?.() ?? null });
    value?.destroy?.();
  } catch (error) {
    done({ error: String(error.message ?? error) });
  }
}

onmessage = ({ data }) => {
  last = last.then(() => run(data));
};
