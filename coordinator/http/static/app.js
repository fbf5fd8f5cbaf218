// The page: the list of groups, and beside it one group. The address has the place (#/namespace/group).

import { Component, html, render, useState, useEffect, useCallback, useMemo, useRef } from "./vendor/preact.js";
import { ask, decoded, follow, token } from "./api.js";
import { Copy, Name, State, count, createOrder, cut, plural, span, useLoaded } from "./parts.js";
import { Group } from "./group.js";

const AGAIN_MS = 2000;
const SOON_MS = 150;
const SAID_MS = 20000;
const ROWS_PER_TASK = 40;

const API_PLACE = "#api";

const placeOf = () => {
  if (location.hash === API_PLACE) return { namespace: "default", group: null, isApi: true };
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
  const [said, setSaid] = useState(null);
  const refresh = useCallback(() => setBeat((now) => now + 1), []);
  const say = useCallback((text, isError) => setSaid({ text, isError }), []);
  const present = useRef(new Map());

  useEffect(() => {
    const soon = said && setTimeout(() => setSaid(null), SAID_MS);
    return () => clearTimeout(soon);
  }, [said]);

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

  const [order] = useState(createOrder);
  useEffect(() => order.drop, [place.namespace]);
  useEffect(() => {
    const isNext = order.begin();
    Promise.all([ask(place.namespace, "GET", "/board"), ask("default", "GET", "/namespaces")]).then(
      ([found, all]) => { if (isNext()) { setBoard(keepMissing(found, present.current)); setNamespaces(all.namespaces); setHere(true); setProblem(null); } },
      (error) => { if (!isNext()) return; if (error.problem) { setNeedsToken(error.problem.type === "urn:groupd:bad-token"); setProblem(error.message); setHere(true); } else setHere(false); },
    );
  }, [place.namespace, beat]);

  useEffect(() => { document.title = place.group === null ? "groupd" : `${place.group} · groupd`; }, [place.group]);

  useEffect(() => present.current.clear(), [place.namespace]);

  const at = { namespace: place.namespace, control: board && board.control, beat, refresh, say };
  // The same element again while its board is the same: a refresh of the chosen group does not render the list.
  const list = useMemo(() => html`<${Groups} board=${board} place=${place} />`, [board, place]);
  const skip = (event) => { event.preventDefault(); document.getElementById("content").focus(); };
  return html`<a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <${Head} board=${board} namespaces=${namespaces} place=${place} isHere=${isHere} refresh=${refresh} needsToken=${needsToken || (board && board.control.needs_token)} />
    ${!isHere && html`<p class="banner loss" role="alert">groupd does not answer: it has stopped or is starting. The page shows the last known state and continues when groupd answers.</p>`}
    ${problem && html`<p class="banner loss" role="alert">${problem} <a href=${goTo("default")}>The daemon’s own broker</a></p>`}
    ${board && !board.control.is_on && html`<p class="banner">Read-only. ${board.control.why_off}</p>`}
    <main class=${place.group === null ? "list-only" : "with-group"}>
      ${list}
      <div id="content" tabindex="-1">${content(place, board, at)}</div>
    </main>
    <p class=${`said ${said && said.isError ? "loss-text" : ""}`} role="status" hidden=${!said}>${said && said.text}</p>`;
}

function content(place, board, at) {
  if (place.isApi) return html`<${Operations} />`;
  if (place.group === null) return board && html`<${Welcome} board=${board} at=${at} />`;
  return html`<${Group} key=${place.namespace + "/" + place.group} id=${place.group} at=${at} />`;
}

// Groups of a partition that moves or is loading are missing on the board until then: their rows stay.
function keepMissing(board, present) {
  if (!board.unavailable_partitions) present.clear();
  for (const group of board.groups) present.set(group.group_id, group);
  if (present.size === board.groups.length) return board;
  const found = new Set(board.groups.map((group) => group.group_id));
  const kept = [...present.values()].map((group) => (found.has(group.group_id) ? group : { ...group, state: "unavailable", worst: null, rebalancing_ms: null }));
  return { ...board, groups: kept };
}

function Head({ board, namespaces, place, isHere, refresh, needsToken }) {
  const changed = (event) => { location.hash = goTo(event.target.value); };
  return html`<header class="head">
    <h1><a class="brand" href=${goTo(place.namespace)}><img src="static/icon.svg" alt="" width="26" height="26" />groupd</a></h1>
    ${board && html`<span class="where"><span class=${`dot ${isHere ? "good" : "loss"}`}></span>${isHere ? board.standing : "no answer"} at <code>${board.bootstrap}</code></span>`}
    <span class="grow"></span>
    ${namespaces.length > 1 && html`<label>broker <select value=${place.namespace} onChange=${changed}>${namespaces.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>`}
    ${needsToken && html`<label>token <input type="password" autocomplete="off" value=${token.get()} onChange=${(event) => { token.set(event.target.value); refresh(); }} /></label>`}
    ${board && html`<a class="api" href=${API_PLACE}>API</a><span class="version">${board.version}</span>`}
  </header>`;
}

// The weight of the trouble of a group, the greatest first in the list.
const troubleOf = (group) => (group.worst ? 3 : group.violations > 0 ? 2 : group.rebalancing_ms > 5000 ? 1 : 0);
const byTrouble = (one, other) => troubleOf(other) - troubleOf(one) || (other.lag || 0) - (one.lag || 0) || (one.group_id < other.group_id ? -1 : 1);
const byName = (one, other) => (one.group_id < other.group_id ? -1 : 1);

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
  const [order, setOrder] = useState("trouble");
  const length = useGrowingLength(board ? board.groups.length : 0);
  if (!board) return html`<nav class="groups" aria-busy="true"></nav>`;
  const words = text.toLowerCase();
  const states = [...new Set(board.groups.map((group) => group.state))].sort();
  const shown = board.groups.filter((group) => group.group_id.toLowerCase().includes(words) && (only === "" || (only === "trouble" ? troubleOf(group) > 0 : group.state === only))).sort(order === "trouble" ? byTrouble : byName);
  return html`<nav class="groups" aria-labelledby="groups-heading">
    <h2 id="groups-heading" class="visually-hidden">Groups</h2>
    <div class="search">
      <input type="search" placeholder="Search ${plural(board.groups.length, "group")}" aria-label="Search groups" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Order of groups" value=${order} onChange=${(event) => setOrder(event.target.value)}><option value="trouble">trouble first</option><option value="name">by name</option></select>
      <select aria-label="Filter of groups" value=${only} onChange=${(event) => setOnly(event.target.value)}>
        <option value="">all</option><option value="trouble">in trouble</option>${states.map((state) => html`<option value=${state}>${state}</option>`)}
      </select>
    </div>
    <ul>${shown.slice(0, length).map((group) => html`<li key=${group.group_id}><${Row} group=${group} isChosen=${group.group_id === place.group} href=${goTo(place.namespace, group.group_id)} /></li>`)}</ul>
    ${!shown.length && html`<p class="nothing">${board.groups.length ? "No group matches." : "No groups yet."}</p>`}
    ${board.groups_left_out > 0 && html`<p class="nothing">${count(board.groups_left_out)} more groups.</p>`}
  </nav>`;
}

// A row renders again only when a field of its group changed.
class Row extends Component {
  shouldComponentUpdate({ group, isChosen, href }) {
    const shown = this.props;
    return isChosen !== shown.isChosen || href !== shown.href || Object.keys(group).some((name) => group[name] !== shown.group[name] && (name !== "worst" || sentence(group) !== sentence(shown.group)));
  }

  render({ group, isChosen, href }) {
    return html`<a class="row ${troubleOf(group) > 0 ? "troubled" : ""}" href=${href} aria-current=${isChosen ? "page" : undefined}>
      <span class="name">${group.group_id ? html`<${Name} text=${group.group_id} />` : html`<em>(empty name)</em>`}</span>
      <${State} name=${group.state} />
      <span class="facts">
        ${group.worst && html`<span class="trouble loss-text" title=${sentence(group)}>${sentence(group)}</span>`}
        <span>${plural(group.members, "member")}</span>
        ${group.lag !== null && html`<span>lag ${count(group.lag)}</span>`}
        ${group.rebalancing_ms !== null && html`<span class="busy-text">rebalancing ${span(group.rebalancing_ms)}</span>`}
        ${group.is_frozen && html`<span>frozen</span>`}
        ${group.violations > 0 && html`<span class="loss-text">${plural(group.violations, "violation")}</span>`}
      </span>
    </a>`;
  }
}

const sentence = (group) => (group.worst ? group.worst.sentence : "");

function Welcome({ board, at }) {
  const sum = (of) => board.groups.reduce((total, group) => total + (of(group) || 0), 0);
  return html`<section class="welcome" aria-label="Overview">
    <dl>
      <div><dt>groups</dt><dd>${count(board.groups.length + board.groups_left_out)}</dd></div>
      <div><dt>in trouble</dt><dd>${count(board.groups.filter((group) => troubleOf(group) > 0).length)}</dd></div>
      <div><dt>members</dt><dd>${count(sum((group) => group.members))}</dd></div>
      <div><dt>lag</dt><dd>${count(sum((group) => group.lag))}</dd></div>
      <div><dt>violations</dt><dd>${count(sum((group) => group.violations))}</dd></div>
    </dl>
    ${board.groups.length ? html`<p>Choose a group to see its findings, its members and the causes of its rebalances, and to act on it.</p>`
      : html`<${FirstSteps} key=${at.namespace} bootstrap=${board.bootstrap} at=${at} />`}
  </section>`;
}

const TEST = `import pytest


@pytest.mark.groupd(topics={"orders": 6})
def test_takeover(broker):
    group = broker.group("billing")
    for name in ["alice", "bob"]:
        group.stand_in(name, ["orders"])
    group.wait(state="Stable", members=2, owned=["orders"])
    group.member("bob").expire()
    group.wait(state="Stable", generation={"min": 3})
`;

// What to paste on a daemon without groups.
function FirstSteps({ bootstrap, at }) {
  const found = useLoaded(() => ask(at.namespace, "GET", "/topics"), [at.namespace]);
  const topics = (found && found.topics) || [];
  const topic = topics.length ? topics[0].name : "orders";
  const lines = [
    [topics.length ? null : "Create a topic", `groupd kafka-tools kafka-topics --bootstrap-server ${bootstrap} --create --topic ${topic} --partitions 6`],
    ["Start a consumer of the group billing", `kcat -b ${bootstrap} -X client.id=alice -G billing ${topic}`],
    ["Or write a test with pytest-groupd", TEST],
  ].filter(([title]) => title);
  return html`<h2>No groups yet</h2><p>A group appears here when its first consumer joins.</p>
    ${lines.map(([title, text]) => html`<div class="paste"><h3>${title}</h3><div class="split"><${Copy} name="copy" label=${title} text=${() => text} /></div><pre tabindex="0" aria-label=${title}>${text}</pre></div>`)}
    ${topics.length > 0 && html`<h3>Topics</h3><ul>${topics.slice(0, 20).map((each) => html`<li><code>${cut(each.name, 60)}</code> ${plural(each.partitions.length === undefined ? each.partitions : each.partitions.length, "partition")}</li>`)}</ul>`}`;
}

// The operations of the API, from its OpenAPI document.
function Operations() {
  const document = useLoaded(() => ask("default", "GET", "/openapi.json"), []);
  if (!document || !document.paths) return html`<section class="panel" aria-busy="true"></section>`;
  const rows = Object.entries(document.paths).flatMap(([where, methods]) => Object.entries(methods).filter(([, operation]) => operation.summary).map(([method, operation]) => [method.toUpperCase(), where, operation.summary]));
  return html`<section class="panel operations"><h2>Operations of the API</h2>
    <p>All answers are JSON; <code>Accept: text/plain</code> returns text where an operation has it. The whole description is <a href="v1/openapi.json">openapi.json</a>.</p>
    <div class="scroll" tabindex="0" role="region" aria-label="Operations"><table><thead><tr><th scope="col">method</th><th scope="col">path</th><th scope="col">meaning</th></tr></thead>
    <tbody>${rows.map(([method, where, meaning]) => html`<tr><td>${method}</td><th scope="row"><code>${where}</code></th><td>${meaning}</td></tr>`)}</tbody></table></div></section>`;
}

render(html`<${Page} />`, document.getElementById("page"));
