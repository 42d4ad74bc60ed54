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
const NUMBERS = Object.keys(DATA.numbers), RATES = DATA.rates;
const SELECTS = Object.keys(DATA.choices), NEAR = DATA.near;
const SIZES = DATA.set.filter((name) => name in DATA.numbers);
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

// The measured steps of a machine and stack: settings (at), the step, the mean step, of which an epoch is made, the
// largest peak of memory, and the logarithms of the factors by which the formula missed both steps.
const STEPS = {};
function stepsOf({machine, stack}) {
  return STEPS[`${machine} ${stack}`] ??= (DATA.measured[machine]?.[stack] ?? []).map((row) => {
    const at = {machine, stack, ...Object.fromEntries(DATA.set.map((name, place) => [name, row[place]]))};
    const from = (place) => ({value: row[place], low: row[place + 1] ?? NaN, high: row[place + 2] ?? NaN});
    const first = DATA.set.length, step = {...from(first), runs: row[first + 3]}, mean = from(first + 4);
    const peak = row[first + 7] && {value: row[first + 7], low: NaN, high: NaN};
    const predicted = byFormula({...DATA.usual, ...at}).step.value;
    return {at, step, mean, peak, missed: [step, mean].map((took) => Math.log(took.value / predicted))};
  });
}

// What the driver and its libraries take of a card, bytes.
const contextOf = ({machine, stack}) => DATA.machines[machine].context?.[stack] ?? DATA.context;

function byFormula(settings) {
  const costs = costsOf(settings)[settings.allocator], held = DATA.holdings[settings.stack], how = way(settings);
  const done = work[how](settings), each = parts(done, costs.seconds);
  const ofPart = (part) => TERMS.reduce((sum, name) => sum + (DATA.terms[name] === part ? each[name] : 0), 0);
  // A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
  const idle = DATA.machines[settings.machine].card ? contextOf(settings) : held.idle;
  return {
    step: within(TERMS.reduce((sum, name) => sum + each[name], 0), costs.error),
    epoch: within(epoch(each, settings), costs.error),
    peak: within(peak(done, {...held, idle, copies: held.copies[how]}), held.error),
    parts: Object.fromEntries(PARTS.map((part) => [part, ofPart(part)])),
    error: costs.error,
  };
}

// near.py: how far measured settings are from others, and what the steps near them make of the formula's answer.
const apart = (at, settings) => SIZES.reduce((sum, name) => sum + Math.abs(Math.log(at[name] / settings[name])), 0) +
  NEAR.far * NEAR.ways.filter((name) => at[name] !== settings[name]).length;

function fromSteps(settings, {step, epoch, peak, error}) {
  const rows = stepsOf(settings), far = rows.map(({at}) => apart(at, settings)), least = Math.min(...far);
  if (!rows.length) return {step, epoch, peak};
  const nearest = rows[far.indexOf(least)], measured = nearest.step;
  const its = {epoch: scaled(nearest.mean, epoch.value / step.value), peak: nearest.peak ?? peak};
  if (!least) return {nearest, measured, step: measured, ...its};
  const spread = NEAR.spread[DATA.machines[settings.machine].card ? NEAR.cards : settings.stack];
  const off = Math.min(error, Math.hypot(NEAR.repeat[settings.stack], Math.sqrt(spread * least)));
  const weighed = (of) => rows.reduce((sum, row, place) => sum + of(row) * far[place] ** -NEAR.power, 0);
  const [stepBy, epochBy] = [0, 1].map((which) => Math.exp(weighed((row) => row.missed[which]) / weighed(() => 1)));
  return {nearest, step: within(step.value * stepBy, off), epoch: within(epoch.value * epochBy, off), peak};
}

function answer(settings, withChanges = true) {
  const formula = byFormula(settings), found = {...fromSteps(settings, formula), formula};
  found.total = scaled(found.epoch, settings.epochs);
  found.limit = PARTS.reduce((most, name) => (formula.parts[name] > formula.parts[most] ? name : most));
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
  return CHANGES
    .map((change) => ({change, settings: changed(settings, change)}))
    .filter((each) => each.settings)
    .map((each) => {
      const there = answer(each.settings, false);
      return {...each, known: found.measured && there.measured, factor: found.epoch.value / there.epoch.value};
    })
    .filter((each) => each.factor >= WORTH)
    .sort((one, other) => other.factor - one.factor);
}

// Numbers as people read them

function shown(value, units = DATA.seconds, digits = 2) {
  const [, size, name] = units.find(([limit]) => limit === null || value < limit);
  const rounded = Number((value / size).toPrecision(digits));
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
const counted = (number) => number.toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(share < 0.01 && share > 0 ? 1 : 0)}\u00a0%`;
const level = percent(DATA.level);
const software = (stack) => DATA.choices.stack[stack];
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

// What differs from the sizes of the 2017 post, in words.
function where(at) {
  const named = {frozen: "a frozen table", allocator: at.allocator, optimizer: DATA.choices.optimizer[at.optimizer]};
  const words = (name) => named[name] ?? `${name} ${counted(at[name])}`;
  return DATA.set.filter((name) => at[name] !== DATA.usual[name]).map(words).join(", ") || "the sizes of the 2017 post";
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
    problems.optimizer = `Optimizer: ${software(settings.stack)} has no deferred embedding. Take ` +
      `${DATA.deferred.map(software).join(", ")}, or another optimizer.`;
  }
  if (!(settings.allocator in costsOf(settings))) {
    problems.allocator = `Allocator: the costs of ${software(settings.stack)} under ${settings.allocator} are not known there. ` +
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
      refused.push(`${name} ${value} is not known here, and ${DATA.choices[name][usual[name]]} stands in its place`);
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
  for (const name of Object.keys(CURVES)) showCurve(name, settings);
}

function showAnswer(settings, found) {
  const texts = {}, first = {}, known = found.measured;
  for (const name of ["step", "epoch", "total", "peak"]) {
    const units = name === "peak" ? DATA.bytes : DATA.seconds, to = calculator.querySelector(`[data-answer="${name}"]`);
    const best = found[name], own = name === "peak" && best !== found.formula.peak ? "measured: the largest peak" : "";
    const [value, ends] = known && name === "step" ? milliseconds(known) : [shown(best.value, units), between(best, units)];
    const lines = [ends, own].filter((line) => line);
    for (const each of ["value", "low", "high"]) to.dataset[each] = best[each];
    to.replaceChildren(value, ...lines.map((line) => element("small", {}, line)));
    texts[name] = [value, ...lines].join(", ");
    first[name] = value;
  }
  place("step-label").textContent = `A step, ${known ? "measured" : found.nearest ? "estimated" : "predicted"}`;
  place("thin").textContent = `A step ${first.step}, an epoch ${first.epoch}, memory ${first.peak}`;
  place("total-label").textContent = settings.epochs === 1 ? "One epoch" : `All ${counted(settings.epochs)} epochs`;
  place("known").replaceChildren(...knownOf(settings, found));
  const number = steps(settings);
  place("sure").textContent = `An epoch has ${counted(number)} step${number === 1 ? "" : "s"}. ` +
    `The range of a prediction is meant to hold the true time in ${level} of cases.`;
  say(`${place("step-label").textContent}: ${texts.step}. An epoch: ${texts.epoch}. ` +
    `${place("total-label").textContent}: ${texts.total}. Memory: ${texts.peak}. ${place("known").textContent} ` +
    `Most of the step goes to ${found.limit}.`);
}

// What the answer rests on.
function knownOf(settings, {measured, nearest}) {
  if (measured) return [];
  if (nearest) {
    const link = element("a", {href: hashOf({...settings, ...nearest.at})}, where(nearest.at));
    return [`Nobody measured these sizes there. The nearest measured step took ${milliseconds(nearest.step)[0]}, at `, link,
      ". The answer is this step, and with less weight others farther off, times the formula's ratio."];
  }
  return [settings.machine === BY_RATES ? "" : "Nobody measured this software there: by the formula alone."];
}

function showReasons(settings, found) {
  const {memory, card, context} = DATA.machines[settings.machine], fits = place("fits");
  fits.hidden = !card && !(memory && found.peak.high > memory);
  if (card) {
    const seen = context ? "JAX and torch took here" : "others saw; on our card it was more";
    fits.textContent = "Memory is the arrays that the software holds on processors, and " +
      `${shown(contextOf(settings), DATA.bytes)} for the driver and its libraries, as ${seen}.`;
  } else if (memory) {
    const surely = found.peak.value > memory ? "It does not fit" : "It may not fit";
    fits.textContent = `${surely}: this machine has ${shown(memory, DATA.bytes)} of memory.`;
  }
  const {formula} = found, limit = DATA.parts[found.limit], share = (name) => formula.parts[name] / formula.step.value;
  const most = element("strong", {}, `${found.limit[0].toUpperCase()}${found.limit.slice(1)}`);
  place("limit").replaceChildren(most, `, ${percent(share(found.limit))} of the step by the formula: ${limit.explanation}. `,
    element("a", {href: limit.page}, "Why"));
  const paid = PARTS.filter((name) => formula.parts[name] > 0);
  place("bar").replaceChildren(...paid.map((name) => {
    const one = element("span", {title: `${name}, ${percent(share(name))}`});
    one.style.flex = `${share(name)} 1 0`;
    one.style.background = `var(--calculator-${name})`;
    return one;
  }));
  place("parts").replaceChildren(...PARTS.map((name) => {
    const colour = element("i", {"aria-hidden": "true"});
    colour.style.background = `var(--calculator-${name})`;
    const seconds = share(name) * found.step.value, attributes = {"data-share": name, "data-value": seconds};
    const time = element("td", attributes, seconds ? shown(seconds, DATA.seconds, 3) : "0");
    return element("tr", {}, element("th", {scope: "row"}, colour, name), time, element("td", {}, percent(share(name))));
  }));
  place("changes").replaceChildren(...found.changes.map(({change, settings: other, factor, known}) => {
    const button = element("button", {type: "button", "aria-label": `Try it: ${change.words}`}, "Try it");
    button.addEventListener("click", () => {
      put(other);
      update();
      keep();
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

// A page as it was opened keeps the address that it was opened by; one that was changed has its settings there.
let speaking = 0, keeping = 0;
function keep() {
  clearTimeout(keeping);
  if (calculator.dataset.state === "wrong") return;
  keeping = setTimeout(() => history.replaceState(null, "", hashOf(read().settings)), 250);
}

// What happens when

function load() {
  const refused = fill(location.hash), notice = place("notice");
  notice.hidden = !refused.length;
  notice.textContent = refused.length ? `The link cannot be followed in all: ${refused.join("; ")}.` : "";
  update();
}

form.addEventListener("input", (event) => {
  if (!event.target.matches("[data-slider]")) update();
  keep();
});
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => { if (location.hash.includes("=")) load(); });

// For tests, and for whoever likes a console better than a form.
window.traintime = {answer: (settings = read().settings) => answer(settings), settings: () => read().settings};
for (const name of SELECTS) {
  field(name).append(...Object.entries(DATA.choices[name]).map(([value, title]) => new Option(title, value)));
}
calculator.hidden = false;
load();
