// Small things that the whole page is made of.

import { html, useState, useRef, useEffect } from "./vendor/preact.js";
import { ask, asCurl, asPytest } from "./api.js";

export const span = (ms) => {
  if (ms === null || ms === undefined) return "–";
  const s = ms / 1000;
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
};

export const count = (number) =>
  number === null || number === undefined ? "–" : String(number).replace(/\B(?=(\d{3})+$)/g, " ");

// "0-3 5": the numbers of partitions, runs of them joined.
export const ranges = (numbers) => {
  const found = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => (first === last ? first : last === first + 1 ? `${first} ${last}` : `${first}–${last}`)).join(" ");
};

export const STATE_TONES = {
  Stable: "good", Empty: "quiet", Dead: "quiet", PreparingRebalance: "busy", CompletingRebalance: "busy",
  Assigning: "busy", Reconciling: "busy",
};

export const State = ({ name }) => html`<span class="state ${STATE_TONES[name] || "quiet"}">${name}</span>`;

// A button that asks for something, with the same as a command and as a test beside it.
export function Act({ at, label, method = "POST", where, body, danger, done, hint, disabled }) {
  const [said, say] = useState("");
  const [isBusy, setBusy] = useState(false);
  const off = at.control && !at.control.is_on;
  const go = async () => {
    setBusy(true);
    say("");
    try {
      const answer = await ask(at.namespace, method, where, body);
      if (done) say(done(answer) || "");
      at.refresh();
    } catch (error) {
      say(error.message);
    }
    setBusy(false);
  };
  return html`<span class="act">
    <span class="split">
      <button class=${danger ? "danger" : ""} disabled=${off || disabled || isBusy} title=${off ? at.control.why_off : hint} onClick=${go}>${label}</button>
      <${Copy} name="curl" label=${label} text=${() => asCurl(at.namespace, method, where, body)} />
      <${Copy} name="pytest" label=${label} text=${() => asPytest(method, where, body)} />
    </span>
    ${said && html`<span class="said" role="status">${said}</span>`}
  </span>`;
}

function Copy({ name, label, text }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await put(text());
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button class="copy" aria-label="Copy “${label}” as ${name}" title="Copy as ${name}" onClick=${copy}>${isDone ? "copied" : name}</button>`;
}

async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // where the page is not of this machine and has no TLS
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function Panel({ title, note, children, id }) {
  return html`<section class="panel" aria-labelledby=${id}>
    <header><h3 id=${id}>${title}</h3>${note && html`<p>${note}</p>`}</header>
    ${children}
  </section>`;
}

const isSame = (before, found) => before !== undefined && JSON.stringify(before) === JSON.stringify(found);

// Calls `load` now and whenever one of `keys` changes. Keeps the last answer until the next one arrives. An answer that
// is equal to the last one does not render the component again.
export function useLoaded(load, keys) {
  const [value, set] = useState(undefined);
  const alive = useRef(true);
  useEffect(() => () => (alive.current = false), []);
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (found) => isCurrent && alive.current && set((before) => (isSame(before, found) ? before : found)),
      (error) => isCurrent && alive.current && set(error.problem ? { problem: error.problem } : (before) => before),
    );
    return () => (isCurrent = false);
  }, keys);
  return value;
}
