// Results: show the recorded ones or the reader's own run. Tables: sort by a head, filter by dataset, protocol and
// words, hide the columns of a protocol. Commands: copy. Pages are whole without it.
"use strict";
const asked = new URLSearchParams(location.search);
const remember = (name, value) => { // keep a choice in the address, from disk too
  const there = new URL(location.href);
  if (value) there.searchParams.set(name, value);
  else there.searchParams.delete(name);
  history.replaceState(null, "", there);
};
const value = (cell) => { // a number, words, or null where there is none
  const text = (cell ? cell.textContent : "").trim();
  if (["", "–", "none", "not run"].includes(text)) return null;
  if (text === "∞" || text === "inf") return Infinity;
  const number = text.match(/^[^\d–-]{0,12}(-?\d*\.?\d[\d,]*\.?\d*(e[+-]?\d+)?)/i);
  return number ? parseFloat(number[1].replaceAll(",", "")) : text;
};
const order = (a, b, up) => { // missing values are last, in both directions
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const [x, y] = [typeof a === "number", typeof b === "number"];
  const least = x && y ? (a === b ? 0 : a - b) : x ? -1 : y ? 1 : a.localeCompare(b);
  return up ? least : -least;
};
const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
const button = (text, press) => {
  const made = make("button", text);
  made.type = "button";
  made.addEventListener("click", () => press(made));
  return made;
};
const rowsOf = (table) => [...table.querySelectorAll(":scope > tbody > tr:not(.head)")]; // without headings of groups
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
const stack = (table, columns) => { // cards on a phone: every cell says its column
  table.classList.add("stacked");
  for (const row of rowsOf(table)) {
    for (const [head, place, group] of columns) {
      const cell = row.cells[place];
      cell?.classList.toggle("blank", ["–", ""].includes(cell.textContent.trim()));
      if (!cell || cell.dataset.head) continue; // the page itself said it
      if (cell.matches("th") && !/^\d/.test(cell.textContent)) continue; // a name needs no head
      const small = head.querySelector("small")?.textContent ?? ""; // what the lines of a cell are
      const name = head.textContent.slice(0, head.textContent.length - small.length);
      cell.dataset.head = [...new Set([group, name, small])].filter(Boolean).join(" ");
    }
  }
};
const sortable = (table) => {
  for (const [cell, place] of heads(table)) {
    const press = button("", () => {
      const up = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = rowsOf(table).map((row) => [value(row.cells[place]), row]);
      rows.sort((a, b) => order(a[0], b[0], up));
      for (const [, row] of rows) row.parentElement.append(row); // each in its group
    });
    press.append(...cell.childNodes);
    cell.append(press);
  }
};
for (const panels of document.querySelectorAll(".tables")) {
  const tables = [...panels.querySelectorAll("table.sortable")];
  const rows = tables.flatMap(rowsOf);
  const columns = tables.map(heads);
  const place = (table, name) => columns[tables.indexOf(table)].find(([head, , group]) => !group && head.textContent === name)?.[1];
  const of = (row, name) => { // what the row or its table says, else the cell below that head
    const table = row.closest("table");
    return row.dataset[name] ?? table.dataset[name] ?? row.cells[place(table, name)]?.textContent;
  };
  const wanted = { words: [] };
  const filter = () => {
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(wanted.words.every((word) => text.includes(word)) &&
        ["dataset", "protocol"].every((name) => !wanted[name] || of(row, name) === wanted[name]));
    }
    for (const table of tables) {
      const panel = table.closest(".panel");
      const none = rowsOf(table).every((row) => row.hidden);
      for (const group of table.tBodies) group.hidden = rowsOf(table).every((row) => row.hidden || row.parentElement !== group);
      (panel ?? table.closest(".scroll")).hidden = none;
      if (panel && wanted.words.length) panel.open = !none;
    }
  };
  const bar = document.createElement("div");
  bar.className = "bar";
  for (const name of ["dataset", "protocol"]) {
    const values = [...new Set(rows.map((row) => of(row, name)).filter(Boolean))];
    if (values.length < 2 || rows.length < 5) continue;
    const all = [["all", ""], ...values.map((each) => [each, each])].map(([text, only]) => {
      const one = button(text, () => {
        wanted[name] = only;
        remember(name, only);
        for (const other of all) other.setAttribute("aria-pressed", String(other === one));
        filter();
      });
      one.setAttribute("aria-pressed", String(!only));
      return one;
    });
    bar.append(make("span", name), ...all);
    if (values.includes(asked.get(name))) all[values.indexOf(asked.get(name)) + 1].click();
  }
  const groups = [...new Set(columns.flat().map(([, , group]) => group).filter(Boolean))];
  if (groups.length > 1) bar.append(make("span", "columns"));
  for (const name of groups.length > 1 ? groups : []) {
    const show = button(name, () => {
      const hide = show.getAttribute("aria-pressed") === "true";
      show.setAttribute("aria-pressed", String(!hide));
      columns.forEach((found, i) => {
        for (const [head, place, group, above] of found.filter(([, , own]) => own === name)) {
          const cells = rowsOf(tables[i]).map((row) => row.cells[place]);
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
    const search = () => {
      wanted.words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      filter();
    };
    box.addEventListener("input", () => {
      search();
      remember("rows", box.value);
    });
    box.value = asked.get("rows") ?? "";
    if (box.value) search();
    bar.append(box);
  }
  if (bar.childElementCount) panels.prepend(bar);
  tables.forEach((table, i) => {
    if (columns[i].length > 4) stack(table, columns[i]);
    sortable(table);
  });
}
for (const figure of document.querySelectorAll("figure")) { // a picture without a file can be saved too
  const svg = figure.querySelector("svg.chart");
  if (!svg || figure.querySelector('a[href$=".svg"]')) continue;
  const link = make("a", "SVG");
  link.className = "button";
  link.download = svg.querySelector("title").textContent.replace(/[^\w.-]+/g, "_") + ".svg";
  const rules = [...document.querySelectorAll("svg style")].map((each) => each.textContent).join(""); // pictures share them
  const text = new XMLSerializer().serializeToString(svg).replace(/(<style[^>]*>)[^<]*/, (_, head) => head + rules);
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  (figure.querySelector(".files") ?? figure).append(" ", link);
}
document.addEventListener("click", ({ target }) => { // a mark of a picture leads to the statement of its numbers
  const mark = target.closest("[data-statement]");
  if (!mark) return;
  const [page, place] = mark.dataset.statement.split("#");
  location.href = `${mark.closest("svg").dataset.pages.split(" ")[page]}#${place}`;
});
const wide = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    box.querySelector("caption")?.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
  }
};
wide();
addEventListener("resize", wide);
addEventListener("toggle", wide, true);
for (const line of document.querySelectorAll(".cmd")) {
  if (!navigator.clipboard) break;
  line.append(" ", button("copy", (press) => {
    navigator.clipboard.writeText(line.querySelector("code").textContent).then(() => { press.textContent = "copied"; });
  }));
}
const hits = document.getElementById("hits");
if (hits && typeof INDEX !== "undefined") { // the page of the search
  const query = (asked.get("q") ?? "").toLowerCase().trim();
  const letters = { epsilon: "ε", delta: "δ", sigma: "σ" }; // pages have the letters
  const words = (query.match(/[\p{L}\p{N}-]+/gu) ?? []).map((word) => letters[word] ?? word);
  document.querySelector(".doors input").value = asked.get("q") ?? "";
  const known = Object.entries(INDEX.words);
  let found = words.length ? new Map(INDEX.pages.map((_, page) => [page, 0])) : new Map();
  for (const word of words) { // a page has every word, or a word that begins with it
    const scores = new Map();
    for (const [name, pages] of known.filter(([name]) => name.startsWith(word))) {
      let page = 0;
      for (const step of pages) scores.set(page += step, Math.max(scores.get(page) ?? 0, name === word ? 2 : 1));
    }
    const weight = (page) => (INDEX.pages[page][1].toLowerCase().includes(word) ? 8 : 0)
      + (INDEX.pages[page][2].toLowerCase().includes(word) ? 2 : 0);
    found = new Map([...found].filter(([page]) => scores.has(page))
      .map(([page, score]) => [page, score + scores.get(page) + weight(page)]));
  }
  for (const [page, score] of found) if (INDEX.pages[page][1].toLowerCase().includes(query)) found.set(page, score + 8);
  const best = [...found].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  for (const [page] of best.slice(0, 50)) {
    const [address, title, lead, kind] = INDEX.pages[page];
    const item = make("li", "");
    const link = make("a", title);
    link.href = `../${address}`;
    item.append(link, make("small", ` ${kind}`), make("p", lead));
    hits.append(item);
  }
  document.getElementById("found").textContent = !words.length ? "Type words above, and press Enter."
    : best.length ? `${best.length} ${best.length === 1 ? "page has" : "pages have"} “${asked.get("q")}”`
      + (best.length > 50 ? ", the first 50:" : ":")
    : `No page has “${asked.get("q")}”. Try fewer words, or the beginning of one.`;
}
const sets = [...document.querySelectorAll("[data-results]")];
const links = [...document.querySelectorAll("a[href]")].filter((link) =>
  link.protocol === location.protocol && link.pathname.endsWith(".html") && !link.search.includes("results="));
const buttons = [...document.querySelectorAll("[data-show]")];
const show = (name) => { // where a page lacks the results asked for, it shows those that it has
  const there = new Set(sets.map((each) => each.dataset.results));
  const shown = there.has(name) ? name : buttons.map((each) => each.dataset.show).find((each) => there.has(each));
  for (const each of sets) {
    each.hidden = each.dataset.results !== shown;
    if (each.tagName === "DETAILS") each.open = !each.hidden;
  }
  for (const each of buttons) {
    each.setAttribute("aria-pressed", String(each.dataset.show === shown));
    each.disabled = !there.has(each.dataset.show);
  }
  for (const link of links) {
    const to = new URL(link.href);
    if (name === buttons[0].dataset.show) to.searchParams.delete("results");
    else to.searchParams.set("results", name);
    link.href = to;
  }
};
if (buttons.length && sets.length) {
  document.documentElement.classList.add("switched");
  buttons[0].parentElement.hidden = false;
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  show(target?.closest("[data-results]")?.dataset.results ?? asked.get("results") ?? buttons[0].dataset.show);
  target?.scrollIntoView();
  for (const each of buttons) {
    each.addEventListener("click", () => {
      remember("results", each === buttons[0] ? "" : each.dataset.show);
      show(each.dataset.show);
      wide();
    });
  }
} else if (buttons.length && asked.get("results")) show(asked.get("results"));
const reveal = () => { // unfold what the address names
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target?.closest("details:not([data-results])"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  target?.scrollIntoView();
};
addEventListener("hashchange", reveal);
if (location.hash) reveal();
