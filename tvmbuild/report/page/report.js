"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const overview = $("overview"), compare = $("compare"), matrix = $("matrix"), nav = $("nav");
  const sections = [...document.querySelectorAll("section.cell")];
  const titleOf = (section) => section.querySelector("h2").textContent;
  const keep = (name, value) => { try { sessionStorage.setItem(name, value); } catch { /* not allowed: not kept */ } };
  const kept = (name) => { try { return sessionStorage.getItem(name); } catch { return null; } };

  // Pages: the overview, one cell, or the comparison.

  let last = null;
  const open = () => {
    const id = location.hash.slice(1);
    const page = id === "compare" ? compare : sections.find((each) => each.id === id);
    overview.hidden = page !== undefined;
    compare.hidden = page !== compare;
    for (const each of sections) each.hidden = each !== page;
    document.documentElement.classList.toggle("paged", page !== undefined);
    document.title = page ? `${titleOf(page)} – tvmbuild report` : "tvmbuild report";
    fillNav(page);
    if (page === compare) showSides();
    if (page) {
      last = page === compare ? last : page.id;
      page.querySelector("h2").focus({preventScroll: true});
      scrollTo(0, 0);
    } else if (last && matrix) {
      focusCell(links().find((each) => each.hash === `#${last}`));
    }
  };
  const fillNav = (page) => {
    nav.hidden = false;
    nav.replaceChildren();
    const add = (text, hash) => nav.append(make("a", text, {href: hash}), " ");
    if (page) add("← Matrix", "#");
    const at = sections.indexOf(page);
    if (at > 0) add("Previous", `#${sections[at - 1].id}`);
    if (at >= 0 && at + 1 < sections.length) add("Next", `#${sections[at + 1].id}`);
    if (page !== compare && sections.length) {
      add("Compare", "#compare");
      if (at >= 0) nav.lastElementChild.addEventListener("click", () => { $("side0").value = titleOf(page); });
    }
  };

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

  // A page that its server made again is loaded again, at the same place.

  const watch = (stamp) => {
    setInterval(async () => {
      try {
        const answer = await fetch("/stamp", {cache: "no-store"});
        // Whoever writes into a field goes on writing: the next time will do.
        const writes = document.activeElement.tagName === "INPUT";
        if (answer.ok && (await answer.text()) !== stamp && !writes) location.reload();
        $("live").textContent = "live";
      } catch {
        $("live").textContent = "the server has ended: the page is as it was then";
      }
    }, 2000);
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !writes && matrix) {
      event.preventDefault();
      location.hash = "#";
      $("filter").focus();
    } else if (event.key === "Escape") {
      if (event.target === $("filter")) { $("filter").value = ""; filter(); focusCell(links().find((each) => each.tabIndex === 0)); }
      else if (!overview.hidden && writes) focusCell(links().find((each) => each.tabIndex === 0));
      else if (overview.hidden) location.hash = "#";
    }
  });
  if (sections.length) prepareSides();
  if (matrix) prepareMatrix();
  addEventListener("hashchange", open);
  open();
  const stamp = document.querySelector('meta[name="tvmbuild-stamp"]');
  if (stamp) watch(stamp.content);
})();
