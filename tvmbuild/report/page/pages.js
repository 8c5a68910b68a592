// Helpers, and which page is shown. The files of this folder are one function: html_page.py joins them.

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
