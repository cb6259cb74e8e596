// The swimlanes. A change of the view redraws everything, a move of the cursor only the cursor. The axis is a
// separate drawing with the same coordinates, which stays in view while the lanes scroll.
let GUTTER = 194;
const RIGHT = 14, AXIS = 24, WIDE = 640;
const gutter = (width) => width < WIDE ? 104 : 194;
const lanes = { width: 0, height: 0, rows: new Map(), tops: new Map(), processes: [], queues: [] };

const x = (t) => GUTTER + (t - here.from) / (here.to - here.from) * (lanes.width - GUTTER - RIGHT);
const timeAt = (px) => here.from + (px - GUTTER) / (lanes.width - GUTTER - RIGHT) * (here.to - here.from);

// span clips a period to the view; null if nothing of it is visible.
function span(a, b) {
  if (b < here.from || a > here.to) return null;
  const x0 = x(Math.max(a, here.from)), x1 = x(Math.min(b, here.to));
  return [x0, Math.max(x1 - x0, 0)];
}

function rect(s, y, h, cls, title, least = 0.6) {
  return `<rect x="${s[0].toFixed(1)}" y="${y}" width="${Math.max(s[1], least).toFixed(1)}" height="${h}" class="${cls}">${title ? `<title>${esc(title)}</title>` : ""}</rect>`;
}

function label(s, y, words, cls = "seg-label") {
  for (const w of words) {
    if (s[1] > w.length * 6.3 + 8) return `<text x="${(s[0] + 4).toFixed(1)}" y="${y}" class="${cls}">${esc(w)}</text>`;
  }
  return "";
}

function laneName(y, text, cls = "", title = "", beside = 0) {
  const room = Math.floor((GUTTER - 14 - beside) / 6.6), shown = text.length > room ? text.slice(0, room - 1) + "…" : text;
  return `<text x="10" y="${y}" class="${cls}">${esc(shown)}${title || shown !== text ? `<title>${esc(title || text)}</title>` : ""}</text>`;
}

function ticks() {
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];
  const width = (here.to - here.from) / 1e6, room = Math.max(2, (lanes.width - GUTTER) / 95);
  const step = steps.find((s) => width / s <= room) || Math.ceil(width / room);
  const list = [], us = step * 1e6;
  for (let t = Math.ceil(here.from / us) * us; t <= here.to; t += us) list.push(t);
  return { list, digits: step >= 1 ? 0 : 3 };
}

function drawTimeline() {
  const svg = $("timeline"), run = here.run;
  lanes.width = svg.clientWidth || 1200;
  GUTTER = gutter(lanes.width);
  lanes.rows = new Map();
  lanes.tops = new Map();
  const parts = [];
  let y = AXIS;
  if (run.faultIntervals.length) y = drawFaultRows(parts, y);
  const top = y;
  y = section(parts, y, "PROCESSES", run.processes, drawProcess);
  y = section(parts, y, "QUEUES", run.queues, drawQueue);
  y = section(parts, y, "EXECUTIONS", here.all ? run.executions : run.executions.slice(0, run.few), drawExecution);
  if (run.executions.length > run.few) {
    const text = here.all ? "show fewer executions" : `show ${run.executions.length - run.few} more executions`;
    parts.push(`<text x="10" y="${y + 10}" class="more" data-more="1">${text}</text>`);
    y += 18;
  }
  lanes.height = y + 6;
  const back = [];
  for (const b of run.faultIntervals) {
    const s = span(b.begin, b.end);
    if (s && !b.idle) back.push(rect(s, AXIS, lanes.height - AXIS, "band", "", 1.5));
  }
  const t = ticks(), axis = [];
  for (const at of t.list) {
    const px = x(at).toFixed(1);
    back.push(`<line x1="${px}" x2="${px}" y1="${AXIS}" y2="${lanes.height}" class="grid"/>`);
    axis.push(`<line x1="${px}" x2="${px}" y1="${AXIS - 6}" y2="${AXIS}" class="grid"/><text x="${px}" y="${AXIS - 9}" class="t-dim" text-anchor="middle">${clock(at, t.digits)}</text>`);
  }
  $("axis").setAttribute("viewBox", `0 0 ${lanes.width} ${AXIS}`);
  $("axis").innerHTML = axis.join("") + `<g id="cursor-top"></g>`;
  const front = drawViolations(top);
  svg.setAttribute("viewBox", `0 ${AXIS} ${lanes.width} ${lanes.height - AXIS}`);
  svg.style.height = lanes.height - AXIS + "px";
  svg.innerHTML = back.join("") + parts.join("") + drawLed() + front + `<g id="cursor"></g><rect id="brush" class="brush" y="${AXIS}" width="0" height="${lanes.height}"/>`;
}

function section(parts, y, name, list, draw) {
  if (!list.length) return y;
  parts.push(`<line x1="0" x2="${lanes.width}" y1="${y + 2.5}" y2="${y + 2.5}" class="sep"/><text x="10" y="${y + 17}" class="head">${name}</text>`);
  y += 22;
  for (const item of list) { lanes.tops.set(item, y); y = draw(parts, y, item); }
  return y + 4;
}

// Faults have their own rows, as few as possible without overlap, so that their names are readable.
function drawFaultRows(parts, y) {
  const free = [];
  parts.push(`<text x="10" y="${y + 13}" class="head">FAULTS</text>`);
  for (const b of here.run.faultIntervals) {
    const s = span(b.begin, b.end);
    if (!s) continue;
    const room = Math.floor((lanes.width - RIGHT - GUTTER) / 6), name = b.label.length > room ? b.label.slice(0, room - 1) + "…" : b.label;
    const need = Math.max(s[1], name.length * 6 + 10);
    const left = Math.min(s[0] + 4, lanes.width - RIGHT - name.length * 6);
    let row = free.findIndex((until) => until <= Math.min(s[0], left));
    if (row < 0) row = Math.min(free.length, 7);
    free[row] = Math.max(s[0] + need, left + need);
    parts.push(rect(s, y + row * 17 + 2, 14, b.idle ? "bandbar idle" : "bandbar", `${b.label}: ${clock(b.begin)} to ${clock(b.end)}`, 3));
    parts.push(`<text x="${Math.max(left, GUTTER).toFixed(1)}" y="${y + row * 17 + 13}" class="bandname">${esc(name)}</text>`);
  }
  return y + Math.max(free.length, 1) * 17 + 6;
}

function drawProcess(parts, y, p) {
  parts.push(laneName(y + 13, p.name, "", p.role));
  for (const [a, b, , state] of p.periods) {
    const s = span(a, b);
    if (!s) continue;
    parts.push(rect(s, y + 2, 14, "p-" + state, `${p.name} ${state}: ${clock(a)} to ${clock(b)}`));
    if (state !== "up") parts.push(label(s, y + 13, [state], "life"));
  }
  // Of several labels too close to read, the last one is kept.
  p.lives.forEach(([a, , life], i) => {
    const px = x(a), next = p.lives[i + 1];
    if (a < here.from || a > here.to || (next && x(next[0]) < px + life.length * 6 + 4)) return;
    parts.push(`<text x="${(px + 3).toFixed(1)}" y="${y + 13}" class="life">${esc(life)}</text>`);
  });
  let d = "";
  for (const t of p.beats) if (t >= here.from && t <= here.to) d += `M${x(t).toFixed(1)} ${y + 12}v5`;
  if (d) parts.push(`<path d="${d}" class="beat"/>`);
  return y + 19;
}

function drawQueue(parts, y, q) {
  const h = 20, unit = h / Math.max(q.most, 1);
  parts.push(laneName(y + 14, q.label, "", q.name, 8 + 8 * String(q.most).length), `<text x="${GUTTER - 8}" y="${y + 14}" class="t-dim" text-anchor="end">${q.most}<title>at most ${q.most} messages</title></text>`);
  let d = "", open = false;
  const start = last(q.points, 0, here.from);
  let level = start ? start[2] + start[3] : 0;
  d = `M${GUTTER} ${y + h}V${(y + h - level * unit).toFixed(1)}`;
  for (const [t, , ready, unacked] of q.points) {
    if (t <= here.from) continue;
    if (t > here.to) break;
    d += `H${x(t).toFixed(1)}V${(y + h - (ready + unacked) * unit).toFixed(1)}`;
    open = true;
  }
  if (open || level) parts.push(`<path d="${d}H${x(Math.min(here.to, here.run.end)).toFixed(1)}V${y + h}Z" class="depth"><title>${esc(q.name)}: at most ${q.most}</title></path>`);
  for (const [a, received, b, , exec, fate] of q.stays) {
    const s = span(a, b), mine = exec === here.exec;
    if (s) parts.push(rect(s, mine ? y + 4 : y + 8, mine ? 9 : 5, mine ? "stay mine" : "stay", `message of execution ${exec}: stored ${clock(a)}, ${received >= 0 ? "received " + clock(received) + ", " : ""}${fate.replace("_", " ")} ${clock(b)}`, 2));
  }
  for (const [t, , what] of q.marks) {
    if (t < here.from || t > here.to) continue;
    parts.push(`<text x="${x(t).toFixed(1)}" y="${y + 14}" class="qmark" text-anchor="middle">${what === "requeued" ? "↩" : "×"}<title>${esc(what)} at ${clock(t)}</title></text>`);
  }
  return y + h + 4;
}

function drawExecution(parts, y, r) {
  const h = 27, mine = r.id === here.exec;
  lanes.rows.set(r.id, y);
  if (mine) parts.push(`<rect x="0" y="${y}" width="${lanes.width}" height="${h}" class="row-mine"/>`);
  const name = `execution ${r.id}` + (r.retry ? ` (retry of ${r.chain})` : "");
  parts.push(laneName(y + 15, (r.violated ? "✖ " : "") + name, r.violated ? "row-violated" : ""));
  const terminal = new Set(["completed", "failed", "cancelled", "timeout", "abandoned"]);
  let until = 0;
  for (const [a, b, , status, owner, epoch] of r.periods) {
    const s = span(a, b);
    if (!s) continue;
    const end = terminal.has(status), words = [`${status} · ${owner || "executor"}`, status];
    const title = `execution ${r.id} ${status}${owner ? ", " + owner : ""}, epoch ${epoch}: ${clock(a)} to ${clock(b)}`;
    if (end) {
      parts.push(rect(s, y + 10, 2, "ended s-" + status, title));
      if (a < here.from) continue;
      parts.push(rect([s[0], 4], y + 4, 14, "s-" + status, title));
      if (s[0] > until) parts.push(`<text x="${(s[0] + 8).toFixed(1)}" y="${y + 8}" class="life">${status}</text>`);
    } else {
      parts.push(rect(s, y + 4, 14, "s-" + status, title, 1.5), label(s, y + 15, words));
    }
    until = s[0];
  }
  r.actions.forEach(([a, b, , worker, outcome], i) => {
    const s = span(a, b);
    if (s) parts.push(rect(s, y + 20 + (i % 2) * 3, 2.5, "act", `action on ${worker}: ${clock(a)} to ${clock(b)}, ${outcome || "never ended"}`, 1.5));
  });
  parts.push(`<rect x="0" y="${y}" width="${GUTTER}" height="${h}" class="row-hit" data-exec="${r.id}"/>`);
  return y + h;
}

function drawViolations(top) {
  let out = "", n = 0;
  for (const v of here.run.violations) {
    if (v.at < here.from || v.at > here.to || n >= 20) continue;
    n++;
    const px = x(v.at), row = lanes.rows.get(v.exec), text = "✖ " + v.title.replace(/ \(.*/, "");
    out += `<line x1="${px.toFixed(1)}" x2="${px.toFixed(1)}" y1="${AXIS}" y2="${lanes.height}" class="violation"/>`;
    if (row !== undefined) out += `<circle cx="${px.toFixed(1)}" cy="${row + 11}" r="7" class="vflag"/><text x="${px.toFixed(1)}" y="${row + 15}" text-anchor="middle" class="vtext">✖</text>`;
    if (n > 1) continue;
    const w = text.length * 6.4 + 12, left = Math.min(px, lanes.width - w - 2);
    out += `<g><rect x="${left.toFixed(1)}" y="${top - 1}" width="${w}" height="18" rx="2" class="vflag"/><text x="${(left + 6).toFixed(1)}" y="${top + 12}" class="vtext">${esc(text)}</text><title>${esc(v.message)}</title></g>`;
  }
  return out;
}

function drawCursor() {
  const g = $("cursor"), e = here.run.events[here.at];
  if (!g || !e) return;
  const px = x(e[AT]).toFixed(1), row = lanes.rows.get(e[EXEC]);
  g.innerHTML = `<line x1="${px}" x2="${px}" y1="${AXIS}" y2="${lanes.height}" class="now"/>` +
    (row === undefined ? "" : `<circle cx="${px}" cy="${row + 11}" r="3.5" class="nowdot"/>`);
  $("cursor-top").innerHTML = `<path d="M${px} ${AXIS - 1}l-5 -7h10z" class="nowdot"/>`;
}

// reveal scrolls the lanes until the row of the event at the cursor is visible.
function reveal() {
  const e = here.run.events[here.at], row = e && lanes.rows.get(e[EXEC]), box = $("lanes");
  if (row === undefined) return;
  const top = row - AXIS, bottom = row + 27; // below the axis, which covers as much of the box
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}

function drawOverview() {
  const svg = $("overview"), run = here.run, width = svg.clientWidth || 1200, GUTTER = gutter(width);
  const px = (t) => GUTTER + t / Math.max(run.end, 1) * (width - GUTTER - RIGHT);
  let out = `<text x="10" y="21" class="t-dim">${width < WIDE ? "run" : "whole run"}, ${clock(run.end, 0)}</text><line x1="${GUTTER}" x2="${width - RIGHT}" y1="17" y2="17" class="sep"/>`;
  for (const b of run.faultIntervals) out += `<rect x="${px(b.begin)}" y="9" width="${Math.max(2, px(b.end) - px(b.begin))}" height="16" class="bandbar"><title>${esc(b.label)}</title></rect>`;
  for (const v of run.violations.slice(0, 50)) out += `<line x1="${px(v.at)}" x2="${px(v.at)}" y1="2" y2="32" class="violation"/>`;
  out += `<rect x="${px(here.from)}" y="3" width="${Math.max(3, px(here.to) - px(here.from))}" height="28" class="window"/>`;
  svg.setAttribute("viewBox", `0 0 ${width} 34`);
  svg.innerHTML = out;
}
