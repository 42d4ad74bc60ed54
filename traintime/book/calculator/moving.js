// A figure that moves: measured steps, the formula's line and a slider for each size. The data come from moving.py, and
// the formula with them: a line is a sum of costs, each times powers of the sizes. What follows draws and listens.
(() => {
"use strict";
const LEFT = 48, RIGHT = 20, TOP = 22, BOTTOM = 42;
const LINE = "var(--pst-color-primary, #176de8)", GREY = "var(--pst-color-text-muted, #6e6e6e)";

// Sizes come as an array, in the order of the sliders. A point has its sizes first, then step, low and high, in s.
const predicted = ({costs}, at) => costs.reduce((sum, [cost, ...powers]) =>
  sum + powers.reduce((product, power, size) => product * at[size] ** power, cost), 0);
const measured = ({points}, at) => points.find((point) => at.every((value, size) => point[size] === value));
// The one value at which a line was measured; null where there are several.
const only = ({points}, size) => points.every((point) => point[size] === points[0][size]) ? points[0][size] : null;

const counted = (number) => number.toLocaleString("en");
const short = (number) => {
  const fits = ([size]) => number >= size && (10 * number) % size === 0;
  const [size, letter] = [[1e6, "M"], [1e3, "K"], [1, ""]].find(fits);
  return `${number / size}${letter}`;
};
// As many digits as the book's tables have.
const places = (seconds) => (seconds > 0.1 ? 0 : 1);
const milliseconds = (seconds, digits = places(seconds)) => (1e3 * seconds).toLocaleString("en",
  {minimumFractionDigits: digits, maximumFractionDigits: digits});

function inWords(line, at, size, unit) {
  const point = measured(line, at), formula = `${milliseconds(predicted(line, at))} ms on the line`;
  if (!point) return `${counted(at[size])} ${unit}: ${formula}, not measured`;
  const [step, low, high] = point.slice(at.length), digits = places(step);
  const interval = low === null ? "" : ` (${milliseconds(low, digits)} to ${milliseconds(high, digits)})`;
  return `${counted(at[size])} ${unit}: ${milliseconds(step, digits)} ms measured${interval}, ${formula}`;
}

function svg(kind, attributes, inside = []) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...[inside].flat());
  return made;
}
const line = (d, colour, width, more = "") =>
  svg("path", {d, style: `fill: none; stroke: ${colour}; stroke-width: ${width}; ${more}`});
const circle = (cx, cy, r, style) => svg("circle", {cx, cy, r, style});
const text = (x, y, anchor, words) => svg("text", {x, y, "text-anchor": anchor, style: "fill: currentColor"}, words);

// Of places those that are far enough from the one before.
function apart(values, place, least) {
  let last = Infinity;
  return values.filter((value) => Math.abs(place(value) - last) >= least && ((last = place(value)), true));
}

// Pixels of values between two ends, on a logarithmic scale.
const scale = ([low, high], [from, to]) => (value) => from + (to - from) *
  Math.log(value / low) / (Math.log(high / low) || 1);

function start(root) {
  const {sizes, lines} = JSON.parse(root.querySelector("script").textContent);
  const [lineSelect, axisSelect] = root.querySelectorAll("select"), sliders = [...root.querySelectorAll("input")];
  const plot = root.querySelector("svg"), reading = root.querySelector(".moving-reading");
  let x, y, marker;  // of what is drawn: its scales, and what moves in it

  const chosen = () => lines[lineSelect.selectedIndex], axis = () => axisSelect.selectedIndex;
  const at = () => sliders.map((slider, size) => sizes[size].stops[slider.value]);
  const along = (value) => at().map((other, size) => (size === axis() ? value : other));
  // The points on the axis as the other sliders stand.
  const onAxis = ({points}) => points.filter((point) => measured({points: [point]}, along(point[axis()])))
    .sort((one, other) => one[axis()] - other[axis()]);
  // Nothing is known of a line along a size at which it was measured once, or at another value of that size.
  const known = (each) => sizes.every((_, size) => only(each, size) === null ||
    (size !== axis() && only(each, size) === at()[size]));

  function draw() {
    const width = plot.clientWidth, bottom = plot.clientHeight - BOTTOM, stops = sizes[axis()].stops, n = sizes.length;
    if (!width) return;
    const ends = [stops[0], stops[stops.length - 1]];
    const curves = lines.map((each) => known(each) ? Array.from({length: 49}, (_, index) => {
      const value = ends[0] * (ends[1] / ends[0]) ** (index / 48);
      return [value, predicted(each, along(value))];
    }) : []);
    const seconds = [...curves.flat().map((one) => one[1]), predicted(chosen(), at()),
      ...lines.flatMap(onAxis).flatMap((point) => point.slice(n).filter((value) => value !== null))];
    x = scale(ends, [LEFT + 10, width - RIGHT]);
    y = scale([Math.min(...seconds) / 1.15, Math.max(...seconds) * 1.15], [bottom, TOP]);

    plot.setAttribute("viewBox", `0 0 ${width} ${bottom + BOTTOM}`);
    const ground = svg("g", {"aria-hidden": true});
    const grid = (path) => ground.append(line(path, "var(--pst-color-border, #ccc)", 1));
    const steps = [-5, -4, -3, -2, -1, 0, 1, 2].flatMap((power) => [1, 2, 5].map((part) => part * 10 ** power));
    for (const tick of apart(steps.filter((each) => y(each) <= bottom && y(each) >= TOP), y, 24)) {
      grid(`M${LEFT} ${y(tick)}H${width - RIGHT}`);
      ground.append(text(LEFT - 6, y(tick) + 4, "end", counted(Number((1e3 * tick).toPrecision(1)))));
    }
    const sized = [...new Set(lines.flatMap((each) => each.points.map((point) => point[axis()])))];
    for (const tick of apart(sized.sort((one, other) => other - one), x, 34)) {
      grid(`M${x(tick)} ${TOP}V${bottom}`);
      ground.append(text(x(tick), bottom + 17, "middle", short(tick)));
    }
    const label = axisSelect.options[axis()].text.toLowerCase(), unit = sizes[axis()].unit;
    ground.append(text((LEFT + width - RIGHT) / 2, bottom + BOTTOM - 6, "middle", `${label} (${unit})`));
    ground.append(text(4, 13, "start", "one step (ms)"));
    const spot = (point) => [x(point[axis()]), y(point[n])];
    const place = ([value, took]) => `${x(value).toFixed(1)} ${y(took).toFixed(1)}`;
    const path = (curve) => `M${curve.map(place).join("L")}`;
    lines.forEach((each, number) => {
      if (each === chosen()) return;
      if (curves[number].length) ground.append(line(path(curves[number]), GREY, 1.2, "opacity: .5"));
      ground.append(...onAxis(each).map((point) => circle(...spot(point), 2.5, `fill: ${GREY}; opacity: .5`)));
    });
    const mine = curves[lineSelect.selectedIndex];
    if (mine.length) ground.append(line(path(mine), LINE, 2.4));

    marker = svg("g", {"aria-hidden": true});
    const spots = onAxis(chosen()).map((point) => {
      const [low, high] = point.slice(n + 1), [left, height] = spot(point);
      const end = (seconds) => `M${left - 4} ${y(seconds)}h8`;
      const bar = low === null ? "" : `${end(low)}${end(high)}M${left} ${y(low)}V${y(high)}`;
      return svg("g", {"aria-hidden": true}, [line(bar, "currentColor", 1.4), circle(left, height, 5, "fill: currentColor")]);
    });
    plot.replaceChildren(ground, marker, ...spots);
    show();
  }

  function show() {
    const here = at(), left = x(here[axis()]);
    marker.replaceChildren(
      line(`M${left} ${TOP}V${plot.clientHeight - BOTTOM}`, "currentColor", 1, "stroke-dasharray: 3 3"),
      circle(left, y(predicted(chosen(), here)), 8, `fill: none; stroke: ${LINE}; stroke-width: 2.4`),
    );
    sliders.forEach((slider, size) => {
      const words = `${counted(here[size])} ${sizes[size].unit}`;
      slider.setAttribute("aria-valuetext", words);
      slider.previousElementSibling.textContent = slider.disabled ? `${words} only` : words;
    });
    const words = inWords(chosen(), here, axis(), sizes[axis()].unit);
    if (reading.textContent !== words) reading.textContent = words;
  }

  function follow(event) {
    if (sliders[axis()].disabled) return;
    const place = event.clientX - plot.getBoundingClientRect().left, off = (stop) => Math.abs(x(stop) - place);
    const {stops} = sizes[axis()];
    sliders[axis()].value = stops.indexOf(stops.reduce((best, stop) => (off(stop) < off(best) ? stop : best)));
    show();
  }

  lineSelect.addEventListener("change", () => {
    sliders.forEach((slider, size) => {
      const alone = only(chosen(), size);
      slider.disabled = alone !== null;
      if (slider.disabled) slider.value = sizes[size].stops.indexOf(alone);
    });
    draw();
  });
  axisSelect.addEventListener("change", draw);
  sliders.forEach((slider, size) => slider.addEventListener("input", () => (size === axis() ? show() : draw())));
  for (const name of ["pointermove", "pointerdown"]) plot.addEventListener(name, follow);
  new ResizeObserver(draw).observe(plot);
  lineSelect.dispatchEvent(new Event("change"));
}

document.querySelectorAll(".moving").forEach(start);
})();
