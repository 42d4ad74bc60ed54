// An epoch's time against one size: SVG by hand, and its words. Works on what calculator.js has.

const W = 360, H = 230, LEFT = 56, RIGHT = 12, TOP = 24, BOTTOM = 42;
const MINUTE = 60, HOUR = 3600, DAY = 86400, YEAR = 365.25 * DAY;
// What the time of an epoch is drawn against: where the curve begins (it ends at the highest), and the axis' name.
const CURVES = {
  batch: [1, "sentences a batch"], vocabulary: [1000, "words in the vocabulary"], length: [1, "tokens in a sentence"],
};
const ROUND = [
  ...[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1].flatMap((size) => [size, 2 * size, 5 * size]), 10, 20, 30,
  ...[1, 2, 5, 10, 20, 30].map((n) => n * MINUTE), ...[1, 2, 5, 10, 20].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200].map((n) => n * DAY),
  ...[1, 10, 100, 1e3, 1e4, 1e5, 1e6].flatMap((size) => [size, 2 * size, 5 * size].map((n) => n * YEAR)),
];

function tickText(seconds) {
  const [size, name] = seconds < 0.999e-3 ? [1e-6, "µs"] : seconds < 0.999 ? [1e-3, "ms"] : seconds < MINUTE ? [1, "s"]
    : seconds < HOUR ? [MINUTE, "min"] : seconds < DAY ? [HOUR, "h"] : seconds < YEAR ? [DAY, "d"] : [YEAR, "yr"];
  return `${short(Math.round(seconds / size))} ${name}`;
}

function svg(kind, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function showCurve(name, settings) {
  const [from, axis] = CURVES[name], own = settings[name], least = Math.min(from, own);
  // No batch is larger than the data; and an axis has two ends.
  const most = Math.min(DATA.numbers[name].highest, name === "batch" ? settings.sentences : Infinity);
  const highest = Math.max(most, 2 * least), last = Math.max(most, own);
  const at = (size) => {
    const {epoch: {value, low, high}, measured} = answer({...settings, [name]: size}, false);
    return {x: size, value, low: low || value, high: high || value, measured};  // a single run has no interval
  };
  const spread = Array.from({length: 73}, (_, index) => Math.round(least * (last / least) ** (index / 72)));
  const sizes = stepsOf(settings).map((one) => one.at[name]).filter((size) => size >= least && size <= last);
  const points = [...new Set([...spread, ...sizes, own])].sort((one, other) => one - other).map(at), ticks = [];
  for (let tick = 10 ** Math.ceil(Math.log10(least)); tick <= highest; tick *= 10) ticks.push(tick);
  const picture = curveOf(points, at(own), [least, highest], ticks, axis, points.filter((one) => one.measured));
  calculator.querySelector(`[data-curve="${name}"]`).replaceChildren(picture);
}

function curveOf(points, own, [least, highest], ticks, axis, known) {
  const ends = [points[0], points[points.length - 1]];
  const told = ends.map((end) => `${shown(end.value)} at ${counted(end.x)}`).join(", ");
  const words = `Time of an epoch against ${axis}, both on logarithmic scales, with the interval: ${told}; ` +
    `yours, at ${counted(own.x)}, takes ${shown(own.value)}.` +
    known.map((one) => ` Measured at ${counted(one.x)}: ${shown(one.value)}.`).join("");
  const picture = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words});
  const put = (...parts) => picture.append(svg(...parts));

  // A flat curve would fill the height with nothing: show a factor of ten at least.
  const took = known.map((one) => one.value);
  const bottom = Math.min(...points.map((each) => each.low), ...took);
  const top = Math.max(...points.map((each) => each.high), ...took);
  const spare = 1.1 * Math.sqrt(Math.max(10 / (top / bottom), 1)), [low, high] = [bottom / spare, top * spare];
  const share = (value, from, to) => Math.log(value / from) / Math.log(to / from);
  const x = (value) => LEFT + (W - RIGHT - LEFT) * share(value, least, highest);
  const y = (value) => H - BOTTOM + (TOP - H + BOTTOM) * share(value, low, high);
  let drawn = H;
  for (const tick of ROUND.filter((each) => each >= low && each <= high)) {
    if (drawn - y(tick) < 20) continue;
    drawn = y(tick);
    put("line", {class: "grid", x1: LEFT, x2: W - RIGHT, y1: drawn, y2: drawn});
    put("text", {x: LEFT - 6, y: drawn + 4, "text-anchor": "end"}, tickText(tick));
  }
  for (const tick of ticks) {
    put("line", {class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: H - BOTTOM});
    put("text", {x: x(tick), y: H - BOTTOM + 16, "text-anchor": "middle"}, short(tick));
  }
  put("path", {class: "axis", fill: "none", d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}`});
  put("text", {x: (LEFT + W - RIGHT) / 2, y: H - 8, "text-anchor": "middle"}, axis);
  put("text", {x: 4, y: 12}, "time of an epoch");

  const path = (end, list = points) => list.map((one) => `${x(one.x).toFixed(1)} ${y(one[end]).toFixed(1)}`).join("L");
  put("path", {class: "band", d: `M${path("high")}L${path("low", [...points].reverse())}Z`});
  put("path", {class: "line", d: `M${path("value")}`});
  for (const one of known) put("circle", {class: "measured", cx: x(one.x), cy: y(one.value), r: 4});
  const [left, height] = [x(own.x), y(own.value)];
  put("circle", {class: "mark", cx: left, cy: height, r: 6, "data-x": own.x, "data-value": own.value});
  // Above a rising curve on its left, above a falling one on its right: there is room.
  const right = left <= (LEFT + W) / 2, above = right !== ends[1].value > ends[0].value;
  const where = {x: left + (right ? 9 : -9), y: height + (above ? -9 : 19), "text-anchor": right ? "start" : "end"};
  put("text", {class: "yours", ...where}, `yours: ${shown(own.value)}`);
  return picture;
}
