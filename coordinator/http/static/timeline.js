// Generations from left to right: how long each pause was and why, and a lane for each member.

import { html, useState } from "./vendor/preact.js";
import { Name, cut, span } from "./parts.js";

const SHOWN = 24;
const MOST_LANES = 40;

// One colour for each kind of cause; the words are the ledger's.
const TONES = [
  [/expired|evicted|lost|disconnected/, "loss"],
  [/left|removed|leave/, "leave"],
  [/joined|join/, "join"],
  [/topic|subscription|metadata|assignor|partition/, "change"],
];
const toneOf = (cause) => (TONES.find(([words]) => words.test(cause)) || [0, "other"])[1];

const pauseOf = (entry) => (entry.real ? entry.real.total_ms : entry.total_ms);

// Members of a consumer group go on reading while an epoch settles: its bar is hollow, and its time is no pause.
const isEpoch = (entry) => entry.type === "consumer";
const timeText = (entry) => `${isEpoch(entry) ? "settled in" : entry.real ? "paused" : "open for"} ${span(pauseOf(entry))}`;

export function Timeline({ entries }) {
  const [chosen, choose] = useState(null);
  const shown = entries.slice(-SHOWN);
  if (!shown.length) return html`<p class="nothing">No rebalance since the daemon started.</p>`;
  const longest = Math.max(50, ...shown.map(pauseOf));
  const lanes = lanesOf(shown);
  const entry = shown.find((each) => each.seq === chosen) || shown[shown.length - 1];
  return html`<div class="timeline" tabindex="0" role="group" aria-label="Generations">
      <table>
        <thead><tr><th scope="col"><span class="visually-hidden">Member</span></th>
          ${shown.map((each) => html`<th scope="col" class=${each === entry ? "chosen" : ""}>
            <button class="bar" aria-pressed=${each === entry} onClick=${() => choose(each.seq)}
              aria-label=${`${isEpoch(each) ? "Epoch" : "Generation"} ${each.generation_id}: ${each.cause}, ${timeText(each)}`}
              title=${`${each.cause}, ${timeText(each)}`}>
              <svg viewBox="0 0 20 56" aria-hidden="true"><rect class=${`tone ${toneOf(each.cause)} ${each.result} ${isEpoch(each) ? "epoch" : ""}`} x="2" rx="3" width="16" y=${56 - height(each, longest)} height=${height(each, longest)} /></svg>
              <span>${each.generation_id}</span>
            </button></th>`)}
        </tr></thead>
        <tbody>${lanes.map((lane) => html`<tr key=${lane.key}><th scope="row" title=${lane.key}>${cut(lane.name, 24)}</th>
          ${shown.map((each) => html`<td class=${each === entry ? "chosen" : ""}>${cell(each, lane)}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
    <${Entry} entry=${entry} />
    <ul class="legend" aria-label="Causes">${["join", "leave", "loss", "change", "other"].map((tone) => html`<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="tone ${tone}" width="10" height="10" rx="2" /></svg>${LEGEND[tone]}</li>`)}</ul>`;
}

const LEGEND = { join: "member joined", leave: "member left", loss: "member lost", change: "topics or protocols", other: "other" };

const height = (entry, longest) => 4 + 52 * Math.sqrt(pauseOf(entry) / longest);

const nameOf = (member) => member.group_instance_id || member.client_id;

// A lane for each name: a client that comes back under another member id stays in its own. Where two members have the
// same name at once, each has a lane.
function lanesOf(entries) {
  const shared = new Set();
  for (const entry of entries) {
    const names = entry.members.filter((member) => !member.gone).map(nameOf);
    for (const name of names) if (names.indexOf(name) !== names.lastIndexOf(name)) shared.add(name);
  }
  const lanes = new Map();
  for (const entry of [...entries].reverse())
    for (const member of entry.members) {
      const name = nameOf(member);
      const key = shared.has(name) ? member.member_id : name;
      if (!lanes.has(key)) lanes.set(key, { key, name, has: shared.has(name) ? (each) => each.member_id === key : (each) => nameOf(each) === name });
    }
  return [...lanes.values()].slice(0, MOST_LANES);
}

function cell(entry, lane) {
  const all = entry.members.filter(lane.has);
  const member = all.find((each) => !each.gone) || all[0];
  if (!member) return "";
  if (member.gone) return html`<span class="gone" title=${member.gone}>×</span>`;
  const moved = [...member.gained.map((name) => `+${name}`), ...member.lost.map((name) => `−${name}`)].join(" ");
  return html`<span class="share ${member.gained_count ? "gained" : ""} ${member.lost_count ? "less" : ""}" title=${moved || "the same partitions"}>${member.owned === null ? "·" : member.owned_count}</span>`;
}

function Entry({ entry }) {
  return html`<div class="entry" role="status">
    <strong><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="tone ${toneOf(entry.cause)}" width="10" height="10" rx="2" /></svg>${entry.type === "consumer" ? "Epoch" : "Generation"} ${entry.generation_id}: ${entry.cause}${entry.actor ? `: ${cut(entry.actor.client_id)}` : ""}</strong>
    <span>${timeText(entry)}, ${entry.result}</span>
    ${entry.also && entry.also.length > 0 && html`<span>also: ${entry.also.map((act) => `${act.kind} ${act.what}`).join("; ")}</span>`}
    ${entry.members.filter((member) => member.gained_count || member.lost_count || member.gone).slice(0, 8).map((member) => html`<span><b><${Name} text=${member.client_id} /></b>
      ${member.gone ? ` ${member.gone}` : ""}${member.gained_count ? ` +${member.gained_count}` : ""}${member.lost_count ? ` −${member.lost_count}` : ""}${member.awaited_ms > 100 ? `, awaited ${span(member.awaited_ms)}` : ""}</span>`)}
  </div>`;
}
