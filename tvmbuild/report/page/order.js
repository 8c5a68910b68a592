// Filtering and sorting.

const filter = () => {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean), state = $("state").value;
  let count = 0;
  const columns = new Set();
  for (const row of matrix.tBodies[0].rows) {
    let some = false;
    for (const cell of row.cells) {
      if (cell.tagName === "TH") continue;
      const name = `${row.cells[0].textContent}@${matrix.rows[0].cells[cell.cellIndex].textContent}`.toLowerCase();
      const fits = words.every((word) => name.includes(word)) && (!state || cell.dataset.state === state) &&
        (cell.dataset.state !== undefined || (!words.length && !state));
      cell.classList.toggle("aside", !fits);
      if (fits) { some = true; columns.add(cell.cellIndex); count += cell.dataset.state !== undefined; }
    }
    row.hidden = !some;
  }
  for (const row of matrix.rows) {
    for (const cell of row.cells) cell.hidden = cell.cellIndex > 0 && !columns.has(cell.cellIndex);
  }
  say(`${count} of ${sections.length} shown`);
  if (!isShown((matrix.querySelector('[tabindex="0"]') || matrix).closest("td, th"))) setStop();
  keep("filter", $("filter").value);
  keep("state", state);
};
const setStop = () => {
  const stops = [...matrix.querySelectorAll("a, button")];
  for (const each of stops) each.tabIndex = -1;
  const first = stops.find((each) => each.tagName === "A" && isShown(each.closest("td")));
  if (first) first.tabIndex = 0;
};
const rowsOf = () => [...matrix.tBodies[0].rows];
const numbers = (row, name) => [...row.cells].map((cell) => parseFloat(cell.dataset[name])).filter(isFinite);
const RANK = ["failed", "slower", "unavailable", "not-built", "built"];
const ORDERS = [
  (row) => Number(row.dataset.at),
  (row) => row.cells[0].textContent,
  (row) => -Math.max(...numbers(row, "ms")),
  (row) => -Math.max(...numbers(row, "ratio")),
  (row) => Math.min(...numbers(row, "covered")),
  (row) => Math.min(...[...row.cells].map((cell) => (RANK.indexOf(cell.dataset.state) + 9) % 9)),
];
const sortBy = (key) => {
  const rows = rowsOf().map((row) => [key(row), row]);
  const at = ([, row]) => Number(row.dataset.at);
  rows.sort((one, two) => (one[0] < two[0] ? -1 : one[0] > two[0] ? 1 : at(one) - at(two)));
  matrix.tBodies[0].append(...rows.map(([, row]) => row));
};
const order = () => {
  for (const head of matrix.rows[0].cells) head.removeAttribute("aria-sort");
  sortBy(ORDERS[Number($("order").value)]);
  keep("order", $("order").value);
};
const sortColumn = (head) => {
  const falling = head.getAttribute("aria-sort") === "ascending", column = head.cellIndex;
  for (const each of matrix.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  sortBy((row) => {
    if (column === 0) return row.cells[0].textContent;
    const value = parseFloat(row.cells[column].dataset.ms);
    return isFinite(value) ? (falling ? -value : value) : Infinity;
  });
  if (column === 0 && falling) matrix.tBodies[0].append(...rowsOf().reverse());
};
const prepareMatrix = () => {
  matrix.setAttribute("role", "grid");
  for (const head of matrix.rows[0].cells) {
    const title = head.cellIndex ? "sort the models by their latency here" : "sort by name";
    const button = make("button", head.textContent, {type: "button", title, tabindex: "-1"});
    head.replaceChildren(button);
    button.addEventListener("click", () => sortColumn(head));
  }
  rowsOf().forEach((row, index) => { row.dataset.at = index; });
  for (const cell of matrix.querySelectorAll("td, th")) {
    if (cell.tagName === "TD") cell.setAttribute("role", "gridcell");
  }
  setStop();
  matrix.addEventListener("keydown", onKey);
  matrix.addEventListener("focusin", (event) => {
    const stop = event.target.closest("a, button");
    if (stop && stop.tabIndex !== 0) focusCell(stop);
  });
  $("controls").hidden = false;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["filter", "state", "order"]) {
    const value = kept(name);
    if (value !== null) $(name).value = value;
  }
  $("filter").addEventListener("input", filter);
  $("state").addEventListener("change", filter);
  $("order").addEventListener("change", order);
  order();
  filter();
};
