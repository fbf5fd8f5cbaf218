// The lag of a group over time, from the history of the daemon.

import { html } from "./vendor/preact.js";
import { count, timeOfDay } from "./parts.js";

const MIN_LENGTH_MS = 60000;
const DAY_MS = 86400000;
const SIZE = 100;
const TICKS = [0, 1 / 3, 2 / 3, 1];

// The top of the scale: the least of 4, 10, 20, 40, 100, ... that is not below the greatest lag. Its half is whole.
const findTop = (lag) => {
  for (let power = 1; ; power *= 10) for (const step of [4, 10, 20]) if (step * power >= lag) return step * power;
};

// Times of a long history have the day of the month: "27. 14:30".
const timeLabel = (ms, isLong) => (isLong ? `${new Date(ms).getDate()}. ${timeOfDay(ms).slice(0, 5)}` : timeOfDay(ms));

// Whether groupd did not sample before a point: the step to it is much longer than most steps.
const findGaps = (points) => {
  const steps = points.map(({ at_ms }, place) => (place ? at_ms - points[place - 1].at_ms : 0));
  const usual = [...steps].sort((one, other) => one - other)[steps.length >> 1];
  return steps.map((step) => step > 4 * usual && steps.length > 2);
};

// `lag` is the present lag, null without committed offsets.
export function Lag({ points, lag: present }) {
  if (!points.length) return html`<p class="nothing">${present === null ? "The group has no committed offsets." : "No history of the lag yet."}</p>`;
  const [first, last] = [points[0], points[points.length - 1]];
  const length = Math.max(MIN_LENGTH_MS, last.at_ms - first.at_ms);
  const top = findTop(Math.max(...points.map((point) => point.lag)));
  const places = points.map(({ at_ms, lag }) => `${((SIZE * (at_ms - first.at_ms)) / length).toFixed(2)} ${(SIZE - (SIZE * lag) / top).toFixed(2)}`);
  const gaps = findGaps(points);
  const runs = places.reduce((found, each, place) => (place && !gaps[place] ? found[found.length - 1].push(each) : found.push([each]), found), []);
  const area = runs.map((run) => `M${run[0].split(" ")[0]} ${SIZE}L${run.join("L")}V${SIZE}Z`).join("");
  const line = runs.map((run) => `M${run.join("L")}${run.length === 1 ? "h0.5" : ""}`).join("");
  const label = `Lag in records from ${timeOfDay(first.at_ms)} to ${timeOfDay(last.at_ms)}: at most ${Math.max(...points.map((point) => point.lag))}, at last ${last.lag}`;
  return html`<div class="lag" role="img" aria-label=${label}>
    <span class="unit">records, by time of day (24 h)</span>
    <span class="scale"><span>${count(top)}</span><span>${count(top / 2)}</span><span>0</span></span>
    <svg class="plot" viewBox="0 0 ${SIZE} ${SIZE}" preserveAspectRatio="none" aria-hidden="true">
      <path class="grid" d="M0 0H${SIZE}M0 ${SIZE / 2}H${SIZE}M0 ${SIZE}H${SIZE}" />
      <path class="area" d=${area} /><path class="line" stroke-linecap="round" d=${line} />
    </svg>
    <span class="times">${TICKS.map((share) => html`<span>${timeLabel(first.at_ms + share * length, length > DAY_MS)}</span>`)}</span>
  </div>`;
}
