// Texts and components that the whole page uses.

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

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

// The time of day, always with 24 hours.
export const timeOfDay = (ms) => new Date(ms).toTimeString().slice(0, 8);

const MAX_NAME = 32;

// Cuts a long name in the middle: the ends of client ids and host names differ.
export const cut = (name, most = MAX_NAME) =>
  name.length <= most ? name : `${name.slice(0, Math.ceil(most / 2))}…${name.slice(1 - Math.floor(most / 2))}`;

export const Name = ({ text, most }) => {
  const shown = cut(text, most);
  return shown === text ? text : html`<span title=${text}>${shown}</span>`;
};

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

// A button that calls the API, with the same call as a command and as a line of a test beside it. `object` completes
// its name for screen readers where the label alone does not say what it acts on.
export function Act({ at, label, object, method = "POST", where, body, test, danger, done, hint, disabled }) {
  const [isBusy, setBusy] = useState(false);
  const button = useRef(null);
  const off = at.control && !at.control.is_on;
  // The focus moves to the heading of the group when the button that has it disappears with its row.
  useEffect(() => () => {
    if (button.current && button.current === document.activeElement)
      setTimeout(() => { const heading = document.getElementById("group-name"); if (heading) heading.focus(); });
  }, []);
  const name = object ? `${label} ${object}` : label;
  const go = async () => {
    if (off || disabled || isBusy) return;
    setBusy(true);
    try {
      const answer = await ask(at.namespace, method, where, body);
      at.say(`${name}: ${(done && done(answer)) || "done"}.`);
      at.refresh();
    } catch (error) {
      at.say(error.problem ? `${name}: ${error.message}` : `${name}: groupd does not answer.`, true);
    }
    setBusy(false);
  };
  return html`<span class="split">
    <button ref=${button} class=${danger ? "danger" : ""} disabled=${off || disabled} aria-disabled=${isBusy} aria-label=${object ? name : undefined} title=${off ? at.control.why_off : hint} onClick=${go}>${label}</button>
    <${Copy} name="curl" label=${name} text=${() => asCurl(at.namespace, method, where, body)} />
    ${test && html`<${Copy} name="pytest" label=${name} text=${() => asPytest(at.id, at.group, test)} />`}
  </span>`;
}

export function Copy({ name, label, text }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await put(text());
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button class="copy" aria-label=${name === "copy" ? `Copy “${label}”` : `Copy “${label}” as ${name}`} title=${name === "copy" ? "Copy" : `Copy as ${name}`} onClick=${copy}>${isDone ? "copied" : name}</button>`;
}

async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = document.activeElement;
  const area = document.createElement("textarea"); // without TLS a page of another machine has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  before.focus();
}

export function Panel({ title, note, children, id }) {
  return html`<section class="panel" aria-labelledby=${id}>
    <header><h3 id=${id}>${title}</h3>${note && html`<p>${note}</p>`}</header>
    ${children}
  </section>`;
}

const isSame = (before, found) => before !== undefined && JSON.stringify(before) === JSON.stringify(found);

// The order of requests: `begin` returns a function that says, once, whether the answer may be shown. It may unless a
// later request has been answered. So a link that is slower than the refreshes delays what the page shows, and no more.
export function createOrder() {
  let begun = 0;
  let answered = 0;
  return {
    begin: () => { const number = ++begun; return () => number > answered && Boolean((answered = number)); },
    drop: () => { answered = begun; },
  };
}

// Calls `load` now and whenever one of `keys` changes. Keeps the last answer until the next one arrives. An answer that
// is equal to the last one does not render the component again.
export function useLoaded(load, keys) {
  const [value, set] = useState(undefined);
  const [order] = useState(createOrder);
  useEffect(() => order.drop, []);
  useEffect(() => {
    const isNext = order.begin();
    load().then(
      (found) => isNext() && set((before) => (isSame(before, found) ? before : found)),
      (error) => isNext() && error.problem && set({ problem: error.problem }),
    );
  }, keys);
  return value;
}
