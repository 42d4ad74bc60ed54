// The page's own part: fields, answer, link. What is computed comes from Python: `work`, `parts`, `costed`, `peak`,
// `steps` and `epoch` are printed from its formulas (formulas.py) and stand above, as does curves.js; the numbers are
// in calculator-data.
const DATA = JSON.parse(document.getElementById("calculator-data").textContent);
const calculator = document.getElementById("calculator-root");
const form = calculator.querySelector("form");
// Not form.elements[name]: one of the fields is called "length".
const field = (name) => form.elements.namedItem(name);
const place = (name) => calculator.querySelector(`[data-part="${name}"]`);
const problemOf = (name) => calculator.querySelector(`[data-problem="${name}"]`);
const BY_RATES = "rates", DEFERRED = "adam-deferred", KEEPS = "tcmalloc";
// Something that might make an epoch shorter: sizes times a factor, settings put to a value.
const CHANGES = [
  {name: "batch", words: "Batches four times as large", page: "06-batch-size", times: {batch: 4}},
  {name: "frozen", words: "Leave the table untrained", page: "14-faster", sets: {frozen: true}},
  {name: "deferred", words: "Update a row of the table only when it is read again", page: "17-beat-the-formula",
    sets: {optimizer: DEFERRED}},
  {name: "allocator", words: "An allocator that keeps freed memory", page: "05-memory-pool", sets: {allocator: KEEPS}},
  {name: "sgd", words: "SGD, which keeps no moments", page: "14-faster", sets: {optimizer: "sgd"}},
  {name: "vocabulary", words: "Half the vocabulary", page: "04-vocabulary", times: {vocabulary: 0.5}},
  {name: "embedding", words: "Half the numbers in each row", page: "04-vocabulary", times: {embedding: 0.5}},
];
const WORTH = 1.05;  // how many times as fast an epoch has to become for a change to be shown
const NAMED = 2;  // how far off the worst prediction for a machine and stack has to be for an answer to name it
const NUMBERS = Object.keys(DATA.numbers), RATES = DATA.rates;
const SELECTS = Object.keys(DATA.choices);
const TERMS = Object.keys(DATA.terms), PARTS = Object.keys(DATA.parts);

// The answer

const way = (settings) => settings.optimizer + (settings.frozen ? " frozen" : "");
const within = (value, error) => ({
  value, low: value * Math.exp(-DATA.z * error), high: value * Math.exp(DATA.z * error),
});
const scaled = ({value, low, high}, factor) => ({value: value * factor, low: low * factor, high: high * factor});

// Costs by allocator. Those of a machine by its rates are at rates of 1 a second.
function costsOf({machine, stack, gflops, gbytes}) {
  if (machine !== BY_RATES) return DATA.costs[machine][stack];
  const rates = {flops: gflops * 1e9, bytes: gbytes * 1e9};
  const costs = ([name, {seconds, error}]) => [name, {seconds: costed(seconds, rates), error}];
  return Object.fromEntries(Object.entries(DATA.costs[machine][stack]).map(costs));
}

// The step with these settings as it was measured, s: undefined where nobody did.
function measured(settings) {
  const row = rowsOf(settings).find((row) => DATA.set.every((name, place) => row[place] === settings[name]));
  const from = (place) => ({value: row[place], low: row[place + 1] ?? NaN, high: row[place + 2] ?? NaN});
  const first = DATA.set.length;
  return row && {...from(first), runs: row[first + 3], mean: from(first + 4)};
}
const rowsOf = ({machine, stack}) => DATA.measured[machine]?.[stack] ?? [];
// A predicted duration as it follows from the mean of the measured steps.
const fromMeasured = ({measured, step}, predicted) => scaled(measured.mean, predicted.value / step.value);

function answer(settings, withChanges = true) {
  const costs = costsOf(settings)[settings.allocator], held = DATA.holdings[settings.stack], how = way(settings);
  const done = work[how](settings), each = parts(done, costs.seconds), count = steps(settings);
  const ofPart = (part) => TERMS.reduce((sum, name) => sum + (DATA.terms[name] === part ? each[name] : 0), 0);
  const by = Object.fromEntries(PARTS.map((part) => [part, ofPart(part)]));
  const inAll = within(epoch(each, settings), costs.error);
  // A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
  const idle = DATA.machines[settings.machine].card ? DATA.context : held.idle;
  const found = {
    step: within(TERMS.reduce((sum, name) => sum + each[name], 0), costs.error),
    epoch: inAll,
    total: scaled(inAll, settings.epochs),
    peak: within(peak(done, {...held, idle, copies: held.copies[how]}), held.error),
    steps: count,
    parts: by,
    work: done,
    limit: PARTS.reduce((most, name) => (by[name] > by[most] ? name : most)),
    error: costs.error,
    measured: measured(settings),
  };
  if (withChanges) found.changes = worthwhile(settings, found);
  return found;
}

// The settings with a change; null where it changes nothing, or is not to be had.
function changed(settings, change) {
  const values = {...change.sets};
  for (const [name, factor] of Object.entries(change.times ?? {})) {
    values[name] = Math.max(Math.trunc(settings[name] * factor), 1);
  }
  const names = Object.keys(values);
  if (names.every((name) => settings[name] === values[name])) return null;
  if (names.some((name) => name in DATA.numbers && values[name] > DATA.numbers[name].highest)) return null;
  if ((values.batch ?? 0) > settings.sentences) return null;
  if (!((values.allocator ?? settings.allocator) in costsOf(settings))) return null;
  if (values.optimizer === DEFERRED && !(settings.vocabulary > DATA.deferred_above[settings.stack])) return null;
  return {...settings, ...values};
}

function worthwhile(settings, found) {
  const lasts = (one, known) => (known ? fromMeasured(one, one.epoch) : one.epoch).value; // known: both were measured
  return CHANGES
    .map((change) => ({change, settings: changed(settings, change)}))
    .filter((each) => each.settings)
    .map((each) => {
      const there = answer(each.settings, false), known = Boolean(found.measured && there.measured);
      return {...each, known, factor: lasts(found, known) / lasts(there, known)};
    })
    .filter((each) => each.factor >= WORTH)
    .sort((one, other) => other.factor - one.factor);
}

// Numbers as people read them

function shown(value, units = DATA.seconds) {
  const [, size, name] = units.find(([limit]) => limit === null || value < limit);
  const rounded = Number((value / size).toPrecision(2));
  return `${rounded < 10 ? rounded.toPrecision(2) : rounded.toLocaleString("en")} ${name}`;
}
// An interval; nothing without one.
const between = ({low, high}, units) => (low > 0 ? `${shown(low, units)} to ${shown(high, units)}` : "");
// A measured step as the chapters have it: its milliseconds, its interval, how often; the post printed two digits.
function milliseconds({value, low, high, runs}) {
  if (!runs) return [shown(value), "by the 2017 post"];
  const digits = value > 0.1 ? 0 : 1, places = {minimumFractionDigits: digits, maximumFractionDigits: digits};
  const [took, from, to] = [value, low, high].map((seconds) => (1e3 * seconds).toLocaleString("en", places));
  const often = `${runs} run${runs === 1 ? "" : "s"}`;
  return [`${took} ms`, low > 0 ? `${from} to ${to}, ${often}` : often];
}
// How far off a prediction is, as a factor and in words; ratio: of measured to predicted.
const far = (ratio) => Math.max(ratio, 1 / ratio);
const missed = (ratio) =>
  far(ratio) < 1.05 ? "within 5\u00a0%" : `${times(far(ratio))} too ${ratio > 1 ? "short" : "long"}`;
const counted = (number) => number.toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(share < 0.01 && share > 0 ? 1 : 0)}\u00a0%`;
const level = percent(DATA.level);
const times = (factor) => `${factor < 10 ? factor.toPrecision(2) : Math.round(factor).toLocaleString("en")} times`;
const short = (number) => {
  const [size, letter] = number >= 1e6 ? [1e6, "M"] : number >= 1e3 ? [1e3, "K"] : [1, ""];
  return `${Number((number / size).toPrecision(3))}${letter}`;
};

function element(kind, attributes = {}, ...inside) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

// How far the formula misses what was measured

// Each measured step, and how many times as long as predicted it took; the worst miss first.
const MISSES = Object.entries(DATA.measured).flatMap(([machine, stacks]) => Object.entries(stacks).flatMap(
  ([stack, rows]) => rows.map((row) => {
    const at = {machine, stack, ...Object.fromEntries(DATA.set.map((name, place) => [name, row[place]]))};
    const {step, measured} = answer({...DATA.usual, ...at}, false);
    return {at, step, measured, ratio: measured.value / step.value};
  }))).sort((one, other) => far(other.ratio) - far(one.ratio));
const titleOf = (machine) => DATA.choices.machine[machine].split(" (")[0];

// What differs from the sizes of the 2017 post, in words.
function where(at) {
  const named = {frozen: "a frozen table", allocator: at.allocator, optimizer: DATA.choices.optimizer[at.optimizer]};
  const words = (name) => named[name] ?? `${name} ${counted(at[name])}`;
  return DATA.set.filter((name) => at[name] !== DATA.usual[name]).map(words).join(", ") || "the sizes of the 2017 post";
}

// Today's TensorFlow on processors that lack its instructions: how far off the formula was, and where.
function slowWithoutVnni() {
  const found = MISSES.filter(({at}) => at.stack === DATA.usual.stack && !DATA.machines[at.machine].vnni);
  const [least, most] = [Math.min, Math.max].map((end) => end(...found.map(({ratio}) => ratio)).toFixed(1));
  const ran = [...new Set(found.map(({at}) => titleOf(at.machine).replace("Machine", "machine")))].sort().join(", ");
  return `Without AVX512-VNNI, TensorFlow took ${least} to ${most} times as long as predicted (${ran}). `;
}

function showWorst() {
  const heads = [...place("worst").querySelectorAll("th")].map((head) => head.textContent);
  place("worst").tBodies[0].replaceChildren(...MISSES.slice(0, 10).map(({at, step, measured, ratio}) => {
    const took = shown(measured.value) + (measured.runs === 1 ? " (one\u00a0run)" : "");
    const stack = at.stack.replaceAll("-", "\u2011");  // no line breaks inside of a name
    const cells = [titleOf(at.machine), stack, where(at), took, shown(step.value), missed(ratio)];
    return element("tr", {}, ...cells.map((cell, column) => element("td", {"data-head": heads[column]}, cell)));
  }));
}

// Reading the fields

// The settings, and what is wrong with each field that is.
function read() {
  const settings = {frozen: field("frozen").checked}, problems = {};
  for (const name of SELECTS) settings[name] = field(name).value;
  for (const name of NUMBERS) {
    const {label, lowest, highest, whole} = DATA.numbers[name], text = field(name).value.trim(), value = Number(text);
    if (RATES.includes(name) && settings.machine !== BY_RATES) settings[name] = DATA.usual[name];
    else if (text !== "" && value >= lowest && value <= highest && !(whole && value % 1)) settings[name] = value;
    else {
      const range = `from ${counted(lowest)} to ${counted(highest)}`;
      problems[name] = `${label}: give a ${whole ? "whole number" : "number"} ${range}.`;
    }
  }
  if (settings.batch > settings.sentences) {
    problems.batch = `Batch: ${counted(settings.batch)} is more than the ${counted(settings.sentences)} sentences.`;
  }
  if (settings.optimizer === DEFERRED && !DATA.deferred.includes(settings.stack)) {
    problems.optimizer = `Optimizer: ${settings.stack} has no deferred embedding. Take ${DATA.deferred.join(", ")}, ` +
      "or another optimizer.";
  }
  if (!(settings.allocator in costsOf(settings))) {
    problems.allocator = `Allocator: the costs of ${settings.stack} under ${settings.allocator} are not known there. ` +
      `Take ${DATA.usual.allocator}, or another machine or software.`;
  }
  return {settings, problems};
}

// The link

// What encodeURIComponent leaves, but programs that look for links in a text take for its end.
const encoded = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);

function hashOf(settings) {
  const rates = settings.machine === BY_RATES ? RATES : [];
  const names = [...NUMBERS.filter((name) => !RATES.includes(name)), ...SELECTS, ...rates];
  const values = names.map((name) => [name, settings[name]]);
  values.push(["frozen", Number(settings.frozen)]);
  return `#${values.map(([name, value]) => `${name}=${encoded(value)}`).join("&")}`;
}

// Fill the fields with the usual values, then with the link's; give what the link asks for in vain.
function fill(hash) {
  const usual = DATA.usual, refused = [];
  put(usual);
  if (!hash.includes("=")) return refused;
  // A sentence's full stop or bracket may have come along with the link.
  const asked = new URLSearchParams(hash.replace(/^#/, "").replace(/[\s.,;:!?)\]>"'”’]+$/, ""));
  for (const [name, value] of asked) {
    const to = field(name);
    if (name === "frozen") to.checked = value === "1";
    else if (name in DATA.numbers) to.value = value;
    else if (!SELECTS.includes(name)) refused.push(`no ${name} is known here`);
    else if (![...to.options].some((option) => option.value === value)) {
      refused.push(`${name} ${value} is not known here, and ${usual[name]} stands in its place`);
    } else to.value = value;
    // What is no number leaves a number field empty.
    if (name in DATA.numbers && to.value === "") refused.push(`${name} ${value} is no number`);
  }
  return refused;
}

// Sliders: each stands on round numbers, so that a key always moves it and lands on one.

function stops(name) {
  const {lowest, highest, whole} = DATA.numbers[name];
  const doubling = ["batch", "units", "embedding", "length"].includes(name), found = [];
  for (let size = doubling ? 1 : 10 ** Math.floor(Math.log10(lowest)); size <= highest; size *= doubling ? 2 : 10) {
    for (const part of doubling ? [1, 1.25, 1.5, 1.75] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]) {
      const value = Number((size * part).toPrecision(6));
      if (value >= lowest && value <= highest && (!whole || value % 1 === 0)) found.push(value);
    }
  }
  return found;
}

const SLIDERS = Object.fromEntries(NUMBERS.map((name) => {
  const slider = calculator.querySelector(`[data-slider="${name}"]`), values = stops(name);
  slider.max = values.length - 1;
  slider.addEventListener("input", () => {
    field(name).value = values[slider.value];
    update();
  });
  return [name, {slider, values}];
}));

function move({slider, values}, value) {
  const off = (stop) => Math.abs(Math.log(stop / value));
  slider.value = values.reduce((best, stop, index) => (off(stop) < off(values[best]) ? index : best), 0);
  slider.setAttribute("aria-valuetext", counted(value));
}

// The page

function update() {
  const {settings, problems} = read();
  for (const name of [...NUMBERS, "optimizer", "allocator"]) {
    const problem = problemOf(name);
    problem.textContent = problems[name] ?? "";
    problem.hidden = !problems[name];
    if (problems[name]) field(name).setAttribute("aria-invalid", "true");
    else field(name).removeAttribute("aria-invalid");
  }
  for (const name of NUMBERS) if (!problems[name]) move(SLIDERS[name], settings[name]);
  for (const each of calculator.querySelectorAll("[data-for]")) each.hidden = each.dataset.for !== settings.machine;
  place("about").textContent = DATA.machines[settings.machine].about;
  if (Object.keys(problems).length) {
    calculator.dataset.state = "wrong";
    for (const each of calculator.querySelectorAll("[data-answer]")) {
      each.replaceChildren("–");
      for (const name of ["value", "low", "high"]) delete each.dataset[name];
    }
    place("known").textContent = "No answer yet: a field above needs another value.";
    place("thin").textContent = place("known").textContent;
    place("sure").textContent = "";
    say(Object.values(problems).join(" "));
    return;
  }
  calculator.dataset.state = "right";
  const found = answer(settings);
  showAnswer(settings, found);
  showReasons(settings, found);
  for (const name of Object.keys(CURVES)) showCurve(name, settings, found);
  keep(settings);
}

function showAnswer(settings, found) {
  const texts = {}, first = {}, known = found.measured;
  for (const name of ["step", "epoch", "total", "peak"]) {
    const units = name === "peak" ? DATA.bytes : DATA.seconds, to = calculator.querySelector(`[data-answer="${name}"]`);
    const predicted = found[name], inWords = shown(predicted.value, units);
    const best = known && name !== "peak" ? fromMeasured(found, predicted) : predicted, from = best !== predicted;
    const [value, ends] = from && name === "step" ? milliseconds(known) : [shown(best.value, units), between(best, units)];
    const off = from && name === "step" ? `, ${missed(known.value / predicted.value)}` : "";
    const lines = [ends, from ? `predicted: ${inWords}${off}` : ""].filter((line) => line);
    for (const each of ["value", "low", "high"]) to.dataset[each] = best[each];
    to.replaceChildren(value, ...lines.map((line) => element("small", {}, line)));
    texts[name] = [value, ...lines].join(", ");
    first[name] = value;
  }
  place("step-label").textContent = `A step, ${known ? "measured" : "predicted"}`;
  place("thin").textContent = `A step ${first.step}, an epoch ${first.epoch}, memory ${first.peak}`;
  place("total-label").textContent = settings.epochs === 1 ? "One epoch" : `All ${counted(settings.epochs)} epochs`;
  place("known").replaceChildren(...knownOf(settings, found));
  const factor = Math.exp(DATA.z * found.error).toPrecision(2);
  place("sure").textContent = `An epoch has ${counted(found.steps)} step${found.steps === 1 ? "" : "s"}. A prediction ` +
    `is meant to be right within a factor of ${factor} in ${level} of cases.`;
  say(`${place("step-label").textContent}: ${texts.step}. An epoch: ${texts.epoch}. ` +
    `${place("total-label").textContent}: ${texts.total}. Memory: ${texts.peak}. ${place("known").textContent} ` +
    `Most of a predicted step goes to ${found.limit}.`);
}

// Where nothing was measured, and where the predictions for this machine and stack were worst.
function knownOf(settings, {measured}) {
  const {machine, stack} = settings, parts = [];
  if (stack === DATA.usual.stack && !DATA.machines[machine].vnni) parts.push(slowWithoutVnni());
  if (!measured && machine !== BY_RATES) parts.push("Nobody measured these sizes there. ");
  const worst = MISSES.find(({at}) => at.machine === machine && at.stack === stack);
  if (worst && far(worst.ratio) > NAMED) {
    const link = element("a", {href: hashOf({...settings, ...worst.at})}, where(worst.at));
    parts.push(`Worst miss on this machine and stack so far: ${missed(worst.ratio)}, at `, link, ".");
  }
  return parts;
}

function showReasons(settings, found) {
  const {memory, card} = DATA.machines[settings.machine], fits = place("fits");
  fits.hidden = !card && !(memory && found.peak.high > memory);
  if (card) {
    fits.textContent = "Memory is what the software holds on processors, without what a process holds beside its arrays.";
  } else if (memory) {
    const surely = found.peak.value > memory ? "It does not fit" : "It may not fit";
    fits.textContent = `${surely}: this machine has ${shown(memory, DATA.bytes)} of memory.`;
  }
  const limit = DATA.parts[found.limit], share = (name) => found.parts[name] / found.step.value;
  const most = element("strong", {}, `${found.limit[0].toUpperCase()}${found.limit.slice(1)}`);
  place("limit").replaceChildren(most, `, ${percent(share(found.limit))} of a predicted step: ${limit.explanation}. `,
    element("a", {href: limit.page}, "Why"));
  const paid = PARTS.filter((name) => found.parts[name] > 0);
  place("bar").replaceChildren(...paid.map((name) => {
    const one = element("span", {title: `${name}, ${percent(share(name))}`});
    one.style.flex = `${share(name)} 1 0`;
    one.style.background = `var(--calculator-${name})`;
    return one;
  }));
  place("parts").replaceChildren(...PARTS.map((name) => {
    const colour = element("i", {"aria-hidden": "true"});
    colour.style.background = `var(--calculator-${name})`;
    const seconds = found.parts[name], attributes = {"data-share": name, "data-value": seconds};
    const time = element("td", attributes, seconds ? shown(seconds) : "0");
    return element("tr", {}, element("th", {scope: "row"}, colour, name), time, element("td", {}, percent(share(name))));
  }));
  place("changes").replaceChildren(...found.changes.map(({change, settings: other, factor, known}) => {
    const button = element("button", {type: "button", "aria-label": `Try it: ${change.words}`}, "Try it");
    button.addEventListener("click", () => {
      put(other);
      update();
    });
    const link = element("a", {href: `chapters/${change.page}.html`}, change.words);
    const effect = `: an epoch goes ${times(factor)} as fast${known ? ", measured" : ""}.`;
    const line = element("div", {}, element("span", {}, link, effect), button);
    return element("li", {"data-change": change.name, "data-factor": factor}, line);
  }));
  place("no-change").hidden = found.changes.length > 0;
}

function put(settings) {
  for (const name of [...NUMBERS, ...SELECTS]) field(name).value = settings[name];
  field("frozen").checked = settings.frozen;
}

// A screen reader hears the answer once the reader's hand rests, not at every stop of a slider.
function say(text) {
  clearTimeout(speaking);
  speaking = setTimeout(() => { place("status").textContent = text; }, 700);
}

let speaking = 0, keeping = 0, touched = false;
function keep(settings) {
  const hash = hashOf(settings), link = location.href.split("#")[0] + hash;
  document.getElementById("calculator-link").value = link;
  clearTimeout(keeping);
  // A page as it was opened keeps the address that it was opened by.
  if (touched) keeping = setTimeout(() => history.replaceState(null, "", hash), 250);
}

// What happens when

function load() {
  const refused = fill(location.hash), notice = place("notice");
  notice.hidden = !refused.length;
  notice.textContent = refused.length ? `The link cannot be followed in all: ${refused.join("; ")}.` : "";
  update();
}

form.addEventListener("input", (event) => {
  touched = true;
  if (!event.target.matches("[data-slider]")) update();
});
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => { if (location.hash.includes("=")) load(); });
calculator.addEventListener("click", () => { touched = true; });
place("reset").addEventListener("click", () => {
  history.replaceState(null, "", location.href.split("#")[0]);
  touched = false;
  load();
  field("vocabulary").focus();
});
place("copy").addEventListener("click", async () => {
  const link = document.getElementById("calculator-link");
  let copied;
  try {
    await navigator.clipboard.writeText(link.value);
    copied = true;
  } catch {
    link.select();
    copied = document.execCommand("copy");
  }
  place("copy").textContent = copied ? "Copied" : "Mark it and copy";
  setTimeout(() => { place("copy").textContent = "Copy the link"; }, 2500);
});
document.getElementById("calculator-link").addEventListener("focus", (event) => event.target.select());

// For tests, and for whoever likes a console better than a form.
window.traintime = {answer: (settings = read().settings) => answer(settings), settings: () => read().settings, shown};
for (const name of SELECTS) {
  field(name).append(...Object.entries(DATA.choices[name]).map(([value, title]) => new Option(title, value)));
}
showWorst();
calculator.hidden = false;
load();
