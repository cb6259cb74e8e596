// The panels around the swimlanes: the state at the cursor, the story, and the controls.
const chip = (cls, text) => `<span class="chip ${cls}">${esc(text)}</span>`;
const item = (name, value) => `<li><span>${esc(name)}</span>${value}</li>`;
const when = (k, at) => `<a href="${link(k)}">${clock(at)}</a>`;
const eventRow = (e, cls, text = e[WHAT]) =>
  `<tr class="${cls}" data-k="${e[K]}"><td class="n">${when(e[K], e[AT])}</td><td><b>${esc(here.run.who[e[WHO]])}</b></td><td>${esc(text)}</td></tr>`;
const box = (title, items) => items.length ? `<div><h3>${esc(title)}</h3><ul>${items.join("")}</ul></div>` : "";

function fillExecutions() {
  $("execution").innerHTML = here.run.executions.map((r) =>
    `<option value="${r.id}">${r.id}${r.retry ? ` (retry ${r.retry} of ${r.chain})` : ""}${r.violated ? " ✖ violated" : ""}</option>`).join("");
  $("execution").value = here.exec;
}

function fillViolations() {
  const list = here.run.violations;
  $("violations").innerHTML = list.slice(0, 5).map((v) =>
    `<button type="button" class="broken" data-k="${v.k}" data-exec="${v.exec}">✖ ${esc(v.title)} at ${clock(v.at)}</button>`).join(" ") +
    (list.length > 5 ? ` <span class="dim">and ${list.length - 5} more</span>` : "");
  for (const id of ["zoom-focus", "zoom-close", "to-violation"]) $(id).hidden = !list.length;
}

function fillLeftOut() {
  const run = here.run, words = [];
  if (run.executionsLeftOut) words.push(`${run.executionsLeftOut} executions`);
  if (run.queuesLeftOut) words.push(`${run.queuesLeftOut} queues`);
  if (run.eventsLeftOut) words.push(`${run.eventsLeftOut} events`);
  $("leftout").textContent = words.length ? `Not in this page, to keep it small: ${words.join(", ")} of this run. history.jsonl has them all.` : "";
}

function fillLegend() {
  const one = (cls, text) => `<span><i class="${cls}"></i>${text}</span>`;
  const statuses = ["requested", "scheduling", "scheduled", "running", "canceling", "completed", "failed", "cancelled", "timeout", "abandoned"];
  $("legend").innerHTML = statuses.map((s) => one("s-" + s, s)).join("") +
    ["up", "paused", "frozen", "down"].map((s) => one("p-" + s, "process " + s)).join("") +
    "<span>│ heartbeat</span><span>× message expired, rejected or lost</span><span>thin dark bar: the action runs</span>";
}

// showMoment describes the event at the cursor and the state right after it.
function showMoment() {
  const run = here.run, e = run.events[here.at];
  if (!e) { $("line").textContent = "This run has no events."; $("state").innerHTML = ""; $("moment").hidden = true; return; }
  $("moment").hidden = false;
  $("moment").href = link(e[K]);
  const bad = run.violations.find((v) => v.k === e[K]);
  $("line").className = bad ? "line bad" : "line";
  $("line").innerHTML = `<time>${clock(e[AT])}</time><b>${esc(run.who[e[WHO]])}</b> ${esc(e[WHAT])}` +
    `<span class="at">step ${e[STEP]}, event ${e[K] + 1}</span>` + (bad ? `<br><span class="broken">✖ ${esc(bad.title)}: ${esc(bad.message)}</span>` : "");
  $("slider").setAttribute("aria-valuetext", `${clock(e[AT])} ${run.who[e[WHO]]} ${e[WHAT]}`);
  const k = e[K];
  const processes = run.processes.map((p) => {
    const period = last(p.periods, 2, k), life = last(p.lives, 1, k);
    const said = life && life[2] !== "registered" ? `${life[2]}, incarnation ${life[3]}` : "";
    return item(p.name, `<span class="dim">${esc(said)}</span>` + (period ? chip("p-" + period[3], period[3]) : `<span class="dim">not started</span>`));
  });
  const faults = run.faultIntervals.filter((b) => b.begin <= e[AT] && e[AT] < b.end).map((b) => item(b.label, `<span class="dim">until ${clock(b.end)}</span>`));
  const queues = run.queues.map((q) => {
    const p = last(q.points, 1, k);
    return item(q.label, `<span>${p ? p[2] : 0} + ${p ? p[3] : 0}</span>`);
  });
  $("state").innerHTML = rowBox(k, e[AT]) + dueBox(k, e[AT]) + box("Faults that last", faults) + box("Processes", processes) + box("Queues (waiting + not yet acknowledged)", queues);
  showLogs(e);
  markEvent();
}

// showLogs lists the log lines nearest to an event. They are for readers: nothing is judged by them.
const LOG_LINES = 12, SAID = "logged: ";
function showLogs(e) {
  const run = here.run, away = (l) => Math.abs(l[AT] - e[AT]);
  const near = run.events.filter((l) => l[CLASS] === "log" && l[WHAT].startsWith(SAID)).sort((a, b) => away(a) - away(b) || a[K] - b[K]).slice(0, LOG_LINES).sort((a, b) => a[K] - b[K]);
  $("logs").hidden = !near.length;
  $("log-lines").innerHTML = near.map((l) => eventRow(l, l[K] === e[K] ? "here" : "", l[WHAT].slice(SAID.length))).join("");
}

// rowBox shows the selected execution's row at event k.
function rowBox(k, at) {
  const r = here.run.executions.find((row) => row.id === here.exec);
  if (!r) return "";
  const p = last(r.periods, 2, k), title = `Execution ${r.id}`;
  if (!p) return box(title, [item("status", `<span class="dim">not created yet</span>`)]);
  const items = [
    item("status", chip("s-" + p[3], p[3])),
    item("for", `<span>${clock(at - p[0])}</span>`),
    item("epoch", `<span>${p[5]}</span>`),
    item("worker", `<span>${esc(p[4] || "none")}</span>`),
  ];
  if (r.retry) items.push(item("retry", `<span>${r.retry} of execution ${r.chain}</span>`));
  for (const a of r.actions) if (a[2] <= k && at < a[1]) items.push(item("its action runs on", `<span>${esc(a[3])}</span>`));
  return box(title, items);
}

function showStory() {
  listLed();
  const run = here.run, id = here.exec, rows = [];
  const bad = run.violations.filter((v) => v.exec === id);
  const tell = (v) => rows.push(`<tr class="bad" data-k="${v.k}"><td class="n">${when(v.k, v.at)}</td><td>✖ ${esc(v.title)}</td><td>${esc(v.message)}</td></tr>`);
  const own = run.events.filter((e) => e[EXEC] === id);
  let next = 0;
  for (const e of own) {
    while (next < bad.length && bad[next].k < e[K]) tell(bad[next++]);
    rows.push(eventRow(e, e[CLASS]));
  }
  while (next < bad.length) tell(bad[next++]);
  $("events").innerHTML = rows.join("") || `<tr><td colspan="3" class="dim">No events of this execution are in this page.</td></tr>`;
  const me = run.executions.find((r) => r.id === id);
  const chain = me ? run.executions.filter((r) => r.chain === me.chain).sort((a, b) => a.retry - b.retry) : [];
  $("chain").innerHTML = chain.length < 2 ? "" : "Chain: " + chain.map((r) =>
    `<button type="button" data-exec="${r.id}"${r.id === id ? " disabled" : ""}>${r.id}${r.retry ? ` (retry ${r.retry})` : ""}</button>`).join(" → ");
  markEvent();
}

// markEvent marks the event at the cursor in the lists.
function markEvent() {
  const e = here.run.events[here.at];
  for (const tr of document.querySelectorAll("#events tr, #led-lines tr")) tr.classList.toggle("here", !!e && tr.dataset.k === String(e[K]) && !tr.classList.contains("bad"));
}

async function copy(button) {
  const source = $(button.dataset.copy);
  if (await copyText(source.textContent, button)) return;
  getSelection().selectAllChildren(source);
  said(button, "Selected: press Ctrl+C");
}

// copyText shows on the control that it has copied. Some browsers refuse that for local files.
async function copyText(text, control) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (refused) {
    return false;
  }
  said(control, "Copied");
  return true;
}

function said(control, text) {
  control.dataset.name = control.dataset.name || control.textContent;
  control.textContent = text;
  setTimeout(() => { control.textContent = control.dataset.name; }, 2500);
}

function listenTimeline() {
  const svg = $("timeline");
  let start = null;
  const at = (e) => clamp(e.clientX - svg.getBoundingClientRect().left, GUTTER, lanes.width - RIGHT);
  svg.addEventListener("pointerdown", (e) => {
    if (e.target.closest("[data-more]")) { here.all = !here.all; drawTimeline(); drawCursor(); return; }
    const row = e.target.closest("[data-exec]");
    if (row) { selectExecution(Number(row.dataset.exec)); return; }
    if (e.button === 0) { start = at(e); svg.setPointerCapture(e.pointerId); }
  });
  svg.addEventListener("pointermove", (e) => {
    if (start === null) return;
    const now = at(e), brush = $("brush");
    brush.setAttribute("x", Math.min(start, now));
    brush.setAttribute("width", Math.abs(now - start));
  });
  svg.addEventListener("pointerup", (e) => {
    if (start === null) return;
    const a = timeAt(Math.min(start, at(e))), b = timeAt(Math.max(start, at(e))), dragged = Math.abs(at(e) - start) > 5;
    start = null;
    if (dragged) { zoomTo(a, b); return; }
    const y = e.clientY - svg.getBoundingClientRect().top + AXIS;
    for (const [id, top] of lanes.rows) if (y >= top && y < top + 27 && id !== here.exec) selectExecution(id);
    moveTo(nearest(a));
  });
  svg.addEventListener("pointercancel", () => { start = null; $("brush").setAttribute("width", 0); });
  svg.addEventListener("wheel", (e) => {
    const width = here.to - here.from;
    if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoomBy(e.deltaY > 0 ? 1.25 : 0.8, timeAt(at(e))); }
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); const by = Math.sign(e.deltaX || e.deltaY) * width * 0.08; zoomTo(here.from + by, here.to + by); }
  }, { passive: false });
}

// nearest returns the embedded event closest to a time.
function nearest(t) {
  const events = here.run.events, before = last(events, AT, t);
  const i = before ? events.indexOf(before) : 0;
  return i + 1 < events.length && events[i + 1][AT] - t < t - events[i][AT] ? i + 1 : i;
}

function listen() {
  $("record").addEventListener("change", (e) => showRun(Number(e.target.value)));
  $("moment").addEventListener("click", (e) => { // already shown, so only the address changes
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
    e.preventDefault();
    clearTimeout(remembering);
    try { history.replaceState(null, "", e.target.getAttribute("href")); } catch (refused) { location.hash = e.target.getAttribute("href"); }
    copyText(location.href, e.target).then((copied) => { if (!copied) said(e.target, "It is in the address bar"); });
  });
  $("execution").addEventListener("change", (e) => selectExecution(Number(e.target.value)));
  $("slider").addEventListener("input", (e) => moveTo(Number(e.target.value)));
  const clicks = {
    "step-back": () => step(-1), "step-on": () => step(1), "to-violation": () => toViolation(here.run.focus), "zoom-focus": () => toViolation(here.run.focus), "zoom-close": () => toViolation(here.run.close),
    "zoom-all": () => zoomTo(0, here.run.end), "zoom-in": () => zoomBy(0.5), "zoom-out": () => zoomBy(2),
  };
  for (const id in clicks) $(id).addEventListener("click", clicks[id]);
  $("chain").addEventListener("click", (e) => { if (e.target.dataset.exec) selectExecution(Number(e.target.dataset.exec)); });
  $("violations").addEventListener("click", (e) => {
    if (!e.target.dataset.k) return;
    selectExecution(Number(e.target.dataset.exec));
    moveTo(indexOfK(Number(e.target.dataset.k)));
  });
  for (const id of ["events", "log-lines", "led-lines"]) $(id).addEventListener("click", (e) => {
    const tr = e.target.closest("tr[data-k]");
    if (tr && !e.target.closest("a")) moveTo(indexOfK(Number(tr.dataset.k)));
  });
  $("lanes").addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const keys = {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => moveTo(0), End: () => moveTo(here.run.events.length - 1),
      "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => zoomTo(0, here.run.end), v: () => toViolation(here.run.focus), c: () => toViolation(here.run.close),
    };
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });
  let resized = 0;
  addEventListener("hashchange", openMoment);
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => { drawOverview(); drawTimeline(); drawCursor(); });
  });
  listenTimeline();
}

for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", () => copy(button));
if (runs.length) {
  fillLegend();
  listen();
  showRun(0);
  clearTimeout(remembering);
  openMoment();
}
document.body.dataset.ready = "true";
