// The page: all groups at the left, one of them at the right; what is where is in the address (#/namespace/group).

import { Component, html, render, useState, useEffect, useCallback, useMemo } from "./vendor/preact.js";
import { ask, base, decoded, follow, token } from "./api.js";
import { State, count, span } from "./parts.js";
import { Group } from "./group.js";

const AGAIN_MS = 2000;
const SOON_MS = 150;
const ROWS_PER_TASK = 40;

const placeOf = () => {
  const [namespace, group] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { namespace: namespace || "default", group: group || null };
};
const goTo = (namespace, group) => `#/${encodeURIComponent(namespace)}${group === undefined ? "" : "/" + encodeURIComponent(group)}`;

function Page() {
  const [place, setPlace] = useState(placeOf);
  const [board, setBoard] = useState(null);
  const [namespaces, setNamespaces] = useState([]);
  const [isHere, setHere] = useState(true);
  const [problem, setProblem] = useState(null);
  const [needsToken, setNeedsToken] = useState(false);
  const [beat, setBeat] = useState(0);
  const refresh = useCallback(() => setBeat((now) => now + 1), []);

  useEffect(() => {
    const moved = () => setPlace(placeOf());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);

  useEffect(() => {
    let soon;
    const happened = () => { clearTimeout(soon); soon = setTimeout(refresh, SOON_MS); };
    const again = setInterval(() => document.hidden || refresh(), AGAIN_MS);
    const stop = follow(place.namespace, happened, (is) => is && refresh());
    return () => { clearTimeout(soon); clearInterval(again); stop(); };
  }, [place.namespace]);

  useEffect(() => {
    let isCurrent = true;
    Promise.all([ask(place.namespace, "GET", "/board"), ask("default", "GET", "/namespaces")]).then(
      ([found, all]) => { if (isCurrent) { setBoard(found); setNamespaces(all.namespaces); setHere(true); setProblem(null); } },
      (error) => { if (!isCurrent) return; if (error.problem) { setNeedsToken(error.problem.type === "urn:groupd:bad-token"); setProblem(error.message); setHere(true); } else setHere(false); },
    );
    return () => { isCurrent = false; };
  }, [place.namespace, beat]);

  useEffect(() => { document.title = place.group === null ? "groupd" : `${place.group} · groupd`; }, [place.group]);

  const at = { namespace: place.namespace, control: board && board.control, beat, refresh };
  // The same element again while its board is the same: a refresh of the chosen group does not render the list.
  const list = useMemo(() => html`<${Groups} board=${board} place=${place} />`, [board, place]);
  return html`<${Head} board=${board} namespaces=${namespaces} place=${place} isHere=${isHere} refresh=${refresh} needsToken=${needsToken || (board && board.control.needs_token)} />
    ${!isHere && html`<p class="banner loss" role="alert">Nobody answers: the daemon has stopped, or starts again. What is below was last known; this page comes back by itself.</p>`}
    ${problem && html`<p class="banner loss" role="alert">${problem} <a href=${goTo("default")}>The daemon’s own broker</a></p>`}
    ${board && !board.control.is_on && html`<p class="banner">Read-only. ${board.control.why_off}</p>`}
    <main class=${place.group === null ? "list-only" : "with-group"}>
      ${list}
      ${place.group === null ? board && html`<${Welcome} board=${board} />` : html`<${Group} key=${place.namespace + "/" + place.group} id=${place.group} at=${at} summary=${board && board.groups.find((each) => each.group_id === place.group)} />`}
    </main>`;
}

function Head({ board, namespaces, place, isHere, refresh, needsToken }) {
  const changed = (event) => { location.hash = goTo(event.target.value); };
  return html`<header class="head">
    <a class="brand" href=${goTo(place.namespace)}><img src="static/icon.svg" alt="" width="26" height="26" />groupd</a>
    ${board && html`<span class="where"><span class=${`dot ${isHere ? "good" : "loss"}`}></span>${isHere ? board.standing : "gone"} at <code>${board.bootstrap}</code></span>`}
    <span class="grow"></span>
    ${namespaces.length > 1 && html`<label>broker <select value=${place.namespace} onChange=${changed}>${namespaces.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>`}
    ${needsToken && html`<label>token <input type="password" autocomplete="off" value=${token.get()} onChange=${(event) => { token.set(event.target.value); refresh(); }} /></label>`}
    ${board && html`<a class="api" href=${base(place.namespace) + "/groups"}>API</a><span class="version">${board.version}</span>`}
  </header>`;
}

const TROUBLED = (group) => group.violations > 0 || group.rebalancing_ms > 5000;

// How many rows of a list are rendered: the first ones at once, the others a few in each task, so that a long list
// does not block the page.
function useGrowingLength(total) {
  const [length, setLength] = useState(ROWS_PER_TASK);
  useEffect(() => {
    if (length >= total) return undefined;
    const next = setTimeout(() => setLength(length + ROWS_PER_TASK));
    return () => clearTimeout(next);
  }, [length, total]);
  return length;
}

function Groups({ board, place }) {
  const [text, setText] = useState("");
  const [only, setOnly] = useState("");
  const length = useGrowingLength(board ? board.groups.length : 0);
  if (!board) return html`<nav class="groups" aria-busy="true"></nav>`;
  const words = text.toLowerCase();
  const states = [...new Set(board.groups.map((group) => group.state))].sort();
  const shown = board.groups.filter((group) => group.group_id.toLowerCase().includes(words) && (only === "" || (only === "trouble" ? TROUBLED(group) : group.state === only)));
  return html`<nav class="groups" aria-label="Groups">
    <div class="search">
      <input type="search" placeholder="Search ${board.groups.length} ${board.groups.length === 1 ? "group" : "groups"}" aria-label="Search groups" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Which groups" value=${only} onChange=${(event) => setOnly(event.target.value)}>
        <option value="">all</option><option value="trouble">in trouble</option>${states.map((state) => html`<option value=${state}>${state}</option>`)}
      </select>
    </div>
    <ul>${shown.slice(0, length).map((group) => html`<li key=${group.group_id}><${Row} group=${group} isChosen=${group.group_id === place.group} href=${goTo(place.namespace, group.group_id)} /></li>`)}</ul>
    ${!shown.length && html`<p class="nothing">${board.groups.length ? "No group is like that." : "No groups yet."}</p>`}
    ${board.groups_left_out > 0 && html`<p class="nothing">${count(board.groups_left_out)} groups more.</p>`}
  </nav>`;
}

// A row renders again only when a field of its group changed.
class Row extends Component {
  shouldComponentUpdate({ group, isChosen, href }) {
    const shown = this.props;
    return isChosen !== shown.isChosen || href !== shown.href || Object.keys(group).some((name) => group[name] !== shown.group[name]);
  }

  render({ group, isChosen, href }) {
    return html`<a class="row ${TROUBLED(group) ? "troubled" : ""}" href=${href} aria-current=${isChosen ? "page" : undefined}>
      <span class="name">${group.group_id || html`<em>(empty name)</em>`}</span>
      <${State} name=${group.state} />
      <span class="facts">
        <span>${count(group.members)} ${group.members === 1 ? "member" : "members"}</span>
        ${group.lag !== null && html`<span>lag ${count(group.lag)}</span>`}
        ${group.rebalancing_ms !== null && html`<span class="busy-text">rebalancing ${span(group.rebalancing_ms)}</span>`}
        ${group.is_frozen && html`<span>frozen</span>`}
        ${group.violations > 0 && html`<span class="loss-text">${count(group.violations)} ${group.violations === 1 ? "violation" : "violations"}</span>`}
      </span>
    </a>`;
  }
}

function Welcome({ board }) {
  const sum = (of) => board.groups.reduce((total, group) => total + (of(group) || 0), 0);
  return html`<section class="welcome">
    <dl>
      <div><dt>groups</dt><dd>${count(board.groups.length + board.groups_left_out)}</dd></div>
      <div><dt>members</dt><dd>${count(sum((group) => group.members))}</dd></div>
      <div><dt>rebalancing</dt><dd>${count(board.groups.filter((group) => group.rebalancing_ms !== null).length)}</dd></div>
      <div><dt>lag</dt><dd>${count(sum((group) => group.lag))}</dd></div>
      <div><dt>violations</dt><dd>${count(sum((group) => group.violations))}</dd></div>
    </dl>
    ${board.groups.length ? html`<p>Choose a group: its state and what it waits for, why it rebalanced, who has what, and what you can do to it.</p>`
      : html`<p>No group yet. Start a consumer with <code>bootstrap.servers=${board.bootstrap}</code>, and it appears here by itself.</p>`}
  </section>`;
}

render(html`<${Page} />`, document.getElementById("page"));
