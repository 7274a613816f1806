/** Runs what webgpu_torch.web.export wrote. */

export type ElementType =
  | "float32" | "float16" | "bfloat16" | "int64" | "int32" | "int16" | "int8" | "uint8" | "bool";
export type Elements =
  | Float32Array | Uint16Array | BigInt64Array | Int32Array | Int16Array | Int8Array | Uint8Array;
export type Nested = number | bigint | boolean | Nested[];

/** An input or output: its name, element type and shape. */
export interface Port {
  readonly name: string;
  readonly dtype: ElementType;
  readonly shape: readonly number[];
}

/** An output's elements; float16 and bfloat16 are their bits, which toNumbers() turns into numbers. */
export interface Tensor {
  readonly data: Elements;
  readonly dtype: ElementType;
  readonly shape: readonly number[];
  toNumbers(): number[];
}

export type Input = Elements | Nested | { readonly data: Elements };
export type Result = Record<string, Tensor>;

export interface RunOptions {
  /** Names of the outputs to read back; all by default. */
  read?: readonly string[];
}

export interface ExportedFunction {
  /** Where several lengths were exported: these; the inputs' and outputs' shapes are then those of the longest. */
  readonly lengths?: readonly number[];
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  /** What the function returned that is no tensor. */
  readonly values: Readonly<Record<string, boolean | number | string>>;
  run(inputs?: Record<string, Input>, options?: RunOptions): Promise<Result>;
  /** Compile the function's kernels: the first run does, too. */
  prepare(): Promise<unknown>;
}

/** A loaded folder. `inputs`, `outputs` and `run` are those of its first function. */
export interface Model extends Pick<ExportedFunction, "inputs" | "outputs" | "run"> {
  readonly functions: Readonly<Record<string, ExportedFunction>>;
  readonly device: GPUDevice;
  /** What a file of JSON in the folder holds. */
  json(name: string): Promise<unknown>;
  destroy(): void;
}

export interface LoadOptions {
  /** Where to ask for an adapter: navigator.gpu by default; in Node what the package webgpu creates. */
  gpu?: GPU;
  /** A device of yours; it needs the features and limits of the export. */
  device?: GPUDevice;
  /** Called while weights are downloaded, with bytes. */
  onProgress?(progress: { loaded: number; total: number }): void;
  /** Whether to keep weights in the browser's cache (true by default). */
  cache?: boolean;
  /** Whether to take the kernels for adapters whose work the host does, which need subgroups; by default the adapter tells. */
  software?: boolean;
}

/** What the folder needs and this browser, adapter or Node lacks. */
export class UnsupportedError extends Error {}

export function load(url: string | URL, options?: LoadOptions): Promise<Model>;
export function widen(bits: Uint16Array): Float32Array;
export function unpack(bytes: Uint8Array): Float32Array;
export function toHalf(value: number): number;
export function toBrain(value: number): number;
/** Return a function that draws numbers from 0 to 1, the same ones for the same seed. */
export function randomNumbers(seed: number): () => number;
