// Zoom and search in a flame graph. Text from the recording reaches the page through textContent and attributes only.
(function () {
  "use strict";
  const MARGIN = 10;
  const INDENT = 3;
  const SEARCHBAR = { width: 320, height: 22, top: 9, right: 106 };
  const XHTML = "http://www.w3.org/1999/xhtml";
  const svg = document.currentScript.ownerSVGElement;
  const byId = (id) => svg.querySelector("#" + id);
  const container = byId("frames");
  const details = byId("details");
  const unzoomButton = byId("unzoom");
  const searchButton = byId("search");
  const matched = byId("matched");
  const notes = byId("notes").textContent;
  const isFluid = container.getAttribute("fg:fluid") === "yes";

  // In the document a frame comes after the frame below it and, among its siblings, from left to right.
  const frames = Array.from(container.children, function (g) {
    const [title, rect, text] = g.children;
    const full = title.textContent;
    const end = full.lastIndexOf(" (");
    const name = full.slice(0, end);
    return {
      g, rect, text, name,
      figures: full.slice(end + 1),
      kind: g.getAttribute("fg:kind") || "",
      x: Number(rect.getAttribute("fg:x")),
      w: Number(rect.getAttribute("fg:w")),
      y: Number(rect.getAttribute("y")),
      isAscii: /^[\x20-\x7e]*$/.test(name),
      place: "",
      isMatch: false,
    };
  });
  const root = frames[0];
  const frameOf = new Map(frames.map((frame) => [frame.g, frame]));
  let zoomed = root;
  let search = null;
  let charWidth = 0;

  const contains = (outer, inner) => outer.x <= inner.x && inner.x + inner.w <= outer.x + outer.w;
  const isVisible = (frame) => frame.place !== "hide";
  const percent = (part, whole) => (100 * part / whole).toFixed(4) + "%";

  // Labels

  function measureChar() {
    const probe = root.text;
    const before = probe.textContent;
    const widths = ["!", "W"].map(function (char) {
      probe.textContent = char.repeat(50);
      return probe.getComputedTextLength() / 50;
    });
    probe.textContent = before;
    charWidth = Math.abs(widths[0] - widths[1]) < 0.01 ? widths[0] : 0;
  }

  function fitted(frame, room) {
    if (!frame.isAscii || charWidth === 0) return measured(frame, room);
    const chars = Math.floor(room / charWidth);
    if (frame.name.length <= chars) return frame.name;
    return chars < 3 ? "" : frame.name.slice(0, chars - 2) + "..";
  }

  // For names whose characters differ in width: the longest cut that fits, found by halving.
  function measured(frame, room) {
    const chars = Array.from(frame.name);
    const cut = (count) => (count === chars.length ? frame.name : chars.slice(0, count).join("") + "..");
    const fits = function (count) {
      frame.text.textContent = cut(count);
      return frame.text.getComputedTextLength() <= room;
    };
    if (room <= 0) return "";
    if (fits(chars.length)) return frame.name;
    let low = 0;
    let high = chars.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (fits(middle)) low = middle; else high = middle;
    }
    return low === 0 ? "" : cut(low);
  }

  // Zoom

  function placeOf(frame) {
    if (frame.y <= zoomed.y) return contains(zoomed, frame) ? "" : "hide";
    return contains(frame, zoomed) ? "parent" : "hide";
  }

  function paint(frame) {
    const names = [frame.place, frame.isMatch ? "match" : ""].filter(Boolean).join(" ");
    if (names !== (frame.g.getAttribute("class") || "")) frame.g.setAttribute("class", names);
  }

  function layOut() {
    const width = Number(container.getAttribute("width"));
    for (const frame of frames) {
      frame.place = placeOf(frame);
      paint(frame);
      if (!isVisible(frame)) continue;
      const isParent = frame.place === "parent";
      const x = isParent ? 0 : (frame.x - zoomed.x) / zoomed.w;
      frame.width = isParent ? width : width * frame.w / zoomed.w;
      frame.rect.setAttribute("x", percent(x, 1));
      frame.rect.setAttribute("width", percent(frame.width, width));
      frame.text.setAttribute("x", percent(x * width + INDENT, width));
    }
    for (const frame of frames) {
      if (!isVisible(frame)) continue;
      const label = fitted(frame, frame.width - 2 * INDENT);
      if (frame.text.textContent !== label) frame.text.textContent = label;
    }
  }

  function zoom(frame) {
    zoomed = frame;
    unzoomButton.classList.toggle("hide", frame === root);
    layOut();
    showMatched();
    remember();
  }

  // Search

  function matcher(term, ignoresCase) {
    const kind = /^kind:(\w+)$/.exec(term);
    if (kind) return (frame) => frame.kind === kind[1];
    const pattern = new RegExp(term, ignoresCase ? "i" : "");
    return (frame) => pattern.test(frame.name);
  }

  // An empty term ends the search; an invalid one is reported and leaves the picture as it is.
  function find(term, ignoresCase) {
    let matches;
    try {
      matches = matcher(term, ignoresCase);
    } catch (error) {
      searchbar.input.setAttribute("aria-invalid", "true");
      matched.textContent = error.message;
      return;
    }
    searchbar.input.removeAttribute("aria-invalid");
    search = term === "" ? null : { term, ignoresCase };
    for (const frame of frames) {
      frame.isMatch = search !== null && frame !== root && matches(frame);
      paint(frame);
    }
    searchButton.textContent = search ? "Reset Search" : "Search";
    showMatched();
    remember();
  }

  // Share of the zoomed frame's samples that lie in a match; in a match within a match they count once.
  function showMatched() {
    let sum = 0;
    let end = zoomed.x;
    for (const frame of frames) {
      if (!frame.isMatch || frame.place !== "" || frame.x < end) continue;
      sum += frame.w;
      end = frame.x + frame.w;
    }
    const share = (100 * sum / zoomed.w).toFixed(1).replace("100.0", "100");
    matched.textContent = search ? "Matched: " + share + "%" : "";
  }

  function element(name, attributes) {
    const made = document.createElementNS(XHTML, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function makeSearchbar() {
    const box = document.createElementNS(svg.namespaceURI, "foreignObject");
    box.setAttribute("id", "searchbar");
    box.setAttribute("class", "hide");
    box.setAttribute("y", SEARCHBAR.top);
    box.setAttribute("width", SEARCHBAR.width);
    box.setAttribute("height", SEARCHBAR.height);
    const row = element("div", {});
    const input = element("input", {
      type: "text", spellcheck: "false", autocomplete: "off",
      "aria-label": "Search frames", placeholder: "regular expression or kind:inlined",
    });
    const ignoreCase = element("button", {
      type: "button", "aria-pressed": "false", "aria-label": "Ignore case", title: "Ignore case",
    });
    ignoreCase.textContent = "aA";
    row.append(input, ignoreCase);
    box.append(row);
    svg.append(box);
    const run = () => find(input.value, ignoreCase.getAttribute("aria-pressed") === "true");
    input.addEventListener("input", run);
    input.addEventListener("keydown", function (event) {
      if (event.key === "Enter") input.blur();
    });
    ignoreCase.addEventListener("click", function () {
      ignoreCase.setAttribute("aria-pressed", String(ignoreCase.getAttribute("aria-pressed") !== "true"));
      run();
    });
    return { box, input, ignoreCase };
  }
  const searchbar = makeSearchbar();

  function openSearch() {
    searchbar.box.classList.remove("hide");
    searchbar.input.focus();
    searchbar.input.select();
  }

  function resetSearch() {
    searchbar.box.classList.add("hide");
    searchbar.input.value = "";
    find("", false);
  }

  // State in the address: the zoomed frame's fg:x and y as x and y, the search term as s, i=1 to ignore case

  function parameters() {
    return new URLSearchParams(location.search.length > 1 ? location.search : location.hash.slice(1));
  }

  function remember() {
    const params = parameters();
    for (const key of ["x", "y", "s", "i"]) params.delete(key);
    if (zoomed !== root) {
      params.set("x", zoomed.x);
      params.set("y", zoomed.y);
    }
    if (search) params.set("s", search.term);
    if (search && search.ignoresCase) params.set("i", "1");
    const text = params.toString();
    try {
      history.replaceState(null, "", location.href.replace(/[?#].*$/, "") + (text ? "?" + text : ""));
    } catch (error) {
      location.hash = text;
    }
  }

  function restore() {
    const params = parameters();
    const [x, y] = [params.get("x"), params.get("y")];
    const term = params.get("s") || "";
    zoom(frames.find((frame) => String(frame.x) === x && String(frame.y) === y) || root);
    if (term === "") return;
    searchbar.input.value = term;
    searchbar.ignoreCase.setAttribute("aria-pressed", String(params.get("i") === "1"));
    searchbar.box.classList.remove("hide");
    find(term, params.get("i") === "1");
  }

  // Details: the name is cut so that the figures stay in sight

  function describe(frame) {
    const kind = frame && frame !== root && frame.kind !== "native" ? " [" + frame.kind + "]" : "";
    const tail = frame ? " " + frame.figures + kind : "";
    const room = Number(container.getAttribute("width")) - matched.getComputedTextLength() - 2 * MARGIN;
    const chars = Math.max(0, Math.floor(room / (charWidth || 8)) - tail.length);
    const name = frame ? "Function: " + frame.name : notes;
    details.textContent = (name.length <= chars ? name : name.slice(0, Math.max(0, chars - 2)) + "..") + tail;
    details.classList.toggle("idle", !frame);
  }

  // Events

  const frameAt = (target) => frameOf.get(target.closest("#frames > g"));

  function neighbour(frame, key) {
    const level = { ArrowUp: -1, ArrowDown: 1 }[key] || 0;
    const row = frames.filter((other) => isVisible(other) && Math.sign(other.y - frame.y) === level);
    if (key === "ArrowDown") return row.filter((other) => contains(other, frame)).pop();
    if (key === "ArrowUp") {
      const above = row.filter((other) => contains(frame, other));
      const nearest = Math.max(...above.map((other) => other.y));
      return above.filter((other) => other.y === nearest).sort((a, b) => b.w - a.w)[0];
    }
    return row[row.indexOf(frame) + (key === "ArrowRight" ? 1 : -1)];
  }

  function focus(frame) {
    const before = container.querySelector('[tabindex="0"]');
    if (before) before.setAttribute("tabindex", "-1");
    frame.g.setAttribute("tabindex", "0");
    frame.g.focus({ preventScroll: false });
  }

  function keyOnFrame(event, frame) {
    if (event.key === "Enter" || event.key === " ") zoom(frame);
    else if (event.key.startsWith("Arrow")) focus(neighbour(frame, event.key) || frame);
    else return;
    event.preventDefault();
  }

  container.addEventListener("click", function (event) {
    const frame = frameAt(event.target);
    if (frame) zoom(frame);
  });
  container.addEventListener("keydown", function (event) {
    const frame = frameAt(event.target);
    if (frame && !event.ctrlKey && !event.altKey && !event.metaKey) keyOnFrame(event, frame);
  });
  container.addEventListener("mouseover", (event) => describe(frameAt(event.target)));
  container.addEventListener("mouseout", () => describe(null));
  // On the window, since Chromium takes an SVG element that listens for focus for a tab stop.
  window.addEventListener("focusin", (event) => describe(frameAt(event.target)));
  window.addEventListener("focusout", () => describe(null));

  const toggleSearch = () => (search ? resetSearch() : openSearch());
  const buttons = [[unzoomButton, () => zoom(root)], [searchButton, toggleSearch]];
  for (const [button, press] of buttons) {
    button.setAttribute("tabindex", "0");
    button.setAttribute("role", "button");
    button.addEventListener("click", press);
    button.addEventListener("keydown", function (event) {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      press();
    });
  }

  (svg === document.documentElement ? window : svg).addEventListener("keydown", function (event) {
    if (event.key === "F3" || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f")) {
      event.preventDefault();
      openSearch();
    } else if (event.key === "Escape") {
      if (!searchbar.box.classList.contains("hide")) resetSearch(); else zoom(root);
    }
  });

  // A picture without a width of its own follows the window.

  function resize() {
    const width = isFluid ? svg.getBoundingClientRect().width : svg.viewBox.baseVal.width;
    container.setAttribute("width", width - 2 * MARGIN);
    searchButton.setAttribute("x", width - MARGIN);
    matched.setAttribute("x", width - MARGIN);
    const bar = Math.min(SEARCHBAR.width, width - SEARCHBAR.right - MARGIN);
    searchbar.box.setAttribute("width", Math.max(0, bar));
    searchbar.box.setAttribute("x", Math.max(MARGIN, width - SEARCHBAR.right - bar));
  }

  if (isFluid) {
    svg.removeAttribute("width");
    svg.removeAttribute("viewBox");
    window.addEventListener("resize", function () {
      resize();
      layOut();
      describe(null);
    });
  }
  resize();
  measureChar();
  root.g.setAttribute("tabindex", "0");
  restore();
  describe(null);
})();
