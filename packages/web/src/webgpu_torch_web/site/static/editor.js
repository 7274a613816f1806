// The playground's editor: CodeMirror with Python, and completion of the library's own names.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: "light-dark(#8a2a8f, #d79be0)" },
  { tag: [tags.string, tags.special(tags.string)], color: "light-dark(#1b6b33, #9fd6a8)" },
  { tag: [tags.number, tags.bool, tags.null], color: "light-dark(#a04a00, #f0b57c)" },
  { tag: [tags.comment], color: "light-dark(#666f7c, #98a1ae)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "light-dark(#0b57c2, #8fbcff)" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--ink)" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-scroller": { overflow: "auto" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-tooltip": { background: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)" },
});

// names: prefix such as "torch." -> what may follow it.
export function createEditor(parent, text, names, run) {
  const complete = (context) => {
    const word = context.matchBefore(/[A-Za-z_][\w.]*/);
    if (!word) return null;
    const dot = word.text.lastIndexOf(".");
    const prefix = word.text.slice(0, dot + 1);
    // Whatever has no name of its own here is taken for a tensor.
    const known = names[prefix] ?? (prefix ? names["tensor."] : names[""]);
    if (!known || (!context.explicit && !prefix && word.text.length < 2)) return null;
    return { from: word.from + dot + 1, options: known.map((label) => ({ label })), validFor: /^\w*$/ };
  };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
        indentUnit.of("    "), python(), syntaxHighlighting(colours), theme, autocompletion({ override: [complete] }),
        EditorView.contentAttributes.of({ "aria-label": "Program" }),
        keymap.of([
          { key: "Mod-Enter", run: () => { run(); return true; } },
          ...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab,
        ]),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
  };
}
