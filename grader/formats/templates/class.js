"use strict";
const table = document.getElementById("heat"), body = table.tBodies[0], rows = [...body.rows];
const heads = [...table.tHead.rows[1].cells], filter = document.getElementById("filter");
const toggles = [...document.querySelectorAll("[data-word]")], count = document.getElementById("count");

// What a cell sorts by: a dash, which is no number, comes below 0.
const value = (row, column) => {
  const number = parseFloat(row.cells[column].textContent);
  return Number.isNaN(number) ? -1 : number;
};
const byName = new Intl.Collator(undefined, { numeric: true });
const name = (row) => row.cells[0].textContent;

function sort(column) {
  const was = heads[column].getAttribute("aria-sort");
  const up = was ? was === "descending" : column === 0;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  const sign = up ? 1 : -1;
  rows.sort((a, b) => sign * (column ? value(a, column) - value(b, column) : byName.compare(name(a), name(b))) || byName.compare(name(a), name(b)));
  body.append(...rows);
}

function show() {
  const text = filter.value.trim().toLowerCase();
  const words = toggles.filter((toggle) => toggle.getAttribute("aria-pressed") === "true").map((toggle) => toggle.dataset.word);
  let shown = 0;
  for (const row of rows) {
    const has = row.dataset.words.split(" ");
    row.hidden = !name(row).toLowerCase().includes(text) || !words.every((word) => has.includes(word));
    shown += !row.hidden;
  }
  count.textContent = `${shown} of ${rows.length}`;
}

heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));
filter.addEventListener("input", show);
toggles.forEach((toggle) => toggle.addEventListener("click", () => {
  toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
  show();
}));
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((item) => { item.open = true; }));
