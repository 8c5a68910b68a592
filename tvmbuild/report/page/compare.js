// Comparing: a cell is its facts, an earlier run of it is a row of its runs.

const list = new Map();
const read = (section) => {
  const facts = new Map();
  for (const row of section.querySelectorAll(".facts tr")) {
    const written = row.cells[1].dataset.ends, ends = written ? written.split(" ").map(Number) : null;
    facts.set(row.cells[0].textContent, {text: row.cells[1].textContent, ends});
  }
  return facts;
};
const parseEnds = (text) => {
  const found = /^([\d.]+) \[([\d.]+), ([\d.]+)\]$/.exec(text);
  return found ? found.slice(1).map(Number) : null;
};
const prepareSides = () => {
  for (const section of sections) {
    list.set(titleOf(section), () => read(section));
    const runs = section.querySelector(".runs table");
    if (!runs) continue;
    const heads = [...runs.tHead.rows[0].cells].map((cell) => cell.textContent);
    for (const row of runs.tBodies[0].rows) {
      list.set(`${titleOf(section)}, run of ${row.cells[0].textContent}`, () => {
        const whole = read(section), facts = new Map();
        for (const name of ["machine", "threads"]) if (whole.has(name)) facts.set(name, whole.get(name));
        heads.forEach((name, index) => {
          const text = row.cells[index].textContent;
          facts.set(name, {text, ends: parseEnds(text)});
        });
        return facts;
      });
    }
  }
  for (const id of ["side0", "side1"]) {
    $(id).append(...[...list.keys()].map((name) => make("option", name, {value: name})));
    $(id).addEventListener("change", showSides);
  }
  const before = JSON.parse(kept("sides") || "[]");
  $("side1").value = titleOf(sections[Math.min(1, sections.length - 1)]);
  before.forEach((name, index) => { if (list.has(name)) $(`side${index}`).value = name; });
  $("swap").addEventListener("click", () => {
    [$("side0").value, $("side1").value] = [$("side1").value, $("side0").value];
    showSides();
  });
};
const divide = (one, two) => {
  // As tvmbuild does for two measurements that were not made in turns: both intervals count, on logarithms.
  const [a, b] = [one, two].map((ends) => ends.map(Math.log));
  const middle = a[0] - b[0];
  const low = middle - Math.hypot(a[0] - a[1], b[2] - b[0]), high = middle + Math.hypot(a[2] - a[0], b[0] - b[1]);
  return [middle, low, high].map(Math.exp);
};
const describe = (one, two, comparable) => {
  if (!one || !two || one.text === "-" || two.text === "-") return "only one has it";
  if (one.ends && two.ends) {
    if (!comparable) return "not comparable: another machine or other threads";
    const ratio = divide(one.ends, two.ends), digits = ratio.map((each) => each.toFixed(3));
    const said = ratio[2] < 1 ? "the first is less" : ratio[1] > 1 ? "the first is more" : "no difference";
    return `${digits[0]} [${digits[1]}, ${digits[2]}]: ${said}`;
  }
  return one.text === two.text ? "equal" : "differs";
};
const showSides = () => {
  const names = [$("side0").value, $("side1").value];
  if (!names.every((name) => list.has(name))) return;
  keep("sides", JSON.stringify(names));
  const [one, two] = names.map((name) => list.get(name)());
  const text = (side, name) => (side.has(name) ? side.get(name).text : "-");
  // The machine's load and temperature follow its name: they are the moment's, and no other machine.
  const machine = (side) => text(side, "machine").split(", ").slice(0, 2).join() + text(side, "threads");
  const comparable = machine(one) === machine(two);
  const table = make("table", undefined, {class: "facts"});
  const head = table.createTHead().insertRow();
  for (const name of ["", ...names, "first over second"]) head.append(make("th", name, {scope: "col"}));
  const body = table.createTBody();
  for (const name of new Set([...one.keys(), ...two.keys()])) {
    const row = body.insertRow(), told = describe(one.get(name), two.get(name), comparable);
    row.className = told === "equal" ? "" : "unlike";
    row.append(make("th", name, {scope: "row"}));
    for (const cell of [text(one, name), text(two, name), told]) row.append(make("td", cell));
  }
  $("sides").replaceChildren(table);
};
