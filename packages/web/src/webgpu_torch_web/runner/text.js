// Text generation for folders that webgpu_torch.web.export_text wrote: sampling, and the loop over tokens.

import { load, randomNumbers } from "./runner.js";
import { Tokenizer } from "./tokenizer.js";

export { Tokenizer };

/** Draw a token: logits over temperature, the topK most likely ones, of them the first that add up to topP. */
export function sample(logits, { temperature = 1, topK = 50, topP = 1 }, draw) {
  const order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
  const kept = topK > 0 ? order.slice(0, topK) : order;
  const weights = kept.map((token) => Math.exp((logits[token] - logits[kept[0]]) / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  let count = 0, mass = 0;
  while (count < kept.length && (count === 0 || mass < topP * total)) mass += weights[count++];
  let rest = draw() * mass;
  for (let i = 0; i < count; i++) {
    rest -= weights[i];
    if (rest < 0) return kept[i];
  }
  return kept[count - 1];
}

/** A language model: its tokenizer, and text that follows a prompt. */
class TextModel {
  constructor(model, tokenizer) {
    Object.assign(this, { model, tokenizer, _busy: Promise.resolve() });
  }

  /** Yield the tokens that follow those of a prompt; one answer at a time, for all share the cache. */
  async *tokens(prompt, options = {}) {
    const before = this._busy;
    let done;
    this._busy = new Promise((resolve) => { done = resolve; });
    await before;
    try {
      yield* this._tokens(prompt, options);
    } finally {
      done();
    }
  }

  async *_tokens(prompt, { maxTokens = 100, temperature = 0, topK = 50, topP = 1, seed = Date.now() }) {
    const { functions, plan: { text: plan } } = this.model;
    if (!prompt.length) throw new RangeError("the prompt has no tokens");
    if (prompt.length >= plan.capacity) {
      throw new RangeError(`the prompt has ${prompt.length} tokens; prompt and answer have room for ${plan.capacity}`);
    }
    const count = prompt.length - 1, draw = randomNumbers(seed);
    if (count) {
      const length = plan.prefill.find((each) => each >= count);
      const tokens = BigInt64Array.from({ length }, (_, at) => BigInt(prompt[Math.min(at, count)]));
      await functions[`prefill${length}`].run({ tokens });
    }
    let token = prompt[count];
    const last = Math.min(plan.capacity, prompt.length + maxTokens - 1);
    for (let position = count; position < last; position++) {
      const window = plan.decode.find((each) => each > position);
      const wanted = temperature > 0 ? "logits" : "best";
      const found = await functions[`decode${window}`].run({ token, position }, { read: [wanted] });
      const { data } = found[wanted];
      token = temperature > 0 ? sample(data, { temperature, topK, topP }, draw) : Number(data[0]);
      yield token;
      if (plan.end.includes(token)) return;
    }
  }

  /** Return the text that follows a prompt; `onText` is told each piece as it comes. */
  async generate(prompt, { onText, ...options } = {}) {
    const ids = [];
    let text = "";
    for await (const token of this.tokens(this.tokenizer.encode(prompt), options)) {
      ids.push(token);
      const now = this.tokenizer.decode(ids, { skipSpecialTokens: true });
      // A character may take several tokens.
      if (now.endsWith("\ufffd")) continue;
      onText?.(now.slice(text.length));
      text = now;
    }
    return this.tokenizer.decode(ids, { skipSpecialTokens: true });
  }
}

/** Load a language model; options are those of `load` of runner.js. */
export async function loadText(url, options = {}) {
  const model = await load(url, options);
  return new TextModel(model, new Tokenizer(await model.json("tokenizer.json")));
}
