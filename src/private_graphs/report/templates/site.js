// Tables: sort by a head, filter by dataset, protocol and words, hide the columns of a protocol. Commands: copy.
// Pages are whole without it.
"use strict";
const value = (cell) => {
  const text = (cell ? cell.textContent : "").trim();
  if (text === "∞" || text === "inf") return Infinity;
  const number = text.match(/^[^\d–-]{0,12}(-?\d[\d,]*\.?\d*(e[+-]?\d+)?)/i);
  return number ? parseFloat(number[1].replaceAll(",", "")) : text;
};
const order = (a, b) => {
  const [x, y] = [typeof a === "number", typeof b === "number"];
  if (x && y) return a === b ? 0 : a - b;
  return x ? -1 : y ? 1 : a.localeCompare(b);
};
const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
const button = (text, press) => {
  const made = make("button", text);
  made.type = "button";
  made.addEventListener("click", () => press(made));
  return made;
};
const heads = (table) => { // [head, number of its first column, group] of every column and group
  const [first, second] = table.tHead.rows, found = [];
  let place = 0, next = 0;
  for (const cell of first.cells) {
    if (cell.colSpan === 1) found.push([cell, place, cell.dataset.group]);
    for (let i = 0; cell.colSpan > 1 && i < cell.colSpan; i++) {
      found.push([second.cells[next++], place + i, cell.textContent, cell]);
    }
    place += cell.colSpan;
  }
  return found;
};
const sortable = (table) => {
  for (const [cell, place] of heads(table)) {
    const press = button("", () => {
      const up = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[place]), row]);
      rows.sort((a, b) => (up ? 1 : -1) * order(a[0], b[0]));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
    press.append(...cell.childNodes);
    cell.append(press);
  }
};
for (const panels of document.querySelectorAll(".tables")) {
  const tables = [...panels.querySelectorAll("table.sortable")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const wanted = { words: [] };
  const filter = () => {
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(wanted.words.every((word) => text.includes(word)) &&
        ["dataset", "protocol"].every((name) => !wanted[name] || row.dataset[name] === wanted[name]));
    }
    for (const table of tables) {
      table.closest(".scroll").hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
    }
  };
  const bar = document.createElement("div");
  bar.className = "bar";
  for (const name of ["dataset", "protocol"]) {
    const values = [...new Set(rows.map((row) => row.dataset[name]).filter(Boolean))];
    if (values.length < 2 || rows.length < 5) continue;
    const asked = new URLSearchParams(location.search).get(name);
    const all = [["all", ""], ...values.map((each) => [each, each])].map(([text, only]) => {
      const one = button(text, () => {
        wanted[name] = only;
        for (const other of all) other.setAttribute("aria-pressed", String(other === one));
        filter();
      });
      one.setAttribute("aria-pressed", String(!only));
      return one;
    });
    bar.append(make("span", name), ...all);
    if (values.includes(asked)) all[values.indexOf(asked) + 1].click();
  }
  const columns = tables.map(heads);
  const groups = [...new Set(columns.flat().map(([, , group]) => group).filter(Boolean))];
  if (groups.length > 1) bar.append(make("span", "columns"));
  for (const name of groups.length > 1 ? groups : []) {
    const show = button(name, () => {
      const hide = show.getAttribute("aria-pressed") === "true";
      show.setAttribute("aria-pressed", String(!hide));
      columns.forEach((found, i) => {
        for (const [head, place, group, above] of found.filter(([, , own]) => own === name)) {
          const cells = [...tables[i].tBodies[0].rows].map((row) => row.cells[place]);
          for (const cell of [head, above, ...cells]) cell?.classList.toggle("hidden", hide);
        }
      });
    });
    show.setAttribute("aria-pressed", "true");
    bar.append(show);
  }
  if (rows.length > 8) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = box.ariaLabel = "Rows with …";
    box.addEventListener("input", () => {
      wanted.words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      filter();
    });
    bar.append(box);
  }
  if (bar.childElementCount) panels.prepend(bar);
  tables.forEach(sortable);
}
for (const figure of document.querySelectorAll("figure")) { // a picture without a file can be saved too
  const svg = figure.querySelector("svg.chart");
  if (!svg || figure.querySelector('a[href$=".svg"]')) continue;
  const link = make("a", "SVG");
  link.className = "button";
  link.download = svg.querySelector("title").textContent.replace(/[^\w.-]+/g, "_") + ".svg";
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
  figure.append(link);
}
const wide = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    box.querySelector("caption")?.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
  }
};
wide();
addEventListener("resize", wide);
for (const line of document.querySelectorAll(".cmd")) {
  if (!navigator.clipboard) break;
  line.append(" ", button("copy", (press) => {
    navigator.clipboard.writeText(line.querySelector("code").textContent).then(() => { press.textContent = "copied"; });
  }));
}
for (const label of document.querySelectorAll("[data-finds]")) { // the search of the first page
  const list = document.getElementById(label.dataset.finds);
  label.hidden = false;
  label.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    list.open = words.length > 0;
    for (const item of list.querySelectorAll("li")) {
      const text = item.textContent.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
    }
  });
}
