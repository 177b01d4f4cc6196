// Tables: sort by a head, keep the rows that hold a word, hide a group of columns. Pages are whole without it.
"use strict";
const value = (cell) => {
  const text = (cell ? cell.dataset.value ?? cell.textContent : "").trim();
  if (text === "∞" || text === "inf") return Infinity;
  const number = text.match(/^[^\d–-]{0,12}(-?\d[\d,]*\.?\d*(e[+-]?\d+)?)/i);
  return number ? parseFloat(number[1].replaceAll(",", "")) : text;
};
const order = (a, b) => {
  const [x, y] = [typeof a === "number", typeof b === "number"];
  if (x && y) return a === b ? 0 : a - b;
  return x ? -1 : y ? 1 : a.localeCompare(b);
};
const sort = (body, place, sign) => {
  const rows = [...body.rows].map((row) => [value(row.cells[place]), row]);
  rows.sort((a, b) => sign * order(a[0], b[0]));
  body.append(...rows.map(([, row]) => row));
};
const button = (text, press) => {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => press(made));
  return made;
};
const heads = (table) => {
  const last = table.tHead.rows[table.tHead.rows.length - 1];
  const first = table.tHead.rows[0];
  const places = []; // of the head cells: one may span several columns or both rows
  let next = 0, place = 0;
  for (const cell of first.cells) {
    if (cell.colSpan === 1 && (cell.rowSpan > 1 || first === last)) places.push([cell, place]);
    else for (let i = 0; i < cell.colSpan; i++) places.push([last.cells[next++], place + i]);
    place += cell.colSpan;
  }
  return places;
};
const sortable = (table) => {
  for (const [cell, place] of heads(table)) {
    const text = cell.textContent;
    cell.textContent = "";
    cell.append(button(text, () => {
      const up = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      sort(table.tBodies[0], place, up ? 1 : -1);
    }));
  }
};
const groups = (table) => { // name, and all cells of the columns of a group
  const found = new Map();
  let place = 0;
  for (const cell of table.tHead.rows.length > 1 ? table.tHead.rows[0].cells : []) {
    const [from, to] = [place, place += cell.colSpan];
    if (cell.rowSpan > 1) continue;
    const below = heads(table).filter(([, at]) => at >= from && at < to).map(([head]) => head);
    const cells = [...table.tBodies[0].rows].flatMap((row) => [...row.cells].slice(from, to));
    found.set(cell.textContent, [cell, ...below, ...cells]);
  }
  return found;
};
for (const panels of document.querySelectorAll(".tables")) {
  const tables = [...panels.querySelectorAll("table.sortable")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const columns = tables.map(groups);
  const bar = document.createElement("div");
  bar.className = "bar";
  if (rows.length > 8) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = box.ariaLabel = "Rows with …";
    box.addEventListener("input", () => {
      const wanted = box.value.toLowerCase().split(/\s+/);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
      }
    });
    bar.append(box);
  }
  for (const name of new Set(columns.flatMap((found) => [...found.keys()]))) {
    const show = button(name, () => {
      const hide = show.getAttribute("aria-pressed") === "true";
      show.setAttribute("aria-pressed", String(!hide));
      for (const found of columns) {
        for (const cell of found.get(name) ?? []) cell.classList.toggle("hidden", hide);
      }
    });
    show.setAttribute("aria-pressed", "true");
    bar.append(show);
  }
  if (bar.childElementCount) panels.prepend(bar);
  tables.forEach(sortable);
}
