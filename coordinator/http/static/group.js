// One group: its findings, its members, its state, its rebalances and offsets, and the operations on it.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { ask, base, memberInTest, path, quote } from "./api.js";
import { Act, Name, Panel, State, count, cut, plural, ranges, span, timeOfDay, useLoaded } from "./parts.js";
import { Headline, OtherFindings, Violations } from "./findings.js";
import { Lag } from "./lag.js";
import { Machine } from "./machine.js";
import { Timeline } from "./timeline.js";

const LAST = 30;
const MAX_TITLE = 60;
const AWAY_POLL_MS = 250;
const OFTEN_MS = 10000;
const LOADING = "urn:groupd:loading";

// Loads a group. `explain` answers for every group, so that the page requests the rest only of a group that can be read.
async function loadGroup(namespace, id) {
  const where = "/groups" + path(id);
  const get = (more) => ask(namespace, "GET", where + more);
  const told = await get("/explain");
  if (told.state === null) return { told };
  if (told.state === "Dead") return { told, ledger: told.removed ? await get(`/ledger?last=${LAST}`) : null };
  const found = (severity) => ask(namespace, "GET", `/violations?group=${encodeURIComponent(id)}&severity=${severity}&limit=20`);
  const [group, ledger, offsets, clock, violations, notices, lags] = await Promise.all(
    [get(""), get(`/ledger?last=${LAST}`), get("/offsets"), get("/clock"), found("violation"), found("notice"), get("/lag")]);
  return { told, group, ledger, offsets, clock, violations, notices, lags };
}

export function Group({ id, at: page }) {
  const where = "/groups" + path(id);
  const absence = useRef({ since: 0, poll: 0 }).current;
  const now = useLoaded(() => loadGroup(page.namespace, id).finally(() => pollSoon(absence, page)), [page.beat]);
  const kept = useRef(null);
  if (now && now.told && now.told.state !== null) kept.current = now;
  const isAway = now !== undefined && (now.problem ? now.problem.type === LOADING : now.told.state === null);
  useReturnNotice(isAway, id, absence, page);
  if (now === undefined) return html`<article class="group" aria-busy="true"></article>`;
  const back = html`<a class="back" href=${`#/${encodeURIComponent(page.namespace)}`}>← all groups</a>`;
  const title = html`<h2 id="group-name" tabindex="-1" title=${id}>${cut(id, MAX_TITLE)}</h2>`;
  const shown = isAway || now.problem ? kept.current : now;
  if (!shown || !shown.group)
    return html`<article class="group">${back}<header class="title">${title}</header><p class="headline" role="status">${(now.problem && now.problem.detail) || now.told.detail}</p>
      ${entries(now.ledger).length > 0 && html`<${Panel} id="p-history" title="Past rebalances"><${Timeline} entries=${entries(now.ledger)} /><//>`}</article>`;
  const { told, group, ledger, offsets, clock, violations, notices, lags } = shown;
  const at = { ...page, id, group };
  const isConsumer = group.type === "consumer";
  return html`<article class="group">
    ${back}
    <header class="title">${title}<${State} name=${group.state} />
      <span class="facts"><span>${group.type}</span><span>${isConsumer ? "epoch" : "generation"} ${group.generation_id}</span>
        ${group.protocol_name && html`<span>${group.protocol_name}</span>`}<span>${plural(group.members.length, "member")}</span></span></header>
    ${shown !== now && html`<p class="banner away" role="status">${now.problem ? now.problem.detail : now.told.detail} The page shows the last known state.</p>`}
    <${Headline} told=${told} at=${at} />
    <${Violations} found=${violations} kind="violations" label="Violations" />
    <${OtherFindings} told=${told} at=${at} />
    <${Violations} found=${notices} kind="notices" label="Notices" />
    <${Panel} id="p-members" title="Members"><${Members} group=${group} at=${at} where=${where} /><//>
    <div class="columns">
      <${Panel} id="p-state" title="State" note=${group.rebalance ? `${group.rebalance.cause}, for ${span(group.rebalance.open_ms)}${group.rebalance.left_ms ? `; ${span(group.rebalance.left_ms)} left` : ""}` : ""}>
        <${Machine} group=${group} />
        ${group.rebalance && group.rebalance.awaited.length > 0 && html`<p class="awaited">waits for ${group.rebalance.awaited.slice(0, 8).map((each) => html`<span><b><${Name} text=${each.client_id} /></b> (${each.request}, silent ${span(each.silent_ms)}${each.is_connected ? "" : ", not connected"})</span>`)}</p>`}
      <//>
      <${Panel} id="p-lag" title="Lag" note=${offsets.lag === null ? "" : `${count(offsets.lag)} records behind the end of the log`}><${Lag} points=${lags.points} lag=${offsets.lag} /><//>
    </div>
    <${Panel} id="p-generations" title=${isConsumer ? "Epochs" : "Generations"} note=${isConsumer ? "time until all members had their partitions, and their number of partitions; members go on reading meanwhile" : "duration of each pause, and partitions of each member"}><${Timeline} entries=${entries(ledger)} /><//>
    <${Panel} id="p-offsets" title="Offsets"><${Offsets} offsets=${offsets} /><//>
    <div class="columns">
      <${Panel} id="p-clock" title="Clock" note=${clockNote(clock)}><${Clock} clock=${clock} at=${at} where=${where} /><//>
      <${Panel} id="p-failover" title="Failover" note=${`of __consumer_offsets-${group.offsets_partition}`}>
        <${Act} at=${at} label="Move the coordinator" where=${where + "/failover"} body=${{ not_coordinator: "500ms", loading: "500ms" }} test='group.failover(not_coordinator="500ms", loading="500ms")' done=${(done) => `served again after ${span(done.served_after_ms)}`} hint="NOT_COORDINATOR for half a second, then loading for half a second" />
      <//>
      <${Panel} id="p-faults" title="Faults"><${Faults} at=${at} id=${id} /><//>
      <${Panel} id="p-record" title="Record"><${Record} at=${at} id=${id} /><//>
    </div>
  </article>`;
}

// Loads the page again soon while the coordinator of its group is away. The page loads itself every two seconds anyway,
// which is often enough for a long absence, such as that of a group on another broker.
function pollSoon(absence, page) {
  clearTimeout(absence.poll);
  if (absence.since && Date.now() - absence.since < OFTEN_MS)
    absence.poll = setTimeout(() => document.hidden || page.refresh(), AWAY_POLL_MS);
}

// Says how long the coordinator of a group was away. Until it is back, each load that has ended is followed by another.
function useReturnNotice(isAway, id, absence, page) {
  useEffect(() => {
    if (!isAway && absence.since) page.say(`groupd serves ${cut(id)} again after ${span(Date.now() - absence.since)}.`);
    absence.since = isAway ? Date.now() : 0;
    pollSoon(absence, page);
    return () => clearTimeout(absence.poll);
  }, [isAway]);
  useEffect(() => () => { absence.since = 0; }, []);
}

const entries = (ledger) => (ledger && ledger.entries) || [];

function Members({ group, at, where }) {
  if (!group.members.length) return html`<p class="nothing">The group has no members.</p>`;
  const shown = group.members.slice(0, 100);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Members"><table class="members"><thead><tr><th scope="col">client</th><th scope="col">partitions</th><th scope="col">session</th><th scope="col"><span class="visually-hidden">operations</span></th></tr></thead>
    <tbody>${shown.map((member) => html`<tr key=${member.member_id}>
      <th scope="row"><span class=${`dot ${member.is_connected ? "good" : "loss"}`} title=${member.is_connected ? "connected" : "not connected"}></span><${Name} text=${member.client_id} most=${24} />${member.is_leader && html` <span class="tag">leader</span>`}
        <small title=${member.member_id}>${member.group_instance_id ? `${cut(member.group_instance_id)} · ` : ""}${member.is_connected ? "" : member.connection_closed_ms_ago === null ? "not connected · " : `disconnected for ${span(member.connection_closed_ms_ago)} · `}${member.client_host.replace("/", "")}${member.consumer ? ` · ${member.consumer.state}, epoch ${member.consumer.member_epoch}` : ""}${member.is_subscription_too_large ? " · subscription too large to show" : ""}</small></th>
      <td>${member.assignment === null ? "–" : Object.entries(member.assignment).map(([topic, numbers]) => html`<span class="owned"><b><${Name} text=${topic} /></b> ${ranges(numbers)}</span>`)}</td>
      <td>${member.awaits ? html`<small>waits in ${member.awaits}</small>` : html`<meter min="0" max=${member.session_timeout_ms} low=${member.session_timeout_ms / 3} value=${Math.max(0, member.session_left_ms)} aria-label=${`session of ${member.client_id}`}></meter><small>${span(Math.max(0, member.session_left_ms))} of ${span(member.session_timeout_ms)}</small>`}</td>
      <td class="acts">
        <${Act} at=${at} label="Expire" object=${member.client_id} danger test=${`group.member(${memberInTest(group, member)}).expire()`} where=${`${where}/members${path(member.member_id)}/expire`} hint="end the session now" />
        <${Act} at=${at} label="Disconnect" object=${member.client_id} test=${`group.member(${memberInTest(group, member)}).disconnect()`} where=${`${where}/members${path(member.member_id)}/disconnect`} hint="close the connections" />
      </td></tr>`)}</tbody></table>
    ${group.members.length > shown.length && html`<p class="nothing">${count(group.members.length - shown.length)} more members.</p>`}
    ${Object.keys(group.unowned).length > 0 && html`<p class="loss-text">without an owner: ${Object.entries(group.unowned).map(([topic, numbers]) => `${topic} ${ranges(numbers)}`).join(", ")}</p>`}</div>`;
}

function Offsets({ offsets }) {
  const rows = (offsets && offsets.offsets) || [];
  if (!rows.some((row) => row.offset !== null)) return html`<p class="nothing">The group has no committed offsets.</p>`;
  const shown = rows.slice(0, 60);
  const most = Math.max(1, ...rows.map((row) => row.lag || 0));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Offsets"><table class="offsets"><thead><tr><th scope="col">partition</th><th scope="col" class="figure">committed</th><th scope="col" class="figure">end</th><th scope="col" class="figure">lag</th><th scope="col"><span class="visually-hidden">share of the greatest lag</span></th></tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${`${row.topic}-${row.partition}`}><th scope="row"><${Name} text=${row.topic} /> <b>${row.partition}</b></th><td class="figure">${count(row.offset)}</td><td class="figure">${count(row.end_offset)}</td><td class="figure">${count(row.lag)}</td>
      <td class="wide"><svg class="lagbar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width=${(100 * (row.lag || 0)) / most} height="6" rx="1" /></svg></td></tr>`)}</tbody></table>
    ${rows.length > shown.length && html`<p class="nothing">${count(rows.length - shown.length)} more partitions.</p>`}</div>`;
}

function clockNote(clock) {
  if (!clock || clock.problem) return "";
  const ahead = clock.ahead_ms ? `, ${span(Math.abs(clock.ahead_ms))} ${clock.ahead_ms > 0 ? "ahead" : "behind"}` : "";
  return (clock.frozen ? "frozen" : "runs") + ahead;
}

function Clock({ clock, at, where }) {
  const [by, setBy] = useState("45s");
  if (!clock || clock.problem) return html`<p class="nothing">${clock ? clock.problem.detail : ""}</p>`;
  return html`${clock.next ? html`<p>next: <b>${clock.next.timer}</b>${clock.next.member ? ` of ${clock.next.member}` : ""} in ${span(clock.next.in_ms)}</p>` : html`<p>No deadline is pending.</p>`}
    ${clock.ahead_ms !== 0 && html`<p>group time <b>${timeOfDay(clock.group_time_ms)}</b>, wall time <b>${timeOfDay(clock.real_time_ms)}</b></p>`}
    <div class="buttons">
      <${Act} at=${at} label=${clock.frozen ? "Run" : "Freeze"} object="the clock" test=${clock.frozen ? "group.clock.run()" : "group.clock.freeze()"} method="PUT" where=${where + "/clock"} body=${{ frozen: !clock.frozen }} />
      <${Act} at=${at} label="Step" object="the clock" test="group.clock.step()" where=${where + "/clock/step"} body=${{}} done=${fired} hint="to the next deadline" />
      <label class="by">by <input value=${by} size="5" onInput=${(event) => setBy(event.target.value)} aria-label="Time by which the clock advances" /></label>
      <${Act} at=${at} label="Advance" object="the clock" test=${`group.clock.advance(${quote(by)})`} where=${where + "/clock/advance"} body=${{ by }} done=${fired} />
      ${clock.clock === "group" && html`<${Act} at=${at} label="Reset" object="the clock" test="group.clock.reset()" method="DELETE" where=${where + "/clock"} hint="use the time of the process" />`}
    </div>`;
}

const fired = (moved) => (moved.fired.length ? moved.fired.map((each) => `${each.timer}${each.member ? ` of ${each.member}` : ""}: ${each.events.join(", ") || "no event"}`).join("; ") : "no deadline was due");

const READY_MADE = { "not-coordinator": "NOT_COORDINATOR once", loading: "loading once", "stale-coordinator": "stale coordinator", "lost-commit-answer": "lost response to a commit" };
const HELD = { "hold JoinGroup": "JoinGroup", "hold SyncGroup": "SyncGroup", "hold OffsetCommit": "OffsetCommit", "hold Heartbeat": "Heartbeat" };

function Faults({ at, id }) {
  const [use, setUse] = useState("hold JoinGroup");
  const faults = useLoaded(() => ask(at.namespace, "GET", "/faults"), [at.beat]);
  const rule = use in HELD ? { match: { api: HELD[use], group: id }, do: { at: "request", hold: true } } : { use, match: { group: id } };
  const test = use in HELD
    ? `broker.fault(match={"api": ${quote(HELD[use])}, "group": ${quote(id)}}, do={"at": "request", "hold": True})`
    : `broker.fault(use=${quote(use)}, match={"group": ${quote(id)}})`;
  return html`<div class="buttons"><select value=${use} onChange=${(event) => setUse(event.target.value)} aria-label="Fault">
      ${Object.keys(HELD).map((name) => html`<option value=${name}>${name}</option>`)}${Object.entries(READY_MADE).map(([name, words]) => html`<option value=${name}>${words}</option>`)}</select>
      <${Act} at=${at} label="Inject" object=${`the fault ${use}`} test=${test} where="/faults" body=${rule} /></div>
    <ul class="faults">${((faults && faults.faults) || []).map((fault) => html`<li key=${fault.name}><span><b>${fault.name}</b> ${fault.state}, hit ${fault.hit} of ${fault.matched}${fault.holding ? `, holds ${fault.holding}` : ""}</span>
      <span class="buttons">${fault.holding > 0 && html`<${Act} at=${at} label="Release" object=${`fault ${fault.name}`} where=${`/faults${path(fault.name)}/release`} body=${{}} />`}<${Act} at=${at} label="Remove" object=${`fault ${fault.name}`} method="DELETE" where=${"/faults" + path(fault.name)} /></span></li>`)}</ul>`;
}

function Record({ at, id }) {
  const recordings = useLoaded(() => ask(at.namespace, "GET", "/recordings"), [at.beat]);
  const mine = ((recordings && recordings.recordings) || []).find((each) => each.group_id === id);
  const where = "/recordings" + path(id);
  if (!mine) return html`<p>Record all requests and timers of the group, for <code>groupd replay</code>.</p><${Act} at=${at} label="Record" object="the group" method="PUT" where=${where} body=${{}} />`;
  return html`<p>${count(mine.inputs)} inputs, ${count(mine.bytes)} bytes${mine.ended ? `; ended: ${mine.ended}` : ""}</p>
    <div class="buttons"><a class="button" href=${base(at.namespace) + where} download=${`${id.replace(/[^\w.-]+/g, "_") || "group"}.groupd-rec`}>Download</a><${Act} at=${at} label="Stop" object="the recording" method="DELETE" where=${where} danger /></div>`;
}
