// The lag of a group since this page was opened.

import { html, useEffect, useRef } from "./vendor/preact.js";

const MAX_POINTS = 900;
const HEIGHT_PX = 150;

// Loads the chart library once, when the first chart is drawn: its start takes longer than everything else on the page.
let library = null;
const loadLibrary = () => {
  library = library || new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "static/vendor/uplot.js";
    script.onload = resolve;
    script.onerror = () => { library = null; reject(new Error("static/vendor/uplot.js cannot be loaded")); };
    document.head.append(script);
  });
  return library;
};

export function Lag({ lag, beat }) {
  const place = useRef(null);
  const points = useRef([[], []]);
  const plot = useRef(null);
  const isUnknown = lag === null || lag === undefined;
  useEffect(() => {
    if (isUnknown) return;
    const [times, lags] = points.current;
    times.push(Date.now() / 1000);
    lags.push(lag);
    if (times.length > MAX_POINTS) { times.shift(); lags.shift(); }
    if (plot.current) plot.current.setData(points.current);
    else loadLibrary().then(() => {
      if (!plot.current && place.current) plot.current = drawChart(place.current, points.current);
    });
  }, [beat, isUnknown]);
  useEffect(() => {
    const fit = () => plot.current && place.current && plot.current.setSize({ width: place.current.clientWidth, height: HEIGHT_PX });
    addEventListener("resize", fit);
    return () => { removeEventListener("resize", fit); if (plot.current) plot.current.destroy(); };
  }, []);
  return html`<div class="lag" ref=${place} role="img" aria-label=${isUnknown ? "no lag is known" : `lag ${lag}`}>${isUnknown && !plot.current && html`<p class="nothing">No offset is committed.</p>`}</div>`;
}

function drawChart(place, data) {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return new uPlot({
    width: place.clientWidth, height: HEIGHT_PX, legend: { show: false }, cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, low, high) => [0, Math.max(5, high * 1.1)] } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 44, space: 30 }],
    series: [{}, { stroke: color("--accent"), fill: color("--accent-wash"), width: 2, points: { show: false } }],
  }, data, place);
}
