// The events that led to the violation: as a list, as arrows in the timeline, and the deadlines at the
// cursor.

// shownLed returns the lead-up to the violation of the selected execution, or else to the first one.
function shownLed() {
  const run = here.run;
  return run.led.find((l) => run.violations[l.violation].exec === here.exec) || run.led[0] || null;
}

// positionOf returns where an event is drawn: messages in their queue, changes of an execution in its row,
// everything else in the lane of its process.
function positionOf(e) {
  const run = here.run, px = x(e[AT]), row = lanes.rows.get(e[EXEC]);
  const queue = e[QUEUE] >= 0 ? lanes.tops.get(run.queues[e[QUEUE]]) : undefined;
  const process = e[PROC] >= 0 ? lanes.tops.get(run.processes[e[PROC]]) : undefined;
  if (e[CLASS] === "message" && queue !== undefined) return [px, queue + 12];
  if (row !== undefined && e[CLASS] !== "worker") return [px, row + 11];
  if (process !== undefined) return [px, process + 9];
  return queue === undefined ? null : [px, queue + 12];
}

function drawLed() {
  const l = shownLed();
  if (!l) return "";
  const run = here.run, at = new Map();
  for (const k of l.events) {
    const e = run.events[indexOfK(k)];
    if (!e || e[K] !== k || e[AT] < here.from || e[AT] > here.to) continue;
    const position = positionOf(e);
    if (position) at.set(k, position);
  }
  let out = "";
  for (const [a, b] of l.arrows) {
    const from = at.get(a), to = at.get(b);
    if (!from || !to || Math.abs(from[0] - to[0]) + Math.abs(from[1] - to[1]) < 6) continue;
    const bend = Math.min(40, Math.abs(to[1] - from[1]) / 3 + 4);
    out += `<path d="M${from[0].toFixed(1)} ${from[1]}C${(from[0] + bend).toFixed(1)} ${from[1]} ${(to[0] - bend).toFixed(1)} ${to[1]} ${to[0].toFixed(1)} ${to[1]}" class="led"/><path d="M${to[0].toFixed(1)} ${to[1]}l-7 -3.5v7z" class="ledhead"/>`;
  }
  for (const [k, [px, py]] of at) {
    const e = run.events[indexOfK(k)];
    out += `<circle cx="${px.toFixed(1)}" cy="${py}" r="3" class="leddot"><title>${clock(e[AT])} ${esc(run.who[e[WHO]])} ${esc(e[WHAT])}</title></circle>`;
  }
  return out;
}

function listLed() {
  const l = shownLed(), run = here.run;
  $("led").hidden = !l;
  if (!l) return;
  const v = run.violations[l.violation];
  $("led-title").textContent = `What led to it: ${v.title}`;
  $("led-lines").innerHTML = [...l.events, ...l.said].sort((a, b) => a - b).map((k) => {
    const e = run.events[indexOfK(k)];
    return e && e[K] === k ? eventRow(e, e[CLASS]) : "";
  }).join("");
  $("led-cut").textContent = l.past > l.events.length ? `The ${l.events.length} events of its past that are nearest to it. The whole past has ${l.past}; the arrows show what followed from what, perhaps by way of events that are left out. What tasks of one process tell one another in memory is not known.` : "";
}

// dueBox shows the deadlines at event k: those of the selected execution, the leases, and the dispatches in
// each queue with the age of the oldest.
function dueBox(k, at) {
  const run = here.run, items = [], row = last(run.dues[here.exec] || [], 0, k);
  const until = (due) => `<span${due < at ? ' class="broken"' : ""}>${clock(Math.max(0, due))}${due < at ? `, ${clock(at - due)} ago` : `, in ${clock(due - at)}`}</span>`;
  if (row && row[2] && row[1] > 0) items.push(item(`execution ${here.exec}, ${row[2]}`, until(row[1])));
  if (row) items.push(item("dispatches used", `<span>${row[3]}</span>`));
  for (const name of Object.keys(run.leases).sort()) {
    const lease = last(run.leases[name], 0, k);
    if (lease) items.push(item(`lease of ${name} (incarnation ${lease[2]})`, until(lease[1])));
  }
  for (const q of run.queues) {
    const waiting = q.stays.filter((s) => s[3] <= k && s[2] > at);
    if (!waiting.length) continue;
    const oldest = Math.min(...waiting.map((s) => s[0]));
    items.push(item(`${q.label}: dispatches of ${waiting.map((s) => s[4]).slice(0, 6).join(", ")}${waiting.length > 6 ? " …" : ""}`, `<span>oldest ${clock(at - oldest)}</span>`));
  }
  return box("What was due (database's clock)", items);
}
