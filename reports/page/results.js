// The table of results: find, filter and sort its rows. Without this script, all rows are shown.
const FIRST_ROWS = 40;

function listenTable() {
  const table = $("table"), body = table && table.tBodies[0];
  if (!body) return;
  const rows = [...body.rows].map((tr, order) => ({ tr, order, text: tr.textContent.toLowerCase() }));
  const number = (field) => (a, b) => Number(b.tr.dataset[field]) - Number(a.tr.dataset[field]) || a.order - b.order;
  const orders = {
    worst: (a, b) => a.order - b.order, share: number("share"), executions: number("executions"),
    name: (a, b) => a.tr.dataset.name.localeCompare(b.tr.dataset.name),
  };
  let all = rows.length <= FIRST_ROWS;
  const show = () => {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean), verdict = $("show").value;
    const found = rows.filter((r) => (!verdict || r.tr.dataset.verdict === verdict) && words.every((w) => r.text.includes(w)));
    found.sort(orders[$("sort").value]);
    const shown = all ? found : found.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map((r) => r.tr));
    if (!shown.length) body.innerHTML = `<tr><td colspan="${table.tHead.rows[0].cells.length}" class="dim">No scenario fits. Change the words or the filter.</td></tr>`;
    $("found").textContent = `${shown.length} of ${rows.length} scenarios`;
    $("all-rows").hidden = shown.length === found.length;
    $("all-rows").textContent = `Show all ${found.length}`;
  };
  $("filter").hidden = false;
  $("filter").addEventListener("submit", (e) => e.preventDefault());
  for (const id of ["find", "show", "sort"]) $(id).addEventListener("input", show);
  $("all-rows").addEventListener("click", () => { all = true; show(); });
  addEventListener("beforeprint", () => { all = true; show(); });
  show();
}

// A cell of the grid of seeds shows which of its seeds failed, and how to reproduce the first.
function listenGrid() {
  const told = $("cell");
  if (!told) return;
  const first = BigInt(told.dataset.first), each = BigInt(told.dataset.each), last = BigInt(told.dataset.last);
  for (const svg of document.querySelectorAll(".heat tr[data-failed] .cells")) {
    const tr = svg.closest("tr"), columns = Number(svg.dataset.columns);
    let sum = 0n;
    const failed = tr.dataset.failed.split(" ").map((d) => sum += BigInt(d));
    const column = (seed) => Number((seed - first) / each);
    let at = column(failed[0]);
    const tell = () => {
      const from = first + BigInt(at) * each, to = from + each - 1n < last ? from + each - 1n : last;
      const mine = failed.filter((s) => s >= from && s <= to);
      const where = tr.querySelector("th").textContent.trim();
      let text = `${where}, ${from === to ? `seed ${from}` : `seeds ${from} to ${to}`}: `;
      text += mine.length ? (from === to ? "failed" : `failed: ${mine.slice(0, 20).join(", ")}${mine.length > 20 ? ` and ${mine.length - 20} more` : ""}`) : "no failure known";
      told.hidden = false;
      told.textContent = text + ". ";
      if (mine.length && tr.dataset.reproduce) {
        const code = document.createElement("code");
        code.textContent = tr.dataset.reproduce.replace("SEED", mine[0]);
        told.append(code);
      }
      for (const old of document.querySelectorAll(".cells .chosen")) old.remove();
      svg.insertAdjacentHTML("beforeend", `<rect class="chosen" x="${at}" width="1" height="1"/>`);
    };
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", svg.getAttribute("aria-label") + ". Arrow keys go from one to the next.");
    svg.addEventListener("click", (e) => {
      const box = svg.getBoundingClientRect();
      at = clamp(Math.floor((e.clientX - box.left) / box.width * columns), 0, columns - 1);
      tell();
    });
    svg.addEventListener("keydown", (e) => {
      const marks = [...new Set(failed.map(column))];
      const next = { ArrowRight: marks.find((c) => c > at), ArrowLeft: marks.findLast((c) => c < at), Home: marks[0], End: marks[marks.length - 1], Enter: at, " ": at };
      if (!(e.key in next)) return;
      e.preventDefault();
      if (next[e.key] !== undefined) at = next[e.key];
      tell();
    });
  }
}

listenTable();
listenGrid();
