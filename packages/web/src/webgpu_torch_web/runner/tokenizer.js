// Byte-level byte-pair encoding as tokenizer.json describes it.

/** Return the characters that stand for bytes: printable ones for themselves, others from 256 on (as in GPT-2). */
function byteCharacters() {
  const characters = [];
  for (let byte = 0, others = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    characters.push(String.fromCodePoint(printable ? byte : 256 + others++));
  }
  return characters;
}
const CHARACTERS = byteCharacters();
const BYTES = new Map(CHARACTERS.map((character, byte) => [character, byte]));
const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** Return the expression of a pattern in Rust's syntax, whose (?i:…) some engines do not know. */
function expression(pattern) {
  if (pattern.String !== undefined) return new RegExp(escaped(pattern.String), "gu");
  const text = pattern.Regex;
  try {
    return new RegExp(text, "gu");
  } catch {
    const plain = text.replace(/\(\?i:([^()]*)\)/g, (_, inside) =>
      `(?:${inside.replace(/\p{L}/gu, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`)})`);
    return new RegExp(plain.replace(/([*+?]|\{\d+(?:,\d*)?\})\+/g, "$1"), "gu");
  }
}

/** Return the parts of a text between the matches of an expression and the matches, as its behaviour says. */
function split(text, pattern, behavior, invert) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > last) parts.push([text.slice(last, match.index), false]);
    if (match[0]) parts.push([match[0], true]);
    last = match.index + match[0].length;
  }
  if (last < text.length) parts.push([text.slice(last), false]);
  if (behavior === "Removed") return parts.filter(([, matched]) => matched === !!invert).map(([part]) => part);
  if (behavior === "MergedWithNext" || behavior === "MergedWithPrevious") {
    const merged = [];
    let open = false;
    for (const [part, matched] of parts) {
      const delimits = matched !== !!invert, joins = behavior === "MergedWithNext" ? open && !delimits : delimits && open;
      if (joins) merged[merged.length - 1] += part;
      else merged.push(part);
      open = behavior === "MergedWithNext" ? delimits : !delimits;
    }
    return merged;
  }
  return parts.map(([part]) => part);
}

function preTokenize(described, text) {
  if (!described) return [text];
  switch (described.type) {
    case "Sequence":
      return described.pretokenizers.reduce((parts, each) => parts.flatMap((part) => preTokenize(each, part)), [text]);
    case "Split":
      return split(text, expression(described.pattern), described.behavior, described.invert);
    case "Digits":
      return split(text, described.individual_digits ? /\p{N}/gu : /\p{N}+/gu, "Isolated");
    case "ByteLevel": {
      const given = described.add_prefix_space && !/^\s/u.test(text) ? ` ${text}` : text;
      const words = described.use_regex === false ? [given] : (given.match(WORDS) ?? []);
      const encoder = new TextEncoder();
      return words.map((word) => Array.from(encoder.encode(word), (byte) => CHARACTERS[byte]).join(""));
    }
    default:
      throw new Error(`the pre-tokenizer ${described.type} is not known here`);
  }
}

function normalize(described, text) {
  if (!described) return text;
  if (described.type === "Sequence") return described.normalizers.reduce((given, each) => normalize(each, given), text);
  if (described.type === "Replace") return text.replace(expression(described.pattern), () => described.content);
  return described.type === "Lowercase" ? text.toLowerCase() : text.normalize(described.type);
}

/** Byte-level byte-pair encoding, read from tokenizer.json. */
export class Tokenizer {
  constructor(described) {
    this._described = described;
    this._vocabulary = new Map(Object.entries(described.model.vocab));
    this._ranks = new Map(described.model.merges.map((each, rank) => [Array.isArray(each) ? each.join(" ") : each, rank]));
    this._added = new Map(described.added_tokens.map((each) => [each.content, each]));
    this._tokens = new Map([...this._vocabulary].map(([text, id]) => [id, text]));
    this._special = new Map(described.added_tokens.map((each) => [each.id, each]));
    const longest = [...this._added.keys()].sort((a, b) => b.length - a.length);
    this._between = longest.length ? new RegExp(`(${longest.map(escaped).join("|")})`, "u") : null;
    this._known = new Map();
  }

  /** Return the tokens of a text. */
  encode(text, { addSpecialTokens = true } = {}) {
    const ids = [];
    for (const part of this._between ? text.split(this._between) : [text]) {
      const added = this._added.get(part);
      if (added) ids.push(added.id);
      else if (part) {
        const words = preTokenize(this._described.pre_tokenizer, normalize(this._described.normalizer, part));
        for (const word of words) ids.push(...this._word(word));
      }
    }
    return addSpecialTokens ? this._processed(ids) : ids;
  }

  /** Return the text of tokens. */
  decode(ids, { skipSpecialTokens = false } = {}) {
    const decoder = new TextDecoder();
    let text = "", bytes = [];
    const flush = () => { text += decoder.decode(new Uint8Array(bytes)); bytes = []; };
    for (const id of ids) {
      const added = this._special.get(id);
      if (!added) bytes.push(...Array.from(this._tokens.get(id) ?? "", (each) => BYTES.get(each)));
      else if (!(skipSpecialTokens && added.special)) { flush(); text += added.content; }
    }
    flush();
    return text;
  }

  /** Join the pairs of a word that were learnt first, one after another. */
  _word(word) {
    const known = this._known.get(word);
    if (known) return known;
    const whole = this._described.model.ignore_merges ? this._vocabulary.get(word) : undefined;
    let parts = whole === undefined ? Array.from(word) : [word];
    if (parts.length) parts[parts.length - 1] += this._described.model.end_of_word_suffix ?? "";
    while (parts.length > 1) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this._ranks.get(`${parts[i]} ${parts[i + 1]}`);
        if (rank !== undefined && rank < best) [best, at] = [rank, i];
      }
      if (at < 0) break;
      const [first, second] = [parts[at], parts[at + 1]], joined = [];
      for (let i = 0; i < parts.length; i++) {
        if (parts[i] === first && parts[i + 1] === second) { joined.push(first + second); i++; } else joined.push(parts[i]);
      }
      parts = joined;
    }
    const unknown = this._described.model.unk_token;
    const ids = parts.map((part) => this._vocabulary.get(part) ?? this._vocabulary.get(unknown)).filter((id) => id !== undefined);
    if (this._known.size < 65536) this._known.set(word, ids);
    return ids;
  }

  _processed(ids) {
    const all = (described) => {
      if (described?.type === "Sequence") return described.processors.flatMap(all);
      return described && described.type !== "ByteLevel" ? [described] : [];
    };
    for (const { cls, sep, single, special_tokens } of all(this._described.post_processor)) {
      if (cls) ids = [cls[1], ...ids, sep[1]];
      else ids = single.flatMap((each) => (each.SpecialToken ? special_tokens[each.SpecialToken.id].ids : ids));
    }
    return ids;
  }
}
