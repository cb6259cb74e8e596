"use strict";
const id = (name) => document.getElementById(name);
const yaml = id("yaml"), strips = id("strips"), verdict = id("verdict");
let worker, calls = new Map(), number = 0, view = null, report = "";

// ask calls the simulator. A refused call throws an error with its message.
function ask(...call) {
  return new Promise((resolve, reject) => {
    calls.set(++number, (answer) => answer.error === undefined ? resolve(answer.result) : reject(new Error(answer.error)));
    worker.postMessage([number, ...call]);
  });
}

function start() {
  worker = new Worker("worker.js");
  worker.onmessage = ({ data: [n, answer] }) => { calls.get(n)?.(answer); calls.delete(n); };
  worker.onerror = (err) => say("", "The simulator does not start: " + err.message);
}

function say(kind, text) {
  verdict.className = "verdict " + kind;
  verdict.textContent = text;
}

const option = (value, text = value) => Object.assign(document.createElement("option"), { value, textContent: text });

function seconds(ms) {
  const s = Math.round(ms / 100) / 10;
  return s < 60 ? `${s}s` : `${Math.floor(s / 60)}m${s % 60 ? Math.round(s % 60 * 10) / 10 + "s" : ""}`;
}

// looks draws the faults of the text, or shows its mistake.
let looked = 0;
async function looks() {
  const turn = ++looked;
  try {
    const seen = await ask("look", yaml.value);
    if (turn !== looked) return; // a later text is being checked
    view = seen;
    id("mistake").hidden = true;
    const profile = id("profile").value;
    id("profile").replaceChildren(...view.profiles.map((p) => option(p)));
    if (view.profiles.includes(profile)) id("profile").value = profile;
    draw();
  } catch (err) {
    if (turn !== looked) return;
    view = null;
    id("mistake").textContent = err.message;
    id("mistake").hidden = false;
  }
  buttons();
}

function buttons(running = false) {
  id("go").disabled = id("next").disabled = running || !view;
  id("stop").hidden = !running;
}

function draw() {
  const rows = view.faults.map((fault, i) => strip(fault, i));
  const ticks = document.createElement("div"), step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600].find((s) => view.end / 1000 / s <= 8) || 86400;
  ticks.className = "ticks";
  for (let s = 0; s * 1000 < view.end; s += step) {
    const tick = document.createElement("i");
    tick.textContent = seconds(s * 1000);
    tick.style.left = 100 * s * 1000 / view.end + "%";
    ticks.append(tick);
  }
  const axis = document.createElement("div");
  axis.className = "strip";
  axis.append(document.createElement("span"), ticks);
  strips.replaceChildren(...rows, axis);
  if (!rows.length) strips.prepend("This scenario has no faults.");
}

function strip(fault, i) {
  const row = document.createElement("div"), name = document.createElement("span"), lane = document.createElement("div");
  row.className = "strip";
  lane.className = "lane";
  name.textContent = name.title = fault.name;
  const at = fault.after ? 0 : (fault.from + fault.to) / 2, share = (ms) => 100 * ms / view.end + "%";
  if (fault.to > fault.from) {
    const range = document.createElement("div");
    range.className = "range";
    range.style.left = share(fault.from);
    range.style.width = share(fault.to - fault.from);
    range.title = `begins between ${seconds(fault.from)} and ${seconds(fault.to)}, as the seed draws it`;
    lane.append(range);
  }
  const bar = document.createElement("div");
  bar.className = fault.after ? "fault after" : "fault";
  bar.tabIndex = 0;
  bar.dataset.fault = i;
  bar.setAttribute("role", "slider");
  bar.setAttribute("aria-label", fault.name);
  bar.setAttribute("aria-valuemin", 0);
  bar.setAttribute("aria-valuemax", view.end);
  const show = (from, lasts) => {
    bar.style.left = share(from);
    bar.style.width = share(lasts);
    const begins = fault.after && from === at ? `after ${fault.after}` : `at ${seconds(from)}`;
    bar.title = begins + (lasts ? `, for ${seconds(lasts)}` : "");
    bar.setAttribute("aria-valuenow", Math.round(from));
    bar.setAttribute("aria-valuetext", bar.title);
  };
  show(at, fault.lasts);
  if (fault.lasts) {
    const edge = document.createElement("div");
    edge.className = "edge";
    bar.append(edge);
  }
  bar.onpointerdown = (down) => {
    down.preventDefault();
    bar.focus();
    bar.setPointerCapture(down.pointerId);
    const longer = down.target !== bar, perPixel = view.end / lane.clientWidth;
    let from = at, lasts = fault.lasts;
    bar.onpointermove = (move) => {
      const by = Math.round((move.clientX - down.clientX) * perPixel / 500) * 500;
      if (longer) lasts = Math.max(500, Math.round(fault.lasts + by));
      else from = Math.max(0, Math.round((at + by) / 500) * 500);
      show(from, lasts);
    };
    bar.onpointerup = bar.onpointercancel = (up) => {
      bar.onpointermove = bar.onpointerup = bar.onpointercancel = null;
      if (up.type === "pointercancel") return draw();
      if (from !== at || lasts !== fault.lasts) moved(i, from === at ? -1 : from, lasts === fault.lasts ? -1 : lasts);
    };
  };
  bar.onkeydown = (key) => {
    const by = { ArrowLeft: -1000, ArrowRight: 1000 }[key.key];
    if (!by) return;
    key.preventDefault();
    if (!key.shiftKey) moved(i, Math.max(0, Math.round((at + by) / 1000) * 1000), -1);
    else if (fault.lasts) moved(i, -1, Math.max(1000, fault.lasts + by));
  };
  lane.append(bar);
  row.append(name, lane);
  return row;
}

// moved writes the new times of a fault to the text.
async function moved(i, at, lasts) {
  try {
    yaml.value = await ask("move", yaml.value, i, at, lasts);
    await looks();
    strips.querySelector(`[data-fault="${i}"]`)?.focus();
  } catch (err) {
    say("inconclusive", err.message);
    draw();
  }
}

async function run() {
  if (!view) return;
  buttons(true);
  say("", "Running …");
  try {
    const done = await ask("run", yaml.value, id("profile").value, id("seed").value, id("mutant").value);
    const signs = { pass: "✔ pass", fail: "✖ fail", inconclusive: "? inconclusive" };
    say(done.verdict, [`${signs[done.verdict]}: ${done.run}`, ...(done.why || []),
      `${done.virtual} of virtual time, ${done.steps} steps, in ${seconds(done.took)}; history hash ${done.hash}`].join("\n"));
    if (report) URL.revokeObjectURL(report);
    report = URL.createObjectURL(new Blob([done.page], { type: "text/html" }));
    id("report").src = report;
    id("report").hidden = false;
    document.body.dataset.hash = done.hash;
    document.body.dataset.first ??= String(Math.round(performance.now()));
  } catch (err) {
    say("inconclusive", err.message);
  }
  buttons();
}

async function choose(name) {
  yaml.value = await ask("text", name);
  await looks();
}

async function begin() {
  start();
  try {
    const offer = await ask("offer");
    id("scenario").replaceChildren(...offer.scenarios.map((s) => option(s)));
    id("mutant").append(...offer.mutants.map((m) => option(m.name)));
    id("mutant").onchange = () => {
      const chosen = offer.mutants.find((m) => m.name === id("mutant").value);
      id("bug").hidden = !chosen;
      id("bug").textContent = chosen ? "Planted: " + chosen.about : "";
    };
    id("scenario").value = "network-partition";
    id("scenario").disabled = yaml.disabled = false;
    await choose("network-partition");
    await run();
  } catch (err) {
    say("inconclusive", err.message);
  }
}

let typed;
yaml.oninput = () => { clearTimeout(typed); typed = setTimeout(looks, 200); };
id("scenario").onchange = () => choose(id("scenario").value).catch((err) => say("inconclusive", err.message));
id("go").onclick = run;
id("seed").onkeydown = (key) => { if (key.key === "Enter") run(); };
id("next").onclick = () => { id("seed").value = String(BigInt(id("seed").value || "0") + 1n); run(); };
id("stop").onclick = () => {
  worker.terminate(); // nothing else can stop a running simulation
  calls.clear();
  start();
  say("inconclusive", "Stopped.");
  buttons();
};
begin();
