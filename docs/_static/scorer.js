/* How results of the search are ordered: Sphinx's own numbers, and first of all the object whose name was typed, in full, without
   the leading "webgpu_", or by its last parts. */
var asked = (new URLSearchParams(location.search).get("q") ?? "").trim().toLowerCase();

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score(result) {
    const [, title, , , score, , kind] = result;
    if (kind !== "object") return score;
    // Programs say torch, and so does the list.
    result[1] = title.replace(/^webgpu_torch\./, "torch.");
    const name = result[1].toLowerCase();
    if (name === asked || `webgpu_${name}` === asked) return 1000;
    return name.endsWith(`.${asked}`) ? 500 - name.length : score;
  },
};
