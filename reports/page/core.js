// The page's data and the reader's position in it.
const $ = (id) => document.getElementById(id);
window.addEventListener("error", (e) => { document.body.dataset.error = String(e.message); });
const runs = JSON.parse($("data").textContent);
const here = { run: null, exec: 0, from: 0, to: 1, at: 0, all: false };

// Fields of an event, as Go wrote them.
const K = 0, AT = 1, STEP = 2, WHO = 3, WHAT = 4, EXEC = 5, CLASS = 6, PROC = 7, QUEUE = 8;

function esc(s) {
  return String(s).replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");
}

// clock formats a time like Go's FormatTime: 12.402s, 1m02.345s, 1h00m02.345s.
function clock(us, digits = 3) {
  const ms = Math.floor(us / 1000), pad = (n, w) => String(n).padStart(w, "0");
  const h = Math.floor(ms / 3600000), m = Math.floor(ms / 60000) % 60, s = Math.floor(ms / 1000) % 60;
  const part = digits ? "." + pad(ms % 1000, 3).slice(0, digits) : "";
  if (h) return `${h}h${pad(m, 2)}m${pad(s, 2)}${part}s`;
  if (m) return `${m}m${pad(s, 2)}${part}s`;
  return `${s}${part}s`;
}

// last returns the last entry of a list, ordered by the number at field, that is not after limit.
function last(list, field, limit) {
  let low = 0, high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (list[mid][field] <= limit) low = mid + 1; else high = mid;
  }
  return low ? list[low - 1] : null;
}

// indexOfK returns the index of event k among the embedded ones, or of the nearest before it.
function indexOfK(k) {
  const found = last(here.run.events, K, k);
  return found ? here.run.events.indexOf(found) : 0;
}

function showRun(i) {
  const run = here.run = runs[i];
  here.from = run.focus[0];
  here.to = Math.max(run.focus[1], run.focus[0] + 1);
  const v = run.violations[0];
  const row = (v && run.executions.find((x) => x.id === v.exec)) || run.executions[0];
  here.exec = row ? row.id : 0;
  $("slider").max = Math.max(0, run.events.length - 1);
  fillExecutions();
  fillViolations();
  fillLeftOut();
  drawOverview();
  drawTimeline();
  $("record").value = i;
  moveTo(v ? indexOfK(v.k) : 0);
  showStory();
}

// link returns a link to an event of the shown run, valid for this file and its copies.
const link = (k) => `#run=${here.run.key}&event=${k + 1}${here.exec ? `&execution=${here.exec}` : ""}`;

// remember writes the moment to the address once the reader has stopped moving, because browsers limit the
// rate.
let remembering = 0;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    try { history.replaceState(null, "", $("moment").getAttribute("href")); } catch (refused) { /* the link next to the slider stays correct */ }
  }, 200);
}

// openMoment shows the run, execution and event of a link.
function openMoment() {
  const words = new URLSearchParams(location.hash.slice(1)), key = words.get("run");
  if (key === null) return;
  const i = runs.findIndex((r) => r.key === key);
  $("missing").hidden = i >= 0;
  if (i < 0) {
    const away = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/.test(key) && location.pathname.endsWith("/index.html");
    $("missing").innerHTML = `The run ${esc(key)} is not in this page.` + (away ? ` <a href="${key}/run.html${esc(location.hash)}">Open its own page</a>.` : "");
    $("missing").scrollIntoView();
    return;
  }
  clearTimeout(remembering);
  if (runs[i] !== here.run) showRun(i);
  const exec = Number(words.get("execution")), event = Number(words.get("event"));
  if (exec) selectExecution(exec);
  if (event > 0) moveTo(indexOfK(event - 1));
  clearTimeout(remembering);
  $("run").scrollIntoView();
  $("lanes").focus({ preventScroll: true });
}

function zoomTo(from, to) {
  const end = Math.max(here.run.end, 1), least = Math.min(2000, end);
  let width = Math.min(Math.max(to - from, least), end);
  from = Math.min(Math.max(from, 0), end - width);
  here.from = from;
  here.to = from + width;
  drawOverview();
  drawTimeline();
  drawCursor();
}

function zoomBy(factor, around) {
  const center = around === undefined ? clamp(nowAt(), here.from, here.to) : around;
  zoomTo(center - (center - here.from) * factor, center + (here.to - center) * factor);
}

const clamp = (x, a, b) => Math.min(Math.max(x, a), b);

function nowAt() {
  const e = here.run.events[here.at];
  return e ? e[AT] : 0;
}

// moveTo moves the cursor to an event, and scrolls it into view.
function moveTo(i) {
  const events = here.run.events;
  if (!events.length) { showMoment(); return; }
  here.at = clamp(i, 0, events.length - 1);
  remember();
  $("slider").value = here.at;
  const t = nowAt();
  if (t < here.from || t > here.to) {
    const half = (here.to - here.from) / 2;
    zoomTo(t - half, t + half);
  } else {
    drawCursor();
  }
  reveal();
  showMoment();
}

// step moves to the next event of the kind that the reader has selected for stepping.
function step(by) {
  const want = {
    all: () => true,
    exec: (e) => e[EXEC] === here.exec,
    status: (e) => e[CLASS] === "status",
    fault: (e) => e[CLASS] === "fault" || e[CLASS] === "process",
  }[$("through").value];
  const events = here.run.events;
  for (let i = here.at + by; i >= 0 && i < events.length; i += by) {
    if (want(events[i])) { moveTo(i); return; }
  }
}

function toViolation(view) {
  const v = here.run.violations[0];
  if (!v) { zoomTo(0, here.run.end); return; }
  if (v.exec && v.exec !== here.exec) selectExecution(v.exec);
  zoomTo(view[0], view[1]);
  moveTo(indexOfK(v.k));
}

function selectExecution(id) {
  if (!here.run.executions.some((x) => x.id === id)) return;
  here.exec = id;
  if (here.run.executions.findIndex((x) => x.id === id) >= here.run.few) here.all = true;
  $("execution").value = id;
  remember();
  drawTimeline();
  drawCursor();
  showMoment();
  showStory();
}
