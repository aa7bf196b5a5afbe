// Replaces the page's main part when the server says that something changed, and has the keys of
// the search. Without this script the page works the same, and is up to date when it is loaded.
"use strict";
(() => {
  const search = document.getElementById("search");

  // "/" goes to the search, Escape leaves it.
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search?.focus();
      search?.select();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.blur();
    }
  });

  const main = document.querySelector("main[data-live]");
  if (!main || !window.EventSource) return;
  const state = document.getElementById("connection");
  let source = null;
  let stale = false;
  let busy = false;
  let shown = main.innerHTML.trim(); // as the server sent it
  let alerted = [...main.querySelectorAll("[role=alert]")].map((one) => one.textContent);

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  // What a person is typing into is never replaced.
  const editing = () => {
    const active = document.activeElement;
    return active && main.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
  };

  // Whether a person has changed a field, and not sent it yet.
  const changed = (one) => one.tagName === "SELECT"
    ? [...one.options].some((option) => option.selected !== option.defaultSelected && (option.selected || option.defaultSelected))
    : one.value !== one.defaultValue || one.checked !== one.defaultChecked;

  async function refresh() {
    if (busy || editing()) { stale = true; return; }
    busy = true;
    stale = false;
    try {
      const answer = await fetch(location.href, { headers: { "X-Fragment": "main" } });
      const isPage = answer.ok || answer.status === 404; // 404: what it was about is gone
      if (isPage && !editing()) replace(await answer.text());
      if (answer.status === 403) say("This page's session has ended; start copyrator ui again.");
      else say(isPage ? "Live" : "Not up to date: an update failed.");
    } catch {
      say("copyrator ui isn't running any more.");
    } finally {
      busy = false;
      if (stale) setTimeout(refresh, 1000);
    }
  }

  function replace(html) {
    const next = document.createElement("template");
    next.innerHTML = html;
    const content = next.innerHTML.trim();
    if (content === shown) return; // nothing changed: a selection of text stays, say
    shown = content;
    const focused = document.activeElement && main.contains(document.activeElement)
      ? document.activeElement.id : "";
    const scrolled = [...main.querySelectorAll("[data-scroll]")].map((one) => [one.scrollLeft, one.scrollTop]);
    const opened = [...main.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
    const written = [...main.querySelectorAll("input[id], select[id], textarea[id]")]
      .filter(changed).map((one) => [one.id, one.value, one.checked]);
    const alerts = [...next.content.querySelectorAll("[role=alert]")];
    // A screen reader says an alert when it appears, not with each update.
    alerts.forEach((one) => { if (alerted.includes(one.textContent)) one.removeAttribute("role"); });
    main.replaceChildren(next.content);
    alerted = alerts.map((one) => one.textContent);
    written.forEach(([id, value, checked]) => {
      const one = document.getElementById(id);
      if (one) { one.value = value; one.checked = checked; }
    });
    opened.forEach(([id, open]) => { const one = document.getElementById(id); if (one) one.open = open; });
    main.querySelectorAll("[data-scroll]").forEach((one, index) => {
      if (scrolled[index]) [one.scrollLeft, one.scrollTop] = scrolled[index];
    });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function open() {
    source = new EventSource("/events");
    source.addEventListener("changed", refresh);
    source.onopen = () => {
      if (editing()) say("Live"); // what has changed is shown once the field is left
      refresh();
    };
    source.onerror = () => say("Not connected; trying again.");
  }

  // A hidden tab needs no connection: browsers allow six for each server, in all tabs together.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; }
    else if (!source) open();
  });
  document.addEventListener("focusout", () => { if (stale) setTimeout(refresh, 200); });
  if (!document.hidden) open();
})();
