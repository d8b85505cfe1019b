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

/* A log that grows: what is added comes as JSON of the API, and is put in as text. */
const logBox = document.querySelector(".log.lines");
if (logBox) {
  const kinds = { tool: "tool", words: "say", output: "out", error: "err", note: "note", gap: "gap" };
  const follow = document.getElementById("follow");
  const toEnd = () => { logBox.scrollTop = logBox.scrollHeight; };
  let after = logBox.dataset.after, stream = null;
  const add = (told) => {
    logBox.querySelectorAll(".open").forEach((each) => each.remove());
    for (const line of told.lines) {
      if (logBox.dataset.errors && line.kind !== "error") continue;
      const row = document.createElement("div"), number = document.createElement("span"), text = document.createElement("span");
      row.className = kinds[line.kind] + (line.open ? " open" : "");
      number.textContent = line.number ?? "";
      text.textContent = line.text;
      row.append(number, text);
      logBox.append(row);
    }
    while (logBox.childElementCount > 3000) logBox.firstElementChild.remove();
    after = told.after;
    if (follow?.checked) toEnd();
  };
  const listen = () => {
    if (stream || !logBox.dataset.follow) return;
    stream = new EventSource(`${logBox.dataset.follow}?after=${after}`);
    stream.addEventListener("message", (e) => add(JSON.parse(e.data)));
    stream.addEventListener("end", () => { stream.close(); delete logBox.dataset.follow; });
  };
  if (!new URLSearchParams(location.search).has("after")) toEnd();
  follow?.addEventListener("change", () => { if (follow.checked) toEnd(); });
  logBox.addEventListener("scroll", () => { if (follow) follow.checked = logBox.scrollHeight - logBox.scrollTop - logBox.clientHeight < 24; });
  document.addEventListener("visibilitychange", () => { if (document.hidden) { stream?.close(); stream = null; } else listen(); });
  listen();
}
