/* A definition and its kernels are loaded when their place is opened: scripts, so that pages opened as files work too. */
function showSource(number, html) {
  for (const place of document.querySelectorAll(`details.source[data-source="${number}"]`)) {
    const shown = document.createElement("div");
    shown.innerHTML = html;
    place.append(shown);
  }
}

document.addEventListener("toggle", (event) => {
  const place = event.target;
  if (!place.matches?.("details.source") || place.dataset.asked) return;
  place.dataset.asked = "yes";
  const script = document.createElement("script");
  script.src = `${document.documentElement.dataset.content_root}_static/sources/${place.dataset.source}.js`;
  script.onerror = () => showSource(place.dataset.source, "<p>The source could not be loaded.</p>");
  document.head.append(script);
}, true);

/* Rows of a long table, and the field that filters them: every word must be in a row. */
function showRows(name, rows) {
  const place = document.querySelector(`[data-rows="${name}"]`);
  const body = place.querySelector("tbody");
  const texts = rows.map((row) => row.join(" ").replace(/<[^>]+>/g, "").toLowerCase());
  body.innerHTML = rows.map((row) => `<tr><td>${row.join("</td><td>")}</td></tr>`).join("");
  const field = place.querySelector("input");
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    texts.forEach((text, number) => {
      const shown = words.every((word) => text.includes(word));
      body.rows[number].hidden = !shown;
      count += shown;
    });
    place.querySelector(".count").textContent = words.length ? `${count} shown` : "";
  };
  field.addEventListener("input", filter);
  filter();
}

document.addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll("[data-rows]")) {
    const script = document.createElement("script");
    script.src = `${document.documentElement.dataset.content_root}_static/tables/${place.dataset.rows}.js`;
    document.head.append(script);
  }
});
