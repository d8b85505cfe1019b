/* Keys and small conveniences. Everything reads and works without it. */
"use strict";
const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;
const keysOff = document.body.dataset.keys === "off";
const rows = () => [...document.querySelectorAll(".row .t, .q a")];

const keySet = new URLSearchParams(location.search).get("keys");
if (keySet === "0" || keySet === "1") document.cookie = `keys=${keySet}; path=/; max-age=31536000; samesite=strict`;

function press(selector) {
  const scope = document.activeElement?.closest("li, .hero, .bar-act") || document;
  const found = scope.querySelector(selector) || document.querySelector(selector);
  if (!found) return false;
  if (found.matches("textarea")) { found.closest("details")?.setAttribute("open", ""); found.focus(); }
  else found.click();
  return true;
}

addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key === "Enter" && e.target.form) { e.target.form.requestSubmit(); return; }
  if (keysOff || typing(e) || e.metaKey || e.ctrlKey || e.altKey || document.querySelector("dialog[open]")) return;
  const list = rows();
  const at = list.indexOf(document.activeElement);
  const go = (path) => { location.href = path; };
  switch (e.key) {
    case "j": list[Math.min(at + 1, list.length - 1)]?.focus(); break;
    case "k": list[Math.max(at - 1, 0)]?.focus(); break;
    case "/": document.getElementById("q")?.focus(); break;
    case "?": document.getElementById("help")?.showModal(); break;
    case "b": go("/"); break;
    case "v": go("/review"); break;
    default:
      if (!press(`[data-key="${CSS.escape(e.key)}"]`)) return;
  }
  e.preventDefault();
});
