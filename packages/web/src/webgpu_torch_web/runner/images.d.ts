/** Images of texts for folders that webgpu_torch.web.export_images wrote. */
import type { LoadOptions, Model } from "./runner.js";
import type { Tokenizer } from "./tokenizer.js";

export { Tokenizer } from "./tokenizer.js";

export interface PaintOptions {
  /** What is not wanted. */
  negative?: string;
  /** How much the text counts (7.5 by default). */
  guidance?: number;
  /** One of the numbers of steps that were exported. */
  steps?: number;
  /** The same seed draws the same noise. */
  seed?: number;
  /** The noise itself, of the latents' shape. */
  noise?: Float32Array;
  /** Where the image is drawn. */
  canvas?: HTMLCanvasElement | OffscreenCanvas;
  onStep?(step: number, total: number): void;
}

export interface Picture {
  width: number;
  height: number;
  /** Red, green, blue and opacity of each pixel. */
  data: Uint8ClampedArray;
}

export interface ImageModel {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
  encode(text: string): Promise<Float32Array>;
  paint(prompt: string, options?: PaintOptions): Promise<Picture>;
}

export function loadImages(url: string | URL, options?: LoadOptions): Promise<ImageModel>;
