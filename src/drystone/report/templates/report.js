"use strict";

// Theme: the system's, until the reader chooses; the choice is kept where the browser lets us.
const root = document.documentElement;
const theme = document.querySelector("button.theme");
const dark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const label = () => {
  theme.textContent = dark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
};
try {
  const kept = localStorage.getItem("drystone-theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
} catch {
  // Storage is closed to files in some browsers.
}
label();
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  label();
  try {
    localStorage.setItem("drystone-theme", root.dataset.theme);
  } catch {
    // As above.
  }
});

// Sorting: numbers from the largest first, words from A; what has no value stays at the end.
const key = (row, column) => row.cells[column].dataset.key ?? "";
const order = (column, numeric, sign) => (a, b) => {
  const [x, y] = [key(a, column), key(b, column)];
  if (x === "" || y === "") return (x === "") - (y === "");
  return sign * (numeric ? Number(x) - Number(y) || 0 : x.localeCompare(y, undefined, { numeric: true }));
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const first = numeric ? "descending" : "ascending";
      const now = head.getAttribute("aria-sort");
      const next = now === first ? (numeric ? "ascending" : "descending") : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", next);
      const rows = [...table.tBodies[0].rows];
      rows.sort(order(column, numeric, next === "ascending" ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}

// Search: every word must stand somewhere in the row, numbers aside: who types "maf 1" means a name.
for (const input of document.querySelectorAll("input[type=search]")) {
  const rows = [...document.getElementById(input.getAttribute("aria-controls")).tBodies[0].rows];
  const words = (row) => [...row.cells].filter((cell) => !cell.classList.contains("number"));
  const texts = rows.map((row) => words(row).map((cell) => cell.textContent.toLowerCase()).join(" "));
  const count = input.closest(".search").querySelector("output");
  input.closest(".search").hidden = false;
  input.addEventListener("input", () => {
    const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !asked.every((word) => texts[i].includes(word));
      shown += !row.hidden;
    });
    count.textContent = asked.length ? `${shown} of ${rows.length}` : "";
  });
}

// Legends: an entry switches its curves in its section on and off.
for (const entry of document.querySelectorAll("button.switch")) {
  const show = (on) => {
    entry.setAttribute("aria-pressed", on);
    for (const mark of entry.closest("section").querySelectorAll("svg [data-method]")) {
      if (mark.dataset.method === entry.dataset.method) mark.toggleAttribute("hidden", !on);
    }
  };
  entry.addEventListener("click", () => show(entry.getAttribute("aria-pressed") !== "true"));
  if (entry.getAttribute("aria-pressed") === "false") show(false);
}

// Printing: everything is opened, and closed again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});
