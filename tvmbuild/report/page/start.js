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
