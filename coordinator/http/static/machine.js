// The states of a group, the present one lit.

import { html } from "./vendor/preact.js";
import { STATE_TONES } from "./parts.js";

const ARROWS = ["M150 60 H212", "M300 78 V132", "M212 150 H150", "M110 132 C130 96 180 80 212 70", "M90 42 V31", "M212 54 C190 48 170 50 150 54"];
const CLASSIC = { Empty: [90, 60], PreparingRebalance: [300, 60], CompletingRebalance: [300, 150], Stable: [90, 150], Dead: [90, 15] };
const CONSUMER = { Empty: [90, 60], Assigning: [300, 60], Reconciling: [300, 150], Stable: [90, 150], Dead: [90, 15] };

export function Machine({ group }) {
  const states = group.type === "consumer" ? CONSUMER : CLASSIC;
  return html`<svg class="machine" viewBox="0 -4 410 178" role="img" aria-label=${`The states of a ${group.type} group; it is ${group.state}`}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
    ${ARROWS.map((d) => html`<path class="arrow" d=${d} marker-end="url(#tip)" />`)}
    ${Object.entries(states).map(([name, [x, y]]) => {
      const wide = name === "Dead" ? 44 : x > 200 ? 176 : 120;
      const high = name === "Dead" ? 24 : 36;
      const tone = name === group.state ? `lit ${STATE_TONES[name]}` : "";
      return html`<g class="node ${tone}"><rect x=${x - wide / 2} y=${y - high / 2} width=${wide} height=${high} rx=${high / 2} /><text x=${x} y=${y + 4.5}>${name}</text></g>`;
    })}
  </svg>`;
}
