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
