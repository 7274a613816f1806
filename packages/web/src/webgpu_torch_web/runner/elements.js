// Elements of tensors: their types as typed arrays, their numbers, and their order.

const half = (bits) => {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
};
let table;
const halves = () => (table ??= Float32Array.from({ length: 65536 }, (_, each) => half(each)));

/** Return float16 bits as float32 numbers. */
export function widen(bits) {
  const known = halves(), result = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = known[bits[i]];
  return result;
}

/** Return the numbers of blocks of 20 bytes: factor and offset in float16, and 32 numbers of four bits, the lower ones first. */
export function unpack(bytes) {
  const known = halves(), pairs = new DataView(bytes.buffer, bytes.byteOffset), result = new Float32Array((bytes.length / 20) * 32);
  let done = 0;
  for (let block = 0; block < bytes.length; block += 20) {
    const factor = known[pairs.getUint16(block, true)], offset = known[pairs.getUint16(block + 2, true)];
    for (let i = block + 4; i < block + 20; i++) {
      result[done++] = offset + factor * (bytes[i] & 15);
      result[done++] = offset + factor * (bytes[i] >> 4);
    }
  }
  return result;
}

/** Numbers of what float32 weights are stored as. */
export const STORED = { float16: (bytes) => widen(new Uint16Array(bytes.slice().buffer)), int4: unpack };

const word = new Uint32Array(1), number = new Float32Array(word.buffer);

/** Return the bits of the float16 number nearest to a number, ties to even. */
export function toHalf(value) {
  number[0] = value;
  const bits = word[0], sign = (bits >>> 16) & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return sign | 0x7e00;
  if (rest >= 0x477ff000) return sign | 0x7c00;
  const size = Math.abs(number[0]);
  if (rest < 0x38800000) {
    const scaled = size * 2 ** 24, below = Math.floor(scaled), over = scaled - below;
    return sign | (below + (over > 0.5 || (over === 0.5 && below & 1) ? 1 : 0));
  }
  return sign | (((rest - 0x38000000 + 0xfff + ((rest >>> 13) & 1)) >>> 13));
}

/** Return the bits of the bfloat16 number nearest to a number, ties to even. */
export function toBrain(value) {
  number[0] = value;
  const bits = word[0];
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

const brain = (bits) => { word[0] = bits << 16; return number[0]; };

/** Per element type: the array of its bytes, and how numbers become elements and elements numbers. */
export const TYPES = {
  float32: [Float32Array], int32: [Int32Array], uint8: [Uint8Array], int8: [Int8Array], int16: [Int16Array],
  int64: [BigInt64Array, BigInt, Number], bool: [Uint8Array, (each) => (each ? 1 : 0)],
  float16: [Uint16Array, toHalf, half], bfloat16: [Uint16Array, toBrain, brain],
};

export const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

/** Return the elements of an input, which is a typed array of the element type, or numbers in nested lists. */
export function elements(port, value) {
  const [Kind, toElement] = TYPES[port.dtype];
  const given = value !== null && typeof value === "object" && "data" in value ? value.data : value;
  let data = given;
  if (!(data instanceof Kind)) {
    data = typeof data === "number" || typeof data === "bigint" || typeof data === "boolean" ? [data] : data;
    if (!Array.isArray(data) && !ArrayBuffer.isView(data)) {
      throw new TypeError(`input '${port.name}' must be a ${Kind.name} or numbers, got ${data === null ? data : typeof data}`);
    }
    data = Array.isArray(data) ? data.flat(Infinity) : data;
    data = toElement ? Kind.from(data, toElement) : Kind.from(data, Number);
  }
  return data;
}

/** Return the elements of an input as their bytes. */
export function encode(port, value) {
  const data = elements(port, value), count = product(port.shape);
  if (data.length !== count) {
    throw new RangeError(`input '${port.name}' has shape [${port.shape}], ${count} elements, got ${data.length}`);
  }
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Return an output: its elements, and how they become numbers. */
export const tensorOf = (data, dtype, shape) => ({ data, dtype, shape, toNumbers: () => Array.from(data, TYPES[dtype][2] ?? Number) });

/** Return the elements of a tensor of one shape in another: what both have stays where it is, and the rest is zeros. */
export function fitted(data, from, to) {
  const last = from.findLastIndex((size, at) => size !== to[at]);
  if (last < 0) return data;
  const result = new data.constructor(product(to)), steps = [from, to].map((each) => each.map((_, at) => product(each.slice(at + 1))));
  const copy = (dimension, source, target) => {
    const count = Math.min(from[dimension], to[dimension]), [one, other] = steps.map((each) => each[dimension]);
    if (dimension === last) return result.set(data.subarray(source, source + count * one), target);
    for (let at = 0; at < count; at++) copy(dimension + 1, source + at * one, target + at * other);
  };
  copy(0, 0, 0);
  return result;
}
