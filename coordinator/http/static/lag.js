// The lag of a group, as this page has seen it.

import { html, useEffect, useRef } from "./vendor/preact.js";

const MOST = 900;

export function Lag({ lag, beat }) {
  const place = useRef(null);
  const seen = useRef([[], []]);
  const plot = useRef(null);
  useEffect(() => {
    if (lag === null || lag === undefined) return;
    const [times, lags] = seen.current;
    times.push(Date.now() / 1000);
    lags.push(lag);
    if (times.length > MOST) { times.shift(); lags.shift(); }
    if (!plot.current && place.current) plot.current = made(place.current, seen.current);
    else if (plot.current) plot.current.setData(seen.current);
  }, [beat, lag === null]);
  useEffect(() => {
    const fit = () => plot.current && place.current && plot.current.setSize({ width: place.current.clientWidth, height: 150 });
    addEventListener("resize", fit);
    return () => { removeEventListener("resize", fit); if (plot.current) plot.current.destroy(); };
  }, []);
  return html`<div class="lag" ref=${place} role="img" aria-label=${lag === null || lag === undefined ? "no lag is known" : `lag ${lag}`}>${(lag === null || lag === undefined) && !plot.current && html`<p class="nothing">Nothing was committed.</p>`}</div>`;
}

function made(place, data) {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot({
    width: place.clientWidth, height: 150, legend: { show: false }, cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [0, Math.max(5, high * 1.1)] } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 44, space: 30 }],
    series: [{}, { stroke: color("--accent"), fill: color("--accent-wash"), width: 2, points: { show: false } }],
  }, data, place);
}
