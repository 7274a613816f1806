// The same operations by several libraries in one page, on one adapter: from the call until the GPU is done, operands and
// results on the GPU.
import * as jax from "./peers/jax/index.js";
import * as ort from "./peers/onnxruntime-web/ort.webgpu.bundle.min.mjs";
import { load } from "./export/runner.js";
import { loadText } from "./gpt/text.js";
import { GPTS, parametersOf } from "./gpt.js";
import { Library } from "./library.js";
import { Graph } from "./onnx.js";

const [tf, original] = [globalThis.tf, globalThis.torch];

function numbers(count, seed) {
  const made = new Float32Array(count);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    made[i] = state / 2147483648 - 1;
  }
  return made;
}

const size = (shape) => shape.reduce((a, b) => a * b, 1);

// What a row's operation gives at a place, in double precision.
function product(x, y, at, n) {
  let sum = 0;
  for (let k = 0; k < n; k++) sum += x[Math.floor(at / n) * n + k] * y[k * n + (at % n)];
  return sum;
}

function smooth(x, at, n) {
  const row = x.subarray(Math.floor(at / n) * n, Math.floor(at / n) * n + n);
  return Math.exp(x[at]) / row.reduce((sum, each) => sum + Math.exp(each), 0);
}

function convolved(x, w, at, channels, n) {
  const [out, row, column] = [Math.floor(at / (n * n)), Math.floor(at / n) % n, at % n];
  let sum = 0;
  for (let c = 0; c < channels; c++) for (let i = -1; i < 2; i++) for (let j = -1; j < 2; j++) {
    const [r, s] = [row + i, column + j];
    if (r >= 0 && s >= 0 && r < n && s < n) sum += x[(c * n + r) * n + s] * w[(out * channels + c) * 9 + (i + 1) * 3 + j + 1];
  }
  return sum;
}

const product512 = (x, y, at) => product(x, y, at, 512), product1024 = (x, y, at) => product(x, y, at, 1024);
const ROWS = {
  matmul512: { shapes: [[512, 512], [512, 512]], right: product512, op: "MatMul" },
  matmul1024: { shapes: [[1024, 1024], [1024, 1024]], right: product1024, op: "MatMul" },
  relu: { shapes: [[1024, 1024]], right: (x, _, at) => Math.max(x[at], 0), op: "Relu" },
  softmax: { shapes: [[1024, 1024]], right: (x, _, at) => smooth(x, at, 1024), op: "Softmax" },
  conv: { shapes: [[1, 64, 56, 56], [64, 64, 3, 3]], right: (x, w, at) => convolved(x, w, at, 64, 56), op: "Conv" },
};
for (const row of Object.values(ROWS)) row.data = row.shapes.map((shape, at) => numbers(size(shape), at + 1));
const PADS = { Conv: { pads: [1, 1, 1, 1] } };

// A library's row: {run} computes and resolves to a result when the GPU is done, {read} gives its numbers, {free} drops it.
const LIBRARIES = {
  async "our export"(name, { data }) {
    const model = await (this.model ??= load("./export"));
    const { functions } = model;
    const inputs = Object.fromEntries(functions[`fill_${name}`].inputs.map((port, at) => [port.name, data[at]]));
    await functions[`fill_${name}`].run(inputs, { read: [] });
    return {
      run: async () => {
        await functions[name].run({}, { read: [] });
        await model.device.queue.onSubmittedWorkDone();
      },
      read: async () => (await functions[name].run()).output.data,
    };
  },
  async "onnxruntime-web"(name, { data, shapes, op }) {
    const graph = new Graph(shapes.map((shape, at) => ({ name: "xy"[at], type: "float", shape })));
    const result = graph.node(op, graph.inputs.map((each) => each.name), PADS[op]);
    const file = graph.file([{ name: result, type: "float", shape: shapes[0] }]);
    const options = { executionProviders: ["webgpu"], preferredOutputLocation: "gpu-buffer" };
    const session = await ort.InferenceSession.create(file, options);
    const device = await ort.env.webgpu.device;
    const feeds = {};
    data.forEach((each, at) => {
      const buffer = device.createBuffer({ size: each.byteLength, usage: 128 | 8 | 4 });
      device.queue.writeBuffer(buffer, 0, each);
      feeds["xy"[at]] = ort.Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims: shapes[at] });
    });
    return {
      run: async () => {
        const { [result]: z } = await session.run(feeds);
        await device.queue.onSubmittedWorkDone();
        return z;
      },
      read: (z) => z.getData(),
      free: (z) => z.dispose(),
    };
  },
  async tfjs(name, { data, shapes, op }) {
    await tf.setBackend("webgpu");
    await tf.ready();
    const backend = tf.backend(), images = op === "Conv";
    const tensors = data.map((each, at) => tf.tensor(each, shapes[at]));
    // Channels come last here.
    const [x, y] = images ? [tensors[0].transpose([0, 2, 3, 1]), tensors[1].transpose([2, 3, 1, 0])] : tensors;
    const compute = {
      MatMul: () => tf.matMul(x, y), Relu: () => tf.relu(x), Softmax: () => tf.softmax(x),
      Conv: () => tf.conv2d(x, y, 1, "same"),
    }[op];
    return {
      run: async () => {
        const z = compute();
        backend.endComputePassEncoder();
        backend.submitQueue();
        await backend.device.queue.onSubmittedWorkDone();
        return z;
      },
      read: (z) => (images ? z.transpose([0, 3, 1, 2]) : z).data(),
      free: (z) => z.dispose(),
    };
  },
  async "jax-js"(name, { data, shapes, op }) {
    await jax.init("webgpu");
    jax.defaultDevice("webgpu");
    const [x, y] = data.map((each, at) => jax.numpy.array(each, { shape: shapes[at] }));
    const { numpy, nn, lax } = jax;
    const compute = {
      MatMul: jax.jit((a, b) => numpy.matmul(a, b)), Relu: jax.jit((a) => nn.relu(a)), Softmax: jax.jit((a) => nn.softmax(a, -1)),
      Conv: jax.jit((a, b) => lax.convGeneralDilated(a, b, [1, 1], "SAME")),
    }[op];
    return {
      run: async () => {
        const z = y ? compute(x.ref, y.ref) : compute(x.ref);
        await z.blockUntilReady();
        return z;
      },
      read: (z) => z.ref.data(),
      free: (z) => z.dispose(),
    };
  },
  async "webgpu-torch 0.3.5"(name, { data, shapes, op }) {
    this.ready ??= original.initWebGPUAsync();
    await this.ready;
    const nested = (flat, shape) => {
      let found = Array.from(flat);
      for (const each of shape.slice(1).reverse()) {
        found = Array.from({ length: found.length / each }, (_, at) => found.slice(at * each, at * each + each));
      }
      return found;
    };
    const [x, y] = data.map((each, at) => original.tensor(nested(each, shapes[at])));
    const compute = {
      MatMul: () => original.mm(x, y), Relu: () => original.relu(x),
      Conv: () => original.conv2d(x, y, undefined, 1, "same"),
    }[op];
    if (!compute) throw new Error("it has no such operation");
    return {
      run: async () => {
        const z = compute();
        await x.device.gpuDevice.queue.onSubmittedWorkDone();
        return z;
      },
      read: async (z) => (await z.toArrayAsync()).flat(9),
    };
  },
};

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

// The row of a GPT: each token is read before the next one is computed. What is right the export's folder tells.
const GPT = "gpt token";
let told = null;

async function preparedGpt(library) {
  told ??= await (await fetch("./gpt/right.json")).json();
  const [first, ...right] = told.tokens;
  const check = (found) => (found.join() === right.join() ? 0 : Infinity);
  if (library === "our export") {
    const writer = await loadText("./gpt/");
    const run = async () => {
      const found = [];
      for await (const each of writer.tokens([first], { maxTokens: right.length })) found.push(each);
      return found;
    };
    return { run, check, count: right.length };
  }
  if (!(library in GPTS)) throw new Error("it has no softmax");
  const { start, next } = await GPTS[library](await parametersOf("./gpt/"), told.sizes);
  const run = async () => {
    const found = [];
    let token = first, caches = start();
    for (let position = 0; position < right.length; position++) {
      [token, caches] = await next(token, position, caches);
      found.push(token);
    }
    caches.forEach((each) => each.dispose());
    return found;
  };
  return { run, check, count: right.length };
}

// The same of an operation; its result is compared with double precision at some places.
async function preparedRow(library, name) {
  const row = ROWS[name], made = await LIBRARIES[library].call(LIBRARIES[library], name, row);
  const check = async (result) => {
    const found = await made.read(result);
    let error = 0;
    for (let at = 0; at < found.length; at += 9973) {
      const right = row.right(row.data[0], row.data[1], at);
      error = Math.max(error, Math.abs(found[at] - right) / Math.max(Math.abs(right), 1));
    }
    return error;
  };
  return { ...made, check, count: 1 };
}

const prepared = {};

// Time a library's prepared row once, in milliseconds.
export async function once(library) {
  const { run, free, count } = prepared[library];
  const start = performance.now();
  const result = await run();
  const time = performance.now() - start;
  free?.(result);
  return time / count;
}

// Prepare a library's row, run it, and return how far the result is from right.
export async function prepare(library, name) {
  const made = (prepared[library] = await (name === GPT ? preparedGpt(library) : preparedRow(library, name)));
  const result = await made.run();
  const error = await made.check(result);
  made.free?.(result);
  return error;
}

export const libraries = Object.keys(LIBRARIES);
// The library itself, under Pyodide.
export const startPython = () => new Library(() => {});
Object.assign(globalThis, { libraries, prepare, once, startPython });
