"use strict";
// The live page. Addresses are relative, so that it works wherever the server is mounted. Whatever
// comes from the server is put in as text, never as HTML.

const PAUSE = 1000; // ms between two states
const STORE = `maxmargin token ${new URL(".", location).pathname}`;
const $ = (id) => document.getElementById(id);
const states = [];
let edited = false; // has the row to try been changed by hand?

// --------------------------------------------------------------------------------- elements, numbers
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
// Text of others: it cannot turn the text around it about, and is not long.
const theirs = (text) => {
  const whole = typeof text === "string" ? text : JSON.stringify(text);
  return el("bdi", {}, whole.length > 120 ? `${whole.slice(0, 119)}…` : whole);
};
const known = (number) => typeof number === "number" && Number.isFinite(number);
const or = (number, format) => (known(number) ? format(number) : "–");
const percent = (share) => or(share, (x) => `${(100 * x).toFixed(1)} %`);
const atMost = (share) => or(share, (x) => `${(Math.ceil(1000 * x) / 10).toFixed(1)} %`); // rounded up
const whole = (count) => or(count, (x) => Math.round(x).toLocaleString("en"));
const digits = (number) => or(number, (x) => x.toLocaleString("en", { maximumSignificantDigits: 3 }));

// ------------------------------------------------------------------------------------------ requests
async function request(path, body) {
  const token = sessionStorage.getItem(STORE);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { cache: "no-store", headers };
  if (body !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  const content = await response.json();
  if (response.ok) return content;
  $("ask-token").hidden = response.status !== 401;
  throw new Error(content.error ?? `The server answers ${response.status}.`);
}

function status(look, text) {
  document.body.className = look;
  if ($("status").textContent !== text) $("status").textContent = text; // else it would be read out
}

async function follow() {
  for (;;) {
    try {
      show(await request("model"));
      status("live", "Live");
    } catch (error) {
      status("lost", error instanceof TypeError ? "Connection lost. Trying again." : error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

$("ask-token").addEventListener("submit", (event) => {
  event.preventDefault();
  // What cannot stand in a header is no token.
  sessionStorage.setItem(STORE, $("token").value.replace(/[^\x21-\x7e]/g, ""));
  $("token").value = "";
  $("ask-token").hidden = true;
});

// --------------------------------------------------------------------------------------------- state
function show(state) {
  $("content").hidden = false;
  states.push([performance.now(), state]);
  if (states.length > 10) states.shift();
  $("algorithm").textContent = state.algorithm;
  const recent = state.recent_answer_accuracy ?? state.recent_progressive_accuracy;
  document.title = `${state.algorithm}: ${percent(recent)} · maxmargin`;
  const names = state.classes.slice(0, 6).flatMap((name, at) => (at ? [", ", theirs(name)] : [theirs(name)]));
  $("about").replaceChildren(`${state.classes.length} classes: `, ...names, state.classes.length > 6 ? ", …" : "",
    known(state.n_features) ? ` · ${whole(state.n_features)} features` : "");
  showTiles(state);
  const column = (at) => state.history.map((point) => [point[0], point[at]]).filter(([, value]) => known(value));
  draw($("accuracy"), state, [[column(1), "overall"], [column(2), "recent"]], percent);
  draw($("loss"), state, [[column(3), "recent"]], digits);
  showDrift(state.drift);
  bars($("weights"), state.largest_weights.map(({ name, class: label, weight }) =>
    [[theirs(name), state.classes.length > 2 ? el("small", {}, " ", theirs(label)) : ""], weight]));
  showServer(state);
  if (!edited && state.example !== null && document.activeElement !== $("row")) {
    $("row").value = JSON.stringify(state.example);
  }
}

function tile(name, large, ...lines) {
  return el("div", {}, el("small", {}, name), el("b", {}, large), ...lines.map((line) => el("small", {}, line)));
}

function showTiles(state) {
  const [then, first] = states[0];
  const rate = (name) => (1000 * (state[name] - first[name])) / Math.max(performance.now() - then, 1);
  const { certificate, coverage } = state;
  const tiles = [
    tile("Accuracy of answers", percent(state.recent_answer_accuracy), `overall ${percent(state.answer_accuracy)}`,
      `of ${whole(state.answers)} answers with a label`),
    tile("Progressive accuracy", percent(state.recent_progressive_accuracy), `overall ${percent(state.progressive_accuracy)}`,
      `largest class ${percent(state.largest_class_share)}`),
    tile("Error on the stream", percent(known(state.error_bound) ? state.mistakes / state.rows : null),
      `expected error at most ${atMost(state.error_bound)} with probability 95 %`, `${whole(state.mistakes)} mistakes`),
    tile("Rows a second", digits(rate("rows")), `${whole(state.rows)} rows in ${whole(state.events)} events`,
      `${whole(state.refused)} events refused`),
    tile("Updates", whole(state.updates), "since the model began to learn"),
  ];
  if (known(certificate?.ratio)) {
    tiles.push(tile("Certificate", percent(certificate.ratio), "of the best possible margin"));
  } else if (known(certificate?.bound)) {
    tiles.push(tile("Certificate", `≤ ${digits(certificate.bound)}`, "is the largest possible margin"));
  }
  if (coverage) {
    tiles.push(tile("Coverage of sets", percent(coverage.observed), `target ${percent(coverage.target)}`,
      `${digits(coverage.mean_size)} classes in a set`));
  }
  $("tiles").replaceChildren(...tiles);
}

function showDrift({ alarms, delta, evidence, limit }) {
  const now = known(evidence)
    ? `The evidence of a change is ${digits(evidence)}; ${digits(limit)} raises an alarm.`
    : "More rows are needed to test for a change.";
  const rows = alarms.slice(-10).map(whole).join(", ");
  $("drift").textContent = `${now} If the rows do not change, the probability of any alarm is at most ${percent(delta)}.`
    + (rows ? ` Alarms at rows ${rows}.` : "");
}

function bars(place, numbers) {
  const shown = numbers.filter(([, value]) => known(value));
  const largest = Math.max(...shown.map(([, value]) => Math.abs(value)), 1e-300);
  place.replaceChildren(...shown.map(([names, value]) => {
    const part = el("i", value < 0 ? { class: "against" } : {});
    part.style.setProperty("--part", Math.abs(value) / largest);
    return el("div", {}, el("span", {}, ...names), part, el("span", {}, digits(value)));
  }));
}

function showServer(state) {
  const lines = {
    Version: state.version,
    "Last event": whole(state.sequence),
    "Last snapshot": `after event ${whole(state.snapshot_sequence)}`,
    Database: `${digits(state.database_bytes / 1e6)} MB`,
    "Waiting for labels": `${whole(state.waiting)} predictions`,
    Columns: `${whole(state.unknown_columns)} values in unknown ones, ${whole(state.missing_columns)} missing`,
    Up: `${digits(state.uptime_seconds / 3600)} h`,
    Parameters: theirs(state.parameters),
  };
  $("server").replaceChildren(...Object.entries(lines).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

// --------------------------------------------------------------------------------------- a row, charts
$("row").addEventListener("input", () => { edited = true; });
$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("trouble").textContent = "";
  $("prediction").replaceChildren();
  try {
    const answer = await request("predict", { row: JSON.parse($("row").value), scores: true });
    const scores = Object.entries(answer.scores).sort(([, one], [, other]) => other - one);
    bars($("prediction"), scores.map(([name, score]) => [[theirs(name)], score]));
    $("prediction").prepend(el("h2", {}, theirs(answer.prediction)));
  } catch (error) {
    $("trouble").textContent = error.message;
  }
});

function draw(picture, state, series, format) {
  const points = series.flatMap(([each]) => each);
  const [width, height, left, bottom] = [Math.max(picture.clientWidth, 240), 192, 48, 20];
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (points.length < 2 * series.length) {
    picture.replaceChildren(svg("text", { x: left, y: height / 2 }, "Not enough rows yet."));
    return;
  }
  const [rows, values] = [points.map(([row]) => row), points.map(([, value]) => value)];
  const [first, last] = [Math.min(...rows), Math.max(...rows)];
  const [low, high] = [Math.min(...values), Math.max(...values, Math.min(...values) + 1e-6)];
  const x = (row) => left + ((row - first) / (last - first)) * (width - left);
  const y = (value) => 8 + ((high - value) / (high - low)) * (height - bottom - 8);
  const parts = [low, (low + high) / 2, high].flatMap((value) => [
    svg("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value))]);
  parts.push(svg("text", { x: left, y: height - 4 }, whole(first)),
    svg("text", { x: width, y: height - 4, "text-anchor": "end" }, `${whole(last)} rows`));
  for (const row of state.drift.alarms.filter((each) => each >= first && each <= last)) {
    parts.push(svg("line", { class: "alarm", x1: x(row), x2: x(row), y1: 8, y2: height - bottom }));
  }
  for (const [each, look] of series) {
    const path = each.map(([row, value], at) => `${at ? "L" : "M"}${x(row).toFixed(1)} ${y(value).toFixed(1)}`);
    parts.push(svg("path", { class: look, d: path.join("") }));
  }
  picture.replaceChildren(...parts);
}

follow();
