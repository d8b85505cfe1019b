/* Keys, live pieces and small conveniences. Everything reads and works without it. */
"use strict";
const $ = (selector, scope = document) => scope.querySelector(selector);
const $$ = (selector, scope = document) => [...scope.querySelectorAll(selector)];
const UNASKED = { "X-Loopwright-Unasked": "1" };
const home = $(".brand")?.getAttribute("href") || "/"; // the top of a repository, where there are several
const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;

/* --- keys: all of them are buttons or links, too ------------------------------------------ */
const asked = new URLSearchParams(location.search).get("keys");
if (asked === "0" || asked === "1") document.cookie = `keys=${asked}; path=/; max-age=31536000; samesite=strict`;
const keysOff = asked ? asked === "0" : document.body.dataset.keys === "off";
const rows = () => $$(".row .t, .q a");

function press(key) {
  const all = `[data-key="${CSS.escape(key)}"]`;
  const scope = document.activeElement?.closest("li, .hero, .bar-act");
  const found = (scope && $(all, scope)) || (scope?.tagName === "LI" ? null : $(all));
  if (!found) return false;
  if (found.matches("textarea, input")) { found.closest("details")?.setAttribute("open", ""); found.focus(); } else found.click();
  return true;
}

addEventListener("keydown", (e) => {
  if ((e.metaKey || e.ctrlKey) && e.key === "Enter" && e.target.form) { e.target.form.requestSubmit(); return; }
  if (e.key === "Escape" && typing(e)) { e.target.blur(); return; }
  if (keysOff || typing(e) || e.metaKey || e.ctrlKey || e.altKey || $("dialog[open]")) return;
  const list = rows();
  const row = document.activeElement?.closest("li");
  const at = list.indexOf((row && $(".t", row)) || document.activeElement);
  const step = (to) => { list[to]?.focus(); list[to]?.scrollIntoView({ block: "nearest" }); };
  switch (e.key) {
    case "j": step(Math.min(at + 1, list.length - 1)); break;
    case "k": step(Math.max(at - 1, 0)); break;
    case "/": $("#q")?.focus(); break;
    case "?": $("#help")?.showModal(); break;
    case "n": case "p": { // files of a review
      const files = [...document.querySelectorAll("details.file > summary")];
      if (!files.length) { if (!press(e.key)) return; break; }
      const place = files.indexOf(document.activeElement) + (e.key === "n" ? 1 : -1);
      const file = files[Math.max(0, Math.min(place, files.length - 1))];
      file.focus(); file.parentElement.scrollIntoView({ block: "start" });
      break;
    }
    case "b": location.href = home; break;
    case "v": $('.nav a[href$="/review"]')?.click(); break;
    case ".": sortAnew(); break;
    default:
      if (!press(e.key)) return;
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

/* --- a form that was sent is locked until it is answered ------------------------------------ */
addEventListener("submit", (e) => {
  const button = e.submitter;
  if (!button || e.target.method === "dialog" || e.target.method === "get" || e.defaultPrevented) return;
  setTimeout(() => { button.disabled = true; button.setAttribute("aria-busy", "true"); });
  setTimeout(() => { if (button.isConnected && button.disabled) button.textContent += " · still at it"; }, 10000);
});
addEventListener("pageshow", () => $$("button[aria-busy]").forEach((b) => { b.disabled = false; b.removeAttribute("aria-busy"); }));
addEventListener("htmx:afterRequest", (e) => $$("button[aria-busy]", e.target).forEach((b) => { b.disabled = false; b.removeAttribute("aria-busy"); }));
addEventListener("htmx:beforeSwap", (e) => {
  /* A refusal is shown where the deed was done; what was typed stays. */
  if (e.detail.xhr.status < 400 || !e.target.closest) return;
  if (e.detail.target.matches("li[data-event]") && e.detail.xhr.responseText.includes("<li")) { e.detail.shouldSwap = true; return; }
  const form = e.detail.requestConfig.elt.closest("form") || e.detail.target;
  let said = $(".said", form);
  if (!said) { said = document.createElement("div"); said.className = "said"; form.append(said); }
  said.innerHTML = e.detail.xhr.responseText;
  e.detail.shouldSwap = false;
});

/* --- live: one stream, pieces by name ------------------------------------------------------- */
const address = document.body.dataset.live;
const says = $("#live .says");
const dot = $("#live .dot");
const board = $("#board");
const moved = new Set();
let source = null, last = "", heard = 0, poll = 0, pointer = false, again = 0;

const clock = () => new Date().toTimeString().slice(0, 5);
function show(live) {
  if (!says) return;
  const text = live ? "live" : `not live since ${show.since ||= clock()}`;
  if (live) show.since = "";
  says.title = live ? "" : "If the runner ended: loopwright serve shows these pages again";
  if (says.textContent !== text) says.textContent = text;
  dot.classList.toggle("off", !live);
}
const written = (scope) => $$("textarea, input[type=text], input:not([type])", scope).some((f) => f.value !== f.defaultValue && f.value.trim());
const frozen = () => pointer || (board && board.contains(document.activeElement)) || (board && written(board));

function put(element, html) {
  if (!element.matches("li")) {
    if (written(element)) return;
    element.innerHTML = html;
    globalThis.htmx?.process(element);
    return;
  }
  const box = document.createElement("template");
  box.innerHTML = html.trim();
  const fresh = box.content.firstElementChild;
  if (!fresh) return;
  const was = element.dataset.group, mine = element.contains(document.activeElement);
  if (fresh.dataset.group !== was) { moved.add(fresh.id); fresh.classList.add("moved"); }
  if (written(element) || (mine && document.activeElement.matches("textarea, input"))) {
    $(".w", element)?.replaceWith($(".w", fresh));
    $(".s", element)?.replaceWith($(".s", fresh));
    return;
  }
  const open = $("details[open]", element);
  if (open) $("details", fresh)?.setAttribute("open", "");
  element.replaceWith(fresh);
  if (mine) $(".t", fresh)?.focus({ preventScroll: true });
  globalThis.htmx?.process(fresh);
}

function offer() {
  const line = $("#moved");
  if (!line || !moved.size) return;
  if (!frozen()) { clearTimeout(again); again = setTimeout(sortAnew, 150); return; }
  line.hidden = false;
  line.textContent = `${moved.size} changed place · press . to sort`;
}

async function sortAnew() {
  if (!board) return;
  const answer = await fetch(`${home}ui/board${location.search}`, { headers: { "HX-Request": "true", ...UNASKED } }).catch(() => null);
  if (!answer?.ok) return;
  const focus = document.activeElement?.closest("li[id]")?.id;
  const typed = $$("textarea", board).filter((f) => f.value !== f.defaultValue).map((f) => [f.id, f.value, f === document.activeElement]);
  board.innerHTML = await answer.text();
  for (const [id, value, active] of typed) {
    const field = document.getElementById(id);
    if (!field) continue;
    field.value = value;
    field.closest("details")?.setAttribute("open", "");
    if (active) field.focus();
  }
  if (focus && !typed.some((t) => t[2])) $(".t", document.getElementById(focus) || board)?.focus({ preventScroll: true });
  moved.clear();
  const line = $("#moved");
  if (line) line.hidden = true;
  globalThis.htmx?.process(board);
}

function take(e) {
  heard = Date.now();
  if (e.lastEventId) last = e.lastEventId;
  const { name, html } = JSON.parse(e.data);
  show(true);
  if (name === "beat" || name === "hello") return;
  if (name === "reset") { again_all(); return; }
  if (name === "changed") { anew(); return; }
  const found = $$(`[data-event="${CSS.escape(name)}"]`);
  found.forEach((element) => put(element, html));
  if (!found.length && name.startsWith("row:") && board) moved.add(name);
  offer();
  document.body.dispatchEvent(new CustomEvent("live", { detail: { name, html } }));
}

function again_all() {
  if (!board) anew();
  else if (frozen()) { moved.add("all"); offer(); } else sortAnew();
  document.body.dispatchEvent(new CustomEvent("live", { detail: { name: "reset" } }));
}

/* A page that is made as a whole: made once more if nobody is at it, else there is a link that does it. */
async function anew() {
  const main = $("#main"), at = document.activeElement;
  const ticked = $$("input[type=checkbox]", main).some((f) => f.checked !== f.defaultChecked);
  if (!ticked && !written(main) && !main.matches(":hover") && (at === main || !main.contains(at))) {
    const answer = await fetch(location.href, { headers: UNASKED }).catch(() => null);
    const fresh = answer?.ok && $("#main", new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (fresh) { main.replaceChildren(...fresh.childNodes); globalThis.htmx?.process(main); return; }
  }
  if (!says || $("#reload")) return;
  const link = document.createElement("a");
  Object.assign(link, { id: "reload", className: "link", href: location.href, textContent: "changed: reload" });
  link.addEventListener("click", (e) => { e.preventDefault(); location.reload(); });
  says.after(" · ", link);
}

function goLive() {
  if (!address || source || document.hidden) return;
  const url = last ? `${address}${address.includes("?") ? "&" : "?"}last=${encodeURIComponent(last)}` : address;
  source = new EventSource(url);
  source.onmessage = take;
  source.onerror = () => { if (source?.readyState === 2) { source.close(); source = null; } };
}
function endLive() { source?.close(); source = null; }

if (address) {
  addEventListener("pointerover", (e) => { pointer = Boolean(e.target.closest?.("#board .rows")); if (!pointer && moved.size) offer(); });
  document.documentElement.addEventListener("pointerleave", () => { pointer = false; offer(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) endLive(); else goLive(); });
  addEventListener("pagehide", endLive);
  heard = Date.now();
  setInterval(() => {
    if (document.hidden) return;
    if (Date.now() - heard <= 10000) return;
    show(false);
    if (!source) goLive();
    if (Date.now() - poll > 15000) { poll = Date.now(); if (board && !frozen()) sortAnew(); }
  }, 2500);
  goLive();
}

/* A comment is begun by a link: its place is in the address, so the browser itself focuses nothing. */
$("#ct")?.focus({ preventScroll: true });
