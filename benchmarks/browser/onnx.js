// ONNX files, written without the package onnx: protocol buffers of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
const OPERATORS = 20, VERSION = 9;
// Element types by the array that holds them, and the kinds of attributes.
const TYPES = { float: 1, int32: 6, int64: 7 }, ARRAYS = { Float32Array: "float", Int32Array: "int32", BigInt64Array: "int64" };
const INTEGER = 2, STRING = 3, INTEGERS = 7;

// A number as protocol buffers have it: seven bits a byte.
function number(value) {
  const found = [];
  for (; value > 127; value = Math.floor(value / 128)) found.push((value & 127) | 128);
  return [...found, value];
}

// A field of a message: a number, or text or a message with its length.
function field(key, value) {
  if (typeof value === "number") return new Uint8Array([...number(key << 3), ...number(value)]);
  const data = typeof value === "string" ? new TextEncoder().encode(value) : value;
  const head = [...number((key << 3) | 2), ...number(data.length)], made = new Uint8Array(head.length + data.length);
  made.set(head);
  made.set(data, head.length);
  return made;
}

function message(...fields) {
  const made = new Uint8Array(fields.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const each of fields) {
    made.set(each, at);
    at += each.length;
  }
  return made;
}

function attribute(name, value) {
  if (typeof value === "number") return field(5, message(field(1, name), field(3, value), field(20, INTEGER)));
  if (typeof value === "string") return field(5, message(field(1, name), field(4, value), field(20, STRING)));
  return field(5, message(field(1, name), ...value.map((each) => field(8, each)), field(20, INTEGERS)));
}

function port({ name, type, shape }) {
  const sizes = message(...shape.map((each) => field(1, field(1, each))));
  return message(field(1, name), field(2, field(1, message(field(1, TYPES[type]), field(2, sizes)))));
}

// A model that is put together operation by operation; values are their names.
export class Graph {
  constructor(inputs) {
    this.inputs = inputs;
    this.nodes = [];
    this.constants = [];
    this.count = 0;
  }

  constant(data, shape = [data.length]) {
    const name = `c${this.constants.length}`, bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const kind = field(2, TYPES[ARRAYS[data.constructor.name]]);
    this.constants.push(message(...shape.map((each) => field(1, each)), kind, field(8, name), field(9, bytes)));
    return name;
  }

  // The results of an operation, as many as asked for.
  nodeOf(operation, inputs, attributes = {}, results = 1) {
    const made = Array.from({ length: results }, () => `v${this.count++}`);
    const listed = Object.entries(attributes).map(([name, value]) => attribute(name, value));
    const names = [...inputs.map((each) => field(1, each)), ...made.map((each) => field(2, each))];
    this.nodes.push(message(...names, field(4, operation), ...listed));
    return made;
  }

  node(operation, inputs, attributes) {
    return this.nodeOf(operation, inputs, attributes)[0];
  }

  // The file; ``outputs``: {name, type, shape} of the values that are results.
  file(outputs) {
    const graph = message(
      ...this.nodes.map((each) => field(1, each)), field(2, "graph"), ...this.constants.map((each) => field(5, each)),
      ...this.inputs.map((each) => field(11, port(each))), ...outputs.map((each) => field(12, port(each))),
    );
    return message(field(1, VERSION), field(7, graph), field(8, field(2, OPERATORS)));
  }
}
