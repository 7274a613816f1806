/** Text generation for folders that webgpu_torch.web.export_text wrote. */
import type { LoadOptions, Model } from "./runner.js";
import type { Tokenizer } from "./tokenizer.js";

export { Tokenizer } from "./tokenizer.js";

export interface GenerateOptions {
  /** Most tokens of the answer (100 by default). */
  maxTokens?: number;
  /** 0, the default, takes the most likely token. */
  temperature?: number;
  /** Draw among that many most likely tokens (50 by default; 0 is all). */
  topK?: number;
  /** Draw among the most likely tokens whose probabilities add up to it (1 by default: all). */
  topP?: number;
  /** The same seed draws the same tokens. */
  seed?: number;
}

export interface TextModel {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
  tokens(prompt: readonly number[], options?: GenerateOptions): AsyncGenerator<number, void>;
  generate(prompt: string, options?: GenerateOptions & { onText?(piece: string): void }): Promise<string>;
}

export function sample(
  logits: ArrayLike<number> & { keys(): IterableIterator<number> },
  options: { temperature?: number; topK?: number; topP?: number },
  draw: () => number,
): number;
export function loadText(url: string | URL, options?: LoadOptions): Promise<TextModel>;
