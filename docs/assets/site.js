// Copy buttons on code, and a switch between light and dark. Nothing is loaded from elsewhere.
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const prefersDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const show = (theme) => { root.dataset.theme = theme; };
  show(stored() ?? (prefersDark() ? "dark" : "light"));

  const button = (text, title, name, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.title = title;
    made.className = `site-button ${name}`;
    made.addEventListener("click", () => action(made));
    return made;
  };

  const toggle = () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    show(theme);
    try { localStorage.setItem("theme", theme); } catch { /* private mode: it lasts for this page */ }
  };

  // The commands of a console block, without prompts and output; else the whole text.
  const copied = (text) => {
    const commands = text.split("\n").filter((line) => line.startsWith("$ "));
    return commands.length ? commands.map((line) => line.slice(2)).join("\n") : text.replace(/\n$/, "");
  };

  const start = () => {
    (document.querySelector(".wy-breadcrumbs") ?? document.querySelector(".wy-nav-content"))
      ?.append(button("◐", "Switch between light and dark", "theme-button", toggle));
    for (const block of document.querySelectorAll(".rst-content pre")) {
      const text = copied(block.textContent);
      (block.closest(".codehilite") ?? block).append(
        button("copy", "Copy this code", "copy-button", async (it) => {
          await navigator.clipboard.writeText(text);
          it.textContent = "copied";
          setTimeout(() => { it.textContent = "copy"; }, 1500);
        }));
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
