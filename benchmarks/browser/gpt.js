// A step of a GPT-2 by other libraries: one token in, the most likely next one out, keys and values kept on the GPU. The
// network is written once, over the few operations that each library gives.
import * as jax from "./peers/jax/index.js";
import * as ort from "./peers/onnxruntime-web/ort.webgpu.bundle.min.mjs";
import { Graph } from "./onnx.js";

const tf = globalThis.tf;
const EPSILON = 1e-5, MASKED = -1e9;

// The parameters that an export holds, by name: {data, shape}.
export async function parametersOf(folder) {
  const bytes = await (await fetch(`${folder}weights-00001.safetensors`)).arrayBuffer();
  const length = Number(new DataView(bytes).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  const parameters = Object.entries(header).filter(([name]) => name.startsWith("transformer."));
  return Object.fromEntries(parameters.map(([name, { shape, data_offsets: [begin, end] }]) => {
    return [name, { data: new Float32Array(bytes.slice(8 + length + begin, 8 + length + end)), shape }];
  }));
}

function transposed({ data, shape: [rows, columns] }) {
  const made = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) made[column * rows + row] = data[row * columns + column];
  return { data: made, shape: [columns, rows] };
}

// A token's numbers through all layers: the most likely next token, and the keys and values with this token's among them.
function step(ops, given, { heads, layers, width, capacity }, token, position, caches) {
  const each = width / heads, kept = [];
  const linear = (x, name) => ops.add(ops.matmul(x, given[`${name}.weight`]), given[`${name}.bias`]);
  const norm = (x, name) => ops.norm(x, given[`${name}.weight`], given[`${name}.bias`]);
  const here = ops.reshape(ops.equal(given.places, position), [1, capacity, 1]);
  const seen = ops.reshape(ops.lessEqual(given.places, position), [1, 1, capacity]);
  let x = ops.add(ops.rows(given["transformer.wte.weight"], token), ops.rows(given["transformer.wpe.weight"], position));
  for (let layer = 0; layer < layers; layer++) {
    const name = `transformer.h.${layer}`, parts = ops.thirds(linear(norm(x, `${name}.ln_1`), `${name}.attn.c_attn`));
    const [query, key, value] = parts.map((part) => ops.reshape(part, [heads, 1, each]));
    const keys = ops.where(here, key, caches[2 * layer]), values = ops.where(here, value, caches[2 * layer + 1]);
    const scores = ops.mul(ops.matmul(query, ops.turned(keys)), given.scale);
    const weights = ops.softmax(ops.where(seen, scores, given.masked));
    const attended = ops.reshape(ops.matmul(weights, values), [1, width]);
    x = ops.add(x, linear(attended, `${name}.attn.c_proj`));
    x = ops.add(x, linear(ops.gelu(linear(norm(x, `${name}.ln_2`), `${name}.mlp.c_fc`)), `${name}.mlp.c_proj`));
    kept.push(keys, values);
  }
  return [ops.best(ops.matmul(norm(x, "transformer.ln_f"), given.head)), ...kept];
}

// All that a step is given besides its inputs, made a library's own by ``make(data, shape)``.
function constants(parameters, { heads, width, capacity }, make) {
  const all = {
    ...parameters,
    head: transposed(parameters["transformer.wte.weight"]),
    places: { data: Int32Array.from({ length: capacity }, (_, at) => at), shape: [capacity] },
    scale: { data: Float32Array.of((width / heads) ** -0.5), shape: [1] },
    masked: { data: Float32Array.of(MASKED), shape: [1] },
  };
  return Object.fromEntries(Object.entries(all).map(([name, { data, shape }]) => [name, make(data, shape)]));
}

const cacheShape = ({ heads, width, capacity }) => [heads, capacity, width / heads];
const empty = (sizes) => Array.from({ length: 2 * sizes.layers }, () => new Float32Array(sizes.capacity * sizes.width));

// {start} gives empty caches, {next} of a token, its position and the caches the next token and other caches.
export const GPTS = {
  async "onnxruntime-web"(parameters, sizes) {
    const shape = cacheShape(sizes), type = "float";
    const names = empty(sizes).map((_, at) => `cache${at}`);
    const graph = new Graph([
      { name: "token", type: "int32", shape: [1] }, { name: "position", type: "int32", shape: [1] },
      ...names.map((name) => ({ name, type, shape })),
    ]);
    const one = (operation, attributes) => (...inputs) => graph.node(operation, inputs, attributes);
    const ops = {
      add: one("Add"), mul: one("Mul"), matmul: one("MatMul"), where: one("Where"), equal: one("Equal"), lessEqual: one("LessOrEqual"),
      rows: one("Gather"), norm: one("LayerNormalization"), gelu: one("Gelu", { approximate: "tanh" }), softmax: one("Softmax"),
      turned: one("Transpose", { perm: [0, 2, 1] }), best: one("ArgMax", { axis: 1, keepdims: 0 }),
      thirds: (x) => graph.nodeOf("Split", [x], { axis: 1, num_outputs: 3 }, 3),
      reshape: (x, to) => graph.node("Reshape", [x, graph.constant(BigInt64Array.from(to, BigInt))]),
    };
    const given = constants(parameters, sizes, (data, at) => graph.constant(data, at));
    const [best, ...kept] = step(ops, given, sizes, "token", "position", names);
    const results = kept.map((name) => ({ name, type, shape }));
    const session = await ort.InferenceSession.create(graph.file([{ name: best, type: "int64", shape: [1] }, ...results]), {
      executionProviders: ["webgpu"],
      preferredOutputLocation: Object.fromEntries([[best, "cpu"], ...kept.map((name) => [name, "gpu-buffer"])]),
    });
    return {
      start: () => empty(sizes).map((data) => new ort.Tensor("float32", data, shape)),
      async next(token, position, caches) {
        const number = (value) => new ort.Tensor("int32", Int32Array.of(value), [1]);
        const feeds = Object.fromEntries(names.map((name, at) => [name, caches[at]]));
        const found = await session.run({ token: number(token), position: number(position), ...feeds });
        caches.forEach((each) => each.dispose());
        return [Number(found[best].data[0]), kept.map((name) => found[name])];
      },
    };
  },
  async tfjs(parameters, sizes) {
    await tf.setBackend("webgpu");
    await tf.ready();
    const make = (data, shape) => tf.tensor(data, shape, data instanceof Int32Array ? "int32" : "float32");
    const given = constants(parameters, sizes, make);
    const ops = {
      add: tf.add, mul: tf.mul, matmul: tf.matMul, where: tf.where, equal: tf.equal, lessEqual: tf.lessEqual, rows: tf.gather,
      softmax: (x) => tf.softmax(x), turned: (x) => tf.transpose(x, [0, 2, 1]), reshape: tf.reshape, thirds: (x) => tf.split(x, 3, 1),
      best: (x) => tf.argMax(x, 1),
      gelu: (x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.tanh(tf.mul(tf.add(x, tf.mul(tf.pow(x, 3), 0.044715)), Math.sqrt(2 / Math.PI))), 1)),
      norm: (x, weight, bias) => {
        const { mean, variance } = tf.moments(x, 1, true);
        return tf.add(tf.mul(tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, EPSILON))), weight), bias);
      },
    };
    return {
      start: () => empty(sizes).map((data) => make(data, cacheShape(sizes))),
      async next(token, position, caches) {
        const number = (value) => tf.tensor([value], [1], "int32");
        const [best, ...kept] = tf.tidy(() => step(ops, given, sizes, number(token), number(position), caches));
        caches.forEach((each) => each.dispose());
        const [found] = await best.data();
        best.dispose();
        return [found, kept];
      },
    };
  },
  async "jax-js"(parameters, sizes) {
    await jax.init("webgpu");
    jax.defaultDevice("webgpu");
    const { numpy, nn } = jax;
    // Operations take their operands over: each is given another reference.
    const shared = (operation) => (...given) => operation(...given.map((each) => each?.ref ?? each));
    const ops = {
      add: shared(numpy.add), mul: shared(numpy.multiply), matmul: shared(numpy.matmul), where: shared(numpy.where),
      equal: shared(numpy.equal), lessEqual: shared(numpy.lessEqual), rows: shared((table, at) => numpy.take(table, at, 0)),
      softmax: shared((x) => nn.softmax(x, -1)), turned: shared((x) => numpy.transpose(x, [0, 2, 1])), reshape: shared(numpy.reshape),
      thirds: shared((x) => numpy.split(x, 3, 1)), gelu: shared((x) => nn.gelu(x)), best: shared((x) => numpy.argmax(x, 1)),
      norm: (x, weight, bias) => ops.add(ops.mul(nn.standardize(x.ref, -1, { epsilon: EPSILON }), weight), bias),
    };
    const make = (data, shape) => jax.numpy.array(data, { shape });
    const given = constants(parameters, sizes, make);
    const names = Object.keys(given);
    const compiled = jax.jit((token, position, caches, all) => {
      return step(ops, Object.fromEntries(names.map((name, at) => [name, all[at]])), sizes, token, position, caches);
    });
    return {
      start: () => empty(sizes).map((data) => make(data, cacheShape(sizes))),
      async next(token, position, caches) {
        const number = (value) => make(Int32Array.of(value), [1]);
        const [best, ...kept] = compiled(number(token), number(position), caches, names.map((name) => given[name].ref));
        const [found] = await best.data();
        return [found, kept];
      },
    };
  },
};
