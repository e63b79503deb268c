"use strict";
// The live page. Addresses are relative, so that it works wherever the server is mounted. Whatever
// comes from the server, labels and names of columns too, is put in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SHADES = 5; // colours of learners: c0 is the live one
const SILENCE = 20_000; // ms after which a connection that says nothing is taken for lost
const LONGEST_WAIT = 15_000; // ms between attempts to connect
const SURE = 5_000; // ms to click a second time
const STORE = `maxmargin token ${new URL(".", location).pathname}`;

const $ = (id) => document.getElementById(id);
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));
let model = null; // its name, or null for the first one
let following = new AbortController();
let state = null;
let edited = false; // has the row to try been changed by hand?

// ------------------------------------------------------------------------------------------ elements
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
// Text of strangers: it cannot turn the text around it about, and is not longer than a line or two.
const theirs = (text) => {
  const whole = typeof text === "object" ? JSON.stringify(text) : String(text);
  const short = whole.length > 120 ? `${whole.slice(0, 119)}…` : whole;
  return el("bdi", short === whole ? {} : { title: whole.slice(0, 2000) }, short);
};
function say(element, ...children) {
  element.replaceChildren(...children.map((child) => (child instanceof Node ? child : String(child))));
}

// ------------------------------------------------------------------------------------------- numbers
const known = (number) => typeof number === "number" && Number.isFinite(number);
const or = (number, format) => (known(number) ? format(number) : "–");
const percent = (share) => or(share, (x) => `${(100 * x).toFixed(1)} %`);
const whole = (count) => or(count, (x) => Math.round(x).toLocaleString("en"));
const digits = (number, most = 3) => or(number, (x) => x.toLocaleString("en", { maximumSignificantDigits: most }).replace("-", "−"));
// Three digits always, for numbers that stand below one another or change while one looks.
const even = (number) => or(number, (x) => x.toLocaleString("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 }).replace("-", "−"));
const rate = (number) => or(number, (x) => (x < 10 ? digits(x, 2) : whole(x)));
const time = (ms) => or(ms, (x) => (x < 1000 ? `${digits(x, 2)} ms` : `${digits(x / 1000)} s`));
const bytes = (size) => or(size, (x) => {
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(x, 1)) / 3), 0), 4);
  return `${digits(x / 1000 ** power)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
});
const duration = (seconds) => or(seconds, (x) => {
  if (x < 60) return `${Math.floor(x)} s`;
  if (x < 3600) return `${Math.floor(x / 60)} min`;
  if (x < 86400) return `${Math.floor(x / 3600)} h ${Math.floor((x % 3600) / 60)} min`;
  return `${Math.floor(x / 86400)} d ${Math.floor((x % 86400) / 3600)} h`;
});
const short = (count) => count.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 }).replace("K", "k");
const plural = (count, one, many) => `${whole(count)} ${count === 1 ? one : many}`;

// ------------------------------------------------------------------------------------------ requests
class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function request(path, { body, headers = {}, ...options } = {}) {
  const token = sessionStorage.getItem(STORE);
  if (token) headers = { ...headers, Authorization: `Bearer ${token}` };
  if (body !== undefined) {
    headers = { ...headers, "Content-Type": "application/json" };
    options = { method: "POST", body: JSON.stringify(body), ...options };
  }
  const response = await fetch(path, { cache: "no-store", headers, ...options });
  if (response.ok) return response;
  let sentence = `The server answers ${response.status}.`;
  try {
    sentence = String((await response.json()).error ?? sentence);
  } catch { /* no sentence came */ }
  if (response.status === 401) askForToken(token ? sentence : "");
  throw new Refused(response.status, sentence);
}
const of = (path) => (model === null ? path : `models/${encodeURIComponent(model)}/${path}`);

let haveToken = null; // who waits for one
function askForToken(complaint) {
  say($("ask-token").querySelector(".failure"), complaint);
  if ($("ask-token").hidden) {
    $("ask-token").hidden = false;
    $("token").focus();
  }
}
$("ask-token").addEventListener("submit", (event) => {
  event.preventDefault();
  // What cannot stand in a header is no token.
  sessionStorage.setItem(STORE, $("token").value.replace(/[^\x21-\x7e]/g, ""));
  $("token").value = "";
  $("ask-token").hidden = true;
  haveToken?.();
});

// --------------------------------------------------------------------------------------------- events
function status(look, text) {
  document.body.className = look;
  if ($("status").textContent !== text) say($("status"), text); // else it would be read out again
}

// States as they come, until the page turns to another model.
async function follow(signal) {
  let wait = 1000;
  while (!signal.aborted) {
    const line = new AbortController();
    const end = () => line.abort();
    signal.addEventListener("abort", end);
    try {
      status("", "Connecting");
      listModels();
      const response = await request(of("events"), { signal: line.signal, headers: { Accept: "text/event-stream" } });
      for await (const data of messages(response, line)) {
        wait = 1000;
        status("live", "Live");
        show(data);
      }
      throw new Error("The connection ended.");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) {
        status("lost", "A token is needed");
        await new Promise((resolve) => { haveToken = resolve; });
        continue;
      }
      status("lost", error.status ? error.message : "Connection lost. Trying again.");
      await sleep(wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    } finally {
      signal.removeEventListener("abort", end);
      line.abort();
    }
  }
}

// The data of server-sent events. EventSource could send no token but in its address.
async function* messages(response, line) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const alarm = setTimeout(() => line.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(alarm));
    if (done) return;
    const parts = (text + value).replaceAll("\r\n", "\n").split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n").filter((each) => each.startsWith("data:"));
      if (lines.length) yield JSON.parse(lines.map((each) => each.slice(5)).join("\n"));
    }
  }
}

function turnTo(name) {
  model = name;
  state = null;
  edited = false;
  say($("prediction"));
  for (const each of document.querySelectorAll(".failure")) say(each);
  say($("learners"));
  $("content").hidden = true;
  following.abort();
  following = new AbortController();
  follow(following.signal);
}

async function listModels() {
  try {
    const { models } = await (await request("models")).json();
    $("models").hidden = models.length < 2;
    say($("models"), ...models.map(({ name }, at) => {
      const here = model === null ? at === 0 : name === model;
      return el("a", { href: `#${encodeURIComponent(name)}`, ...(here && { "aria-current": "page" }) }, theirs(name));
    }));
  } catch { /* the stream of events says what is wrong */ }
}

function fromAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}
addEventListener("hashchange", () => turnTo(fromAddress()));

// ---------------------------------------------------------------------------------------------- state
function show(found) {
  state = found;
  $("content").hidden = false;
  $("ask-token").hidden = true;
  document.title = `${state.name}: ${percent(state.recent_answer_accuracy ?? state.recent_progressive_accuracy)} · maxmargin`;
  say($("name"), theirs(state.name));
  say($("about"), theirs(state.algorithm), ` · ${plural(state.classes.length, "class", "classes")}`, ...classes(state.classes),
    known(state.n_features) ? ` · ${plural(state.n_features, "feature", "features")}` : "");
  showTiles();
  showCharts();
  showDrift();
  showLearners();
  showWeights();
  showServer();
  if (!edited && state.example != null && document.activeElement !== $("row")) takeLastRow();
}

function classes(names) {
  if (!names.length) return [];
  const some = names.slice(0, 6).flatMap((name, at) => (at ? [", ", theirs(name)] : [theirs(name)]));
  return [": ", ...some, names.length > 6 ? ", …" : ""];
}

function tile(id, large, ...lines) {
  say($(id).querySelector("b"), large);
  say($(id).querySelector("small"), ...lines.flatMap((line, at) => (at ? [el("br"), line] : [line])));
}

function showTiles() {
  const { latency_ms: latency, certificate } = state;
  tile("answers", percent(state.recent_answer_accuracy), ...(state.answers
    ? [`overall ${percent(state.answer_accuracy)}`, `of ${plural(state.answers, "answer", "answers")} with a label`]
    : ["No answer has a label yet."]));
  tile("accuracy", percent(state.recent_progressive_accuracy), `overall ${percent(state.progressive_accuracy)}`,
    `largest class ${percent(state.largest_class_share)}`);
  tile("loss", even(state.recent_loss), `overall ${even(state.loss)}`);
  tile("rate", rate(state.events_per_second), `${rate(state.rows_per_second)} rows per second`,
    `${plural(state.rows, "row", "rows")} in ${plural(state.events, "event", "events")}`);
  tile("latency", time(latency?.learn?.p50), `to learn, p99 ${time(latency?.learn?.p99)}`,
    `to predict ${time(latency?.predict?.p50)}, p99 ${time(latency?.predict?.p99)}`);
  const share = state.updates / state.rows; // of several classes each may be updated by a row
  tile("updates", whole(state.updates), share > 1 ? `${digits(share)} per row` : `${percent(share)} of rows`,
    plural(state.mistakes, "mistake", "mistakes"));
  $("certificate").hidden = !certificate && known(state.n_features); // a learner that never has one
  if (known(certificate?.ratio)) {
    tile("certificate", percent(certificate.ratio), "of the best possible margin,",
      `${digits(certificate.margin)} of at most ${digits(certificate.bound)}`);
  } else if (known(certificate?.bound)) {
    tile("certificate", `≤\u2009${digits(certificate.bound)}`, "No hyperplane has a larger margin on the rows so far.");
  } else {
    tile("certificate", "–", "No bound is proved yet.");
  }
  $("coverage").hidden = !state.coverage;
  if (state.coverage) {
    const { target, observed, bound, mean_size: size } = state.coverage;
    tile("coverage", percent(observed), `target ${percent(target)}, at most ${percent(bound)} away`,
      `${even(size)} classes in a set`);
  }
}

function showDrift() {
  const { alarms, delta, evidence, limit } = state.drift;
  const now = known(evidence)
    ? `The evidence of a change is ${digits(evidence)}; ${digits(limit)} raises ${alarms.length ? "the next" : "an"} alarm.`
    : "More rows are needed to test for a change.";
  say($("about-drift"), `${now} If the rows do not change, the probability of any alarm is at most ${percent(delta)}.`);
  const latest = alarms.slice(-10).reverse();
  say($("drift"), ...latest.map((row) => el("li", {}, `Alarm at row ${whole(row)}.`)));
}

function bar(names, value, largest) {
  const part = el("i", value < 0 ? { class: "against" } : {});
  part.style.setProperty("--part", largest > 0 ? Math.min(Math.abs(value) / largest, 1) : 0);
  return el("div", {}, el("span", {}, ...names), part, el("span", {}, even(value)));
}

function showWeights() {
  const weights = (state.largest_weights ?? []).filter(({ weight }) => known(weight));
  const largest = Math.max(...weights.map(({ weight }) => Math.abs(weight)), 0);
  const several = new Set(weights.map((each) => each.class)).size > 1;
  say($("weights-about"), ...(weights.length
    ? ["Bars to the right are evidence for ", several ? "the class" : theirs(weights[0].class), ", bars to the left against it."]
    : ["This learner has no weights to show, or has learned nothing yet."]));
  say($("weights"), ...weights.map((each) =>
    bar(several ? [theirs(each.name), el("small", {}, theirs(each.class))] : [theirs(each.name)], each.weight, largest)));
}

function showServer() {
  const lines = {
    "Last event": whole(state.sequence),
    "Last snapshot": known(state.snapshot_sequence) ? `after event ${whole(state.snapshot_sequence)}` : "none yet",
    Log: bytes(state.log_bytes),
    Queue: plural(state.queue, "event", "events"),
    "Waiting for labels": plural(state.waiting, "prediction", "predictions"),
    Up: duration(state.uptime_seconds),
  };
  say($("server"), ...Object.entries(lines).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  const settings = Object.entries(state.parameters ?? {}).map(([name, value]) => [theirs(name), " = ", theirs(JSON.stringify(value))]);
  $("parameters").parentElement.hidden = settings.length === 0;
  say($("parameters"), ...settings.map((each) => el("li", {}, ...each)));
}

// ----------------------------------------------------------------------------------------- learners
const colour = (at) => `c${at < SHADES ? at : 1 + ((at - 1) % (SHADES - 1))}`;
const NUMBERS = [
  ["recent_progressive_accuracy", "recent progressive accuracy", percent, Math.max],
  ["progressive_accuracy", "progressive accuracy", percent, Math.max],
  ["recent_loss", "recent loss", even, Math.min], ["loss", "loss", even, Math.min],
  ["rows", "rows", whole, null], ["updates", "updates", whole, null],
];
$("headings").append(el("th", {}, "learner"), ...NUMBERS.map(([, title]) => el("th", {}, title)), el("td"));

function showLearners() {
  const rows = new Map([...$("learners").children].map((row) => [row.learner, row]));
  const shown = state.learners.map((learner, at) => {
    // The live one's name may be a former shadow's: what it does decides which buttons it has.
    const key = `${learner.role} ${learner.name}`;
    const row = rows.get(key) ?? newRow(learner, key);
    rows.delete(key);
    say(row.firstChild, el("i", { class: `swatch ${colour(at)}` }), theirs(learner.name),
      el("small", {}, learner.role === "live" ? "live · " : "", theirs(learner.algorithm)));
    NUMBERS.forEach(([name, , format, best], column) => {
      const cell = row.children[1 + column];
      const others = state.learners.map((each) => each[name]).filter(known);
      say(cell, format(learner[name]));
      cell.classList.toggle("best", best !== null && new Set(others).size > 1 && learner[name] === best(...others));
    });
    return row;
  });
  for (const gone of rows.values()) gone.remove();
  shown.forEach((row, at) => {
    if ($("learners").children[at] !== row) $("learners").insertBefore(row, $("learners").children[at] ?? null);
  });
  say($("shadows-about"), shown.length > 1
    ? "Shadows learn from the same rows, but do not answer requests. Promoting one swaps it with the live learner."
    : "There are no shadows.");
}

function newRow(learner, key) {
  const row = el("tr", { class: learner.role }, el("th"), ...NUMBERS.map(([, title]) => el("td", { "data-label": title })), el("td"));
  row.learner = key;
  if (learner.role !== "live") {
    row.lastChild.append(
      twice("Promote", "Really promote?", () => request(of("promote"), { body: { shadow: learner.name } })),
      twice("Remove", "Really remove?", () => request(of(`shadows/${encodeURIComponent(learner.name)}`), { method: "DELETE" })));
  }
  return row;
}

// A button that does something after a second click.
function twice(text, question, action) {
  const button = el("button", { type: "button" }, text);
  let alarm = null;
  const rest = () => {
    clearTimeout(alarm);
    alarm = null;
    say(button, text);
    button.classList.remove("sure");
  };
  button.addEventListener("click", async () => {
    if (alarm === null) {
      say(button, question);
      button.classList.add("sure");
      alarm = setTimeout(rest, SURE);
      return;
    }
    rest();
    await tried(button, $("learners-failure"), action);
  });
  return button;
}

// What a button does, with the server's sentence where it is refused.
async function tried(button, place, action) {
  button.disabled = true;
  say(place);
  try {
    await action();
  } catch (error) {
    say(place, error instanceof Refused || error instanceof SyntaxError ? error.message : "The server cannot be reached.");
  } finally {
    button.disabled = false;
  }
}

$("add-shadow").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  tried(form.querySelector("button"), $("learners-failure"), async () => {
    const { name, algorithm, parameters } = Object.fromEntries(new FormData(form));
    await request(of("shadows"), { body: { name, algorithm, parameters: parsed(parameters || "{}") } });
    form.reset();
  });
});

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`This is not valid JSON: ${error.message}`);
  }
}

// ------------------------------------------------------------------------------------------ try a row
function takeLastRow() {
  const long = JSON.stringify(state.example);
  $("row").value = Array.isArray(state.example) || long.length < 60 ? long.replaceAll(",", ", ") : JSON.stringify(state.example, null, 2);
  $("row").rows = Math.min(Math.max($("row").value.split("\n").length, 5), 16);
}
$("row").addEventListener("input", () => { edited = true; });
$("last-row").addEventListener("click", () => {
  edited = false;
  if (state?.example != null) takeLastRow();
});
$("try").addEventListener("submit", (event) => {
  event.preventDefault();
  edited = true;
  say($("prediction"));
  tried(event.submitter ?? $("try").querySelector("button"), $("try-failure"), async () => {
    const row = parsed($("row").value);
    const proba = state?.parameters?.calibration === "online";
    const set = Boolean(state?.coverage);
    const body = { row, scores: true, ...(proba && { proba }), ...(set && { set }) };
    const answer = await (await request(of("predict"), { body })).json();
    say($("prediction"), el("p", { class: "margin" }, theirs(answer.prediction)),
      ...(answer.set ? [el("p", { class: "key" }, "Prediction set: ", ...listed(answer.set))] : []),
      ...numbered("Score of each class", answer.scores), ...numbered("Probability", answer.probabilities));
  });
});

const listed = (names) => (names.length
  ? names.flatMap((name, at) => (at ? [", ", theirs(name)] : [theirs(name)]))
  : ["empty"]);

function numbered(title, numbers) {
  const found = Object.entries(numbers ?? {}).filter(([, number]) => known(number));
  if (!found.length) return [];
  found.sort(([, one], [, other]) => other - one);
  const largest = Math.max(...found.map(([, number]) => Math.abs(number)));
  return [el("p", { class: "key" }, title), el("div", { class: "bars" }, ...found.map(([name, number]) => bar([theirs(name)], number, largest)))];
}

$("download").addEventListener("click", (event) => {
  tried(event.target, $("download-failure"), async () => {
    const file = URL.createObjectURL(await (await request(of("model/file"))).blob());
    el("a", { href: file, download: `${state.name.replace(/[^\w.-]/g, "_")}.mm` }).click();
    setTimeout(() => URL.revokeObjectURL(file), 60_000);
  });
});

// -------------------------------------------------------------------------------------------- charts
function showCharts() {
  const history = state.history ?? [];
  const column = (at) => history.filter((point) => known(point[at])).map((point) => [point[0], point[at]]);
  const shadows = state.learners.slice(1).map((learner, at) => ({
    points: (learner.history ?? []).filter(([, accuracy]) => known(accuracy)), look: colour(1 + at), name: learner.name,
  })).filter(({ points }) => points.length > 1);
  const whose = shadows.length ? ` of ${state.learners[0].name}` : "";
  const accuracy = [...shadows.reverse(),
    { points: column(1), look: "overall", name: `overall${whose}` },
    { points: column(2), look: "c0", name: `recent${whose}` }];
  const level = { at: state.largest_class_share, look: "share", name: "largest class" };
  draw($("accuracy-chart"), accuracy, { level, ceiling: 1, format: percent });
  draw($("loss-chart"), [{ points: column(3), look: "c0", name: "recent" }], { floor: 0, format: even });
}

// Steps of 1, 2 or 5, so that there are about so many between the two.
function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) found.push(at * step);
  return found;
}

function draw(figure, series, { level, floor, ceiling, format }) {
  const picture = figure.querySelector("svg");
  const width = Math.max(picture.clientWidth, 240);
  const height = Math.round(Math.min(Math.max(width * 0.42, 150), 260));
  const [left, right, top, bottom] = [44, 8, 8, 22];
  const points = series.flatMap((each) => each.points);
  const rows = points.map(([row]) => row);
  const values = points.map(([, value]) => value);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (new Set(rows).size < 2) {
    say(picture, svg("text", { x: left, y: height / 2 }, "Not enough rows yet."));
    picture.onpointermove = null;
    return;
  }
  if (known(level?.at)) values.push(level.at);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const air = Math.max(0.08 * (high - low), 1e-3 * Math.abs(high), 1e-9);
  low = Math.max(low - air, floor ?? -Infinity);
  high = Math.min(high + air, ceiling ?? Infinity);
  if (high - low < air) low = high - air;
  const [first, last] = [Math.min(...rows), Math.max(...rows)];
  const x = (row) => left + ((row - first) / (last - first)) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const parts = [];
  for (const at of ticks(low, high, 5)) {
    parts.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      svg("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, ceiling ? `${digits(100 * at)} %` : digits(at)));
  }
  for (const at of ticks(first, last, width / 110)) {
    const end = x(at) > width - right - 14;
    parts.push(svg("text", { x: end ? width - right : x(at), y: height - 5, "text-anchor": end ? "end" : "middle" }, short(at)));
  }
  const legend = [];
  const explain = (look, name) => legend.push(legend.length ? ", " : "", el("span", { class: look }, theirs(name)));
  for (const row of state.drift.alarms.filter((each) => each >= first && each <= last)) {
    parts.push(svg("line", { class: "drift", x1: x(row), x2: x(row), y1: top, y2: height - bottom }));
  }
  for (const { points: each, look } of series) {
    const path = each.map(([row, value], at) => `${at ? "L" : "M"}${x(row).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    parts.push(svg("path", { class: `series ${look}`, d: path }));
  }
  for (const { look, name } of [...series].reverse()) explain(look, name);
  if (known(level?.at)) {
    parts.push(svg("line", { class: `level ${level.look}`, x1: left, x2: width - right, y1: y(level.at), y2: y(level.at) }));
    explain(level.look, level.name);
  }
  if (parts.some((part) => part.classList.contains("drift"))) explain("bound", "drift alarm");
  say(figure.querySelector(".legend"), ...legend);
  const cursor = svg("g", {});
  say(picture, ...parts, cursor);

  // What was there at the row under the pointer.
  const readout = figure.querySelector(".readout");
  const clear = () => { say(cursor); say(readout); };
  const point = (at) => {
    const main = series.at(-1).points;
    const wanted = first + ((at - left) / (width - left - right)) * (last - first);
    const [row] = main.reduce((best, each) => (Math.abs(each[0] - wanted) < Math.abs(best[0] - wanted) ? each : best));
    say(cursor, svg("line", { class: "cursor", x1: x(row), x2: x(row), y1: top, y2: height - bottom }));
    const found = [];
    for (const { points: each, look } of [...series].reverse()) {
      const near = each.findLast(([before]) => before <= row);
      if (!near) continue;
      cursor.append(svg("circle", { class: `at ${look}`, cx: x(near[0]), cy: y(near[1]), r: 3 }));
      found.push(found.length ? ", " : "", el("span", { class: look }, format(near[1])));
    }
    say(readout, `· row ${whole(row)}: `, ...found);
  };
  picture.onpointermove = (event) => {
    figure.pointed = event.clientX - picture.getBoundingClientRect().left;
    point(figure.pointed);
  };
  picture.onpointerleave = () => { figure.pointed = null; clear(); };
  if (figure.pointed != null) point(figure.pointed);
}

new ResizeObserver(() => state && showCharts()).observe($("accuracy-chart"));
turnTo(fromAddress());
