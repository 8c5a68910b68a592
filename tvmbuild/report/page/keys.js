// The matrix: one stop of the Tab key, arrows within, as ARIA's pattern of a grid.

const links = () => [...matrix.querySelectorAll("tbody a")];
const isShown = (each) => each && !each.hidden && !each.closest("tr").hidden;
const focusCell = (link) => {
  if (!link) return;
  for (const each of matrix.querySelectorAll("[tabindex]")) each.tabIndex = -1;
  link.tabIndex = 0;
  link.focus();
};
const stopOf = (cell) => cell && cell.querySelector("a, button");
const move = (from, down, right) => {
  const rows = [...matrix.rows].filter((row) => !row.hidden);
  const cell = from.closest("td, th"), row = rows.indexOf(cell.parentElement);
  let y = row, x = cell.cellIndex;
  for (;;) {
    y += Math.sign(down); x += Math.sign(right);
    if (y < 0 || y >= rows.length || x < 0 || x >= rows[y].cells.length) return;
    const stop = stopOf(rows[y].cells[x]);
    if (stop && isShown(rows[y].cells[x])) { focusCell(stop); return; }
  }
};
const moveToEnd = (from, key, whole) => {
  const row = from.closest("tr");
  const among = whole ? links() : [...row.querySelectorAll("a, button")];
  const shown = among.filter((each) => isShown(each.closest("td, th")));
  focusCell(key === "Home" ? shown[0] : shown[shown.length - 1]);
};
const onKey = (event) => {
  const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  const stop = event.target.closest("a, button");
  if (!stop || event.altKey || event.metaKey) return;
  if (event.key in steps) move(stop, ...steps[event.key]);
  else if (event.key === "Home" || event.key === "End") moveToEnd(stop, event.key, event.ctrlKey);
  else if (event.key === "c" && !event.ctrlKey && stop.hash) choose(stop);
  else return;
  event.preventDefault();
};
const nameOf = (link) => titleOf(sections.find((each) => `#${each.id}` === link.hash));
const choose = (link) => {
  const first = matrix.querySelector("td.chosen a");
  if (first === link) { link.parentElement.classList.remove("chosen"); return say(""); }
  if (!first) {
    link.parentElement.classList.add("chosen");
    return say(`${nameOf(link)} is the first to compare: c on another`);
  }
  $("side0").value = nameOf(first);
  $("side1").value = nameOf(link);
  first.parentElement.classList.remove("chosen");
  say("");
  location.hash = "#compare";
};
const say = (text) => { $("shown").textContent = text; };
