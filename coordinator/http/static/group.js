// One group: how it is, what it waits for, why it rebalanced, who has what, and what can be done to it.

import { html, useState } from "./vendor/preact.js";
import { ask, base, path } from "./api.js";
import { Act, Panel, State, count, ranges, span, useLoaded } from "./parts.js";
import { Lag } from "./lag.js";
import { Machine } from "./machine.js";
import { Timeline } from "./timeline.js";

const LAST = 30;

/** The newest findings of the invariant checks with one severity. */
function Findings({ found, kind, label }) {
  const newest = (found && found.violations ? found.violations : []).slice(-5);
  return newest.length > 0 && html`<ul class=${kind} aria-label=${label}>${newest.map((each) => html`<li><b>${each.oracle.replaceAll("_", " ")}</b> ${each.detail}${each.times > 1 ? ` (${each.times} times)` : ""}</li>`)}</ul>`;
}

export function Group({ id, at, summary }) {
  const where = "/groups" + path(id);
  const load = (more) => () => ask(at.namespace, "GET", where + more);
  const group = useLoaded(load(""), [at.beat]);
  const told = useLoaded(load("/explain"), [at.beat]);
  const ledger = useLoaded(load(`/ledger?last=${LAST}`), [at.beat]);
  const offsets = useLoaded(load("/offsets"), [at.beat]);
  const clock = useLoaded(load("/clock"), [at.beat]);
  const found = (severity) => () => ask(at.namespace, "GET", `/violations?group=${encodeURIComponent(id)}&severity=${severity}&limit=20`);
  const violations = useLoaded(found("violation"), [at.beat]);
  const notices = useLoaded(found("notice"), [at.beat]);
  if (group === undefined) return html`<article class="group" aria-busy="true"></article>`;
  const back = html`<a class="back" href=${`#/${encodeURIComponent(at.namespace)}`}>← all groups</a>`;
  if (group.problem)
    return html`<article class="group">${back}<h2>${id}</h2><p class="nothing">${group.problem.detail}</p>${entries(ledger).length > 0 && html`<${Panel} id="p-history" title="What was"><${Timeline} entries=${entries(ledger)} /><//>`}</article>`;
  const isConsumer = group.type === "consumer";
  return html`<article class="group">
    ${back}
    <header class="title"><h2>${id}</h2><${State} name=${group.state} />
      <span class="facts"><span>${group.type}</span><span>${isConsumer ? "epoch" : "generation"} ${group.generation_id}</span>
        ${group.protocol_name && html`<span>${group.protocol_name}</span>`}<span>${count(group.members.length)} ${group.members.length === 1 ? "member" : "members"}</span></span></header>
    ${told && told.detail && html`<p class="told" role="status">${told.detail}</p>`}
    ${told && told.hints && told.hints.length > 0 && html`<ul class="hints">${told.hints.map((hint) => html`<li>${hint}</li>`)}</ul>`}
    <${Findings} found=${violations} kind="violations" label="Violations" />
    <${Findings} found=${notices} kind="notices" label="Notices" />
    <div class="columns">
      <${Panel} id="p-state" title="State" note=${group.rebalance ? `${group.rebalance.cause}, for ${span(group.rebalance.open_ms)}${group.rebalance.left_ms ? `; ${span(group.rebalance.left_ms)} left` : ""}` : ""}>
        <${Machine} group=${group} />
        ${group.rebalance && group.rebalance.awaited.length > 0 && html`<p class="awaited">waits for ${group.rebalance.awaited.slice(0, 8).map((each) => html`<span><b>${each.client_id}</b> (${each.request}, silent ${span(each.silent_ms)}${each.is_connected ? "" : ", not connected"})</span>`)}</p>`}
      <//>
      <${Panel} id="p-lag" title="Lag" note=${offsets && offsets.lag !== null && offsets.lag !== undefined ? `${count(offsets.lag)} records` : ""}><${Lag} lag=${summary ? summary.lag : null} beat=${at.beat} /><//>
    </div>
    <${Panel} id="p-generations" title=${isConsumer ? "Epochs" : "Generations"} note="how long each pause was, and who had how many partitions"><${Timeline} entries=${entries(ledger)} /><//>
    <${Panel} id="p-members" title="Members"><${Members} group=${group} at=${at} where=${where} /><//>
    <${Panel} id="p-offsets" title="Offsets"><${Offsets} offsets=${offsets} /><//>
    <div class="columns">
      <${Panel} id="p-clock" title="Clock" note=${clockNote(clock)}><${Clock} clock=${clock} at=${at} where=${where} /><//>
      <${Panel} id="p-failover" title="Failover" note=${`of __consumer_offsets-${group.offsets_partition}`}>
        <${Act} at=${at} label="Move the coordinator" where=${where + "/failover"} body=${{ not_coordinator: "500ms", loading: "500ms" }} done=${(done) => `served again after ${span(done.served_after_ms)}`} hint="NOT_COORDINATOR for half a second, then loading for as long" />
      <//>
      <${Panel} id="p-faults" title="Faults"><${Faults} at=${at} id=${id} /><//>
      <${Panel} id="p-record" title="Record"><${Record} at=${at} id=${id} /><//>
    </div>
  </article>`;
}

const entries = (ledger) => (ledger && ledger.entries) || [];

function Members({ group, at, where }) {
  if (!group.members.length) return html`<p class="nothing">Nobody is in it.</p>`;
  const shown = group.members.slice(0, 100);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Members"><table class="members"><thead><tr><th scope="col">client</th><th scope="col">partitions</th><th scope="col">session</th><th scope="col"><span class="visually-hidden">what can be done</span></th></tr></thead>
    <tbody>${shown.map((member) => html`<tr key=${member.member_id}>
      <th scope="row"><span class=${`dot ${member.is_connected ? "good" : "loss"}`} title=${member.is_connected ? "connected" : "not connected"}></span>${member.client_id}${member.is_leader && html` <span class="tag">leader</span>`}
        <small title=${member.member_id}>${member.group_instance_id ? `${member.group_instance_id} · ` : ""}${member.client_host.replace("/", "")}${member.consumer ? ` · ${member.consumer.state}, epoch ${member.consumer.member_epoch}` : ""}${member.is_subscription_too_large ? " · subscription too large to show" : ""}</small></th>
      <td>${member.assignment === null ? "–" : Object.entries(member.assignment).map(([topic, numbers]) => html`<span class="owned"><b>${topic}</b> ${ranges(numbers)}</span>`)}</td>
      <td>${member.awaits ? html`<small>held in ${member.awaits}</small>` : html`<meter min="0" max=${member.session_timeout_ms} low=${member.session_timeout_ms / 3} value=${Math.max(0, member.session_left_ms)} aria-label=${`session of ${member.client_id}`}></meter><small>${span(Math.max(0, member.session_left_ms))} of ${span(member.session_timeout_ms)}</small>`}</td>
      <td class="acts">
        <${Act} at=${at} label="Expire" danger where=${`${where}/members${path(member.member_id)}/expire`} hint="end its session now" />
        <${Act} at=${at} label="Disconnect" where=${`${where}/members${path(member.member_id)}/disconnect`} hint="close its connections" />
      </td></tr>`)}</tbody></table>
    ${group.members.length > shown.length && html`<p class="nothing">${count(group.members.length - shown.length)} members more.</p>`}
    ${Object.keys(group.unowned).length > 0 && html`<p class="loss-text">without an owner: ${Object.entries(group.unowned).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join(", ")}</p>`}</div>`;
}

function Offsets({ offsets }) {
  const rows = (offsets && offsets.offsets) || [];
  if (!rows.some((row) => row.offset !== null)) return html`<p class="nothing">Nothing was committed.</p>`;
  const shown = rows.slice(0, 60);
  const most = Math.max(1, ...rows.map((row) => row.lag || 0));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Offsets"><table class="offsets"><thead><tr><th scope="col">partition</th><th scope="col" class="figure">committed</th><th scope="col" class="figure">end</th><th scope="col" class="figure">lag</th><th scope="col"><span class="visually-hidden">share of the most</span></th></tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${`${row.topic}-${row.partition}`}><th scope="row">${row.topic} <b>${row.partition}</b></th><td class="figure">${count(row.offset)}</td><td class="figure">${count(row.end_offset)}</td><td class="figure">${count(row.lag)}</td>
      <td class="wide"><svg class="lagbar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width=${(100 * (row.lag || 0)) / most} height="6" rx="1" /></svg></td></tr>`)}</tbody></table>
    ${rows.length > shown.length && html`<p class="nothing">${count(rows.length - shown.length)} partitions more.</p>`}</div>`;
}

function clockNote(clock) {
  if (!clock || clock.problem) return "";
  const ahead = clock.ahead_ms ? `, ${span(Math.abs(clock.ahead_ms))} ${clock.ahead_ms > 0 ? "ahead" : "behind"}` : "";
  return (clock.frozen ? "frozen" : "runs") + ahead;
}

function Clock({ clock, at, where }) {
  const [by, setBy] = useState("45s");
  if (!clock || clock.problem) return html`<p class="nothing">${clock ? clock.problem.detail : ""}</p>`;
  return html`${clock.next ? html`<p>next: <b>${clock.next.timer}</b>${clock.next.member ? ` of ${clock.next.member}` : ""} in ${span(clock.next.in_ms)}</p>` : html`<p>Nothing is due.</p>`}
    <div class="buttons">
      <${Act} at=${at} label=${clock.frozen ? "Let it run" : "Freeze"} method="PUT" where=${where + "/clock"} body=${{ frozen: !clock.frozen }} />
      <${Act} at=${at} label="Step" where=${where + "/clock/step"} body=${{}} done=${fired} hint="to the next deadline" />
      <label class="by">by <input value=${by} size="5" onInput=${(event) => setBy(event.target.value)} aria-label="How much time passes" /></label>
      <${Act} at=${at} label="Advance" where=${where + "/clock/advance"} body=${{ by }} done=${fired} />
      ${clock.clock === "group" && html`<${Act} at=${at} label="Reset" method="DELETE" where=${where + "/clock"} hint="as late as it is" />`}
    </div>`;
}

const fired = (moved) => (moved.fired.length ? moved.fired.map((each) => `${each.timer}${each.member ? ` of ${each.member}` : ""}: ${each.events.join(", ") || "no event followed"}`).join("; ") : "nothing was due");

const READY_MADE = { "not-coordinator": "NOT_COORDINATOR once", loading: "loading once", "stale-coordinator": "a stale coordinator", "lost-commit-answer": "a commit’s answer is lost" };
const HELD = { "hold JoinGroup": "JoinGroup", "hold SyncGroup": "SyncGroup", "hold OffsetCommit": "OffsetCommit", "hold Heartbeat": "Heartbeat" };

function Faults({ at, id }) {
  const [use, setUse] = useState("hold JoinGroup");
  const faults = useLoaded(() => ask(at.namespace, "GET", "/faults"), [at.beat]);
  const rule = use in HELD ? { match: { api: HELD[use], group: id }, do: { at: "request", hold: true } } : { use, match: { group: id } };
  return html`<div class="buttons"><select value=${use} onChange=${(event) => setUse(event.target.value)} aria-label="Which fault">
      ${Object.keys(HELD).map((name) => html`<option value=${name}>${name}</option>`)}${Object.entries(READY_MADE).map(([name, words]) => html`<option value=${name}>${words}</option>`)}</select>
      <${Act} at=${at} label="Make" where="/faults" body=${rule} /></div>
    <ul class="faults">${((faults && faults.faults) || []).map((fault) => html`<li key=${fault.name}><span><b>${fault.name}</b> ${fault.state}, hit ${fault.hit} of ${fault.matched}${fault.holding ? `, holds ${fault.holding}` : ""}</span>
      <span class="buttons">${fault.holding > 0 && html`<${Act} at=${at} label="Release" where=${`/faults${path(fault.name)}/release`} body=${{}} />`}<${Act} at=${at} label="Remove" method="DELETE" where=${"/faults" + path(fault.name)} /></span></li>`)}</ul>`;
}

function Record({ at, id }) {
  const recordings = useLoaded(() => ask(at.namespace, "GET", "/recordings"), [at.beat]);
  const mine = ((recordings && recordings.recordings) || []).find((each) => each.group_id === id);
  const where = "/recordings" + path(id);
  if (!mine) return html`<p>All that it is told from now on, to be played again by <code>groupd replay</code>.</p><${Act} at=${at} label="Record" method="PUT" where=${where} body=${{}} />`;
  return html`<p>${count(mine.inputs)} inputs, ${count(mine.bytes)} bytes${mine.ended ? `; ended: ${mine.ended}` : ""}</p>
    <div class="buttons"><a class="button" href=${base(at.namespace) + where} download=${`${id.replace(/[^\w.-]+/g, "_") || "group"}.groupd-rec`}>Download</a><${Act} at=${at} label="Stop" method="DELETE" where=${where} danger /></div>`;
}
