"use strict";
const data = JSON.parse(byId("data").textContent);
const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = byId("theme");

function useTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  theme.setAttribute("aria-pressed", String(dark));
}

useTheme(wantsDark.matches);
const drawing = new Drawing(data.graph);
const timeline = data.steps.length ? new Timeline(data.steps, drawing) : null;

function changeTheme(dark) {
  useTheme(dark);
  drawing.draw();
  timeline?.draw();
}

theme.addEventListener("click", () => changeTheme(document.documentElement.dataset.theme !== "dark"));
wantsDark.addEventListener("change", (event) => changeTheme(event.matches));
for (const button of document.querySelectorAll("button[data-node]")) {
  const node = data.graph.name.indexOf(button.dataset.node);
  if (node < 0 || data.graph.is_reduced) button.replaceWith(element("code", {}, button.textContent));
  else button.addEventListener("click", () => { byId("graph").scrollIntoView({ block: "center" }); drawing.show(node); });
}
document.documentElement.dataset.ready = String(Math.round(performance.now()));
