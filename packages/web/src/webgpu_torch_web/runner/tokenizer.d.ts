/** Byte-level byte-pair encoding. */

export class Tokenizer {
  /** described: what tokenizer.json holds. */
  constructor(described: object);
  encode(text: string, options?: { addSpecialTokens?: boolean }): number[];
  decode(ids: Iterable<number>, options?: { skipSpecialTokens?: boolean }): string;
}
