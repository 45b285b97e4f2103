// What the page does beyond its HTML: it lays the stages out as a graph, shows one stage at a time,
// and draws the versions. Texts of the store are in the HTML; here are places and numbers, and what
// is put into the page is put there as text.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("has-script");
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const nodes = [...document.querySelectorAll(".node")];
  const names = nodes.map((node) => node.querySelector(".node-name").textContent);
  const sections = [...document.querySelectorAll(".stage")];
  const svgElement = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);

  // --- The graph -------------------------------------------------------------------------------
  const NODE = { width: 228, height: 78 };
  const NARROW = 640; // pixels: below it the stages are a list, else a graph that goes to the right
  const LIST = { margin: 34, end: 12, gap: 14, lane: 9, lanes: 4 };
  const PAPER = 680; // pixels: what there is room for on a sheet
  const SCALES = { least: 0.3, most: 1.6, legible: 0.6 };
  const graph = byId("graph");
  const canvas = byId("canvas");
  let drawn = { width: 0, height: 0, isDown: null };
  let scale = 1;

  /** A curve through the points that the layout gives an edge. */
  function path(points) {
    const at = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
    let text = `M${at(points[0])}`;
    for (let i = 1; i < points.length - 1; i++) {
      const next = points[i + 1];
      const isLast = i === points.length - 2;
      const to = isLast ? next : { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 };
      text += `Q${at(points[i])} ${at(to)}`;
    }
    return points.length > 2 ? text : `${text}L${at(points.at(-1))}`;
  }

  /** On a narrow page: one stage below the other, as wide as it is, and edges in the margin. */
  function drawList() {
    const width = graph.clientWidth - LIST.margin - LIST.end;
    const top = (place) => LIST.end + place * (NODE.height + LIST.gap);
    nodes.forEach((node, place) => {
      node.style.left = `${LIST.margin}px`;
      node.style.top = `${top(place)}px`;
      node.style.width = `${width}px`;
    });
    drawEdges((from, to) => {
      const [start, end] = [top(from) + NODE.height * 0.7, top(to) + NODE.height * 0.3];
      const x = LIST.margin - LIST.lane * Math.min(LIST.lanes, to - from + 1);
      return `M${LIST.margin} ${start}C${x} ${start} ${x} ${end} ${LIST.margin} ${end}`;
    });
    drawn = { width: graph.clientWidth, height: top(nodes.length - 1) + NODE.height + LIST.end, isDown: true };
  }

  function drawEdges(pathOf) {
    const svg = byId("edges");
    svg.querySelectorAll(".edge").forEach((edge) => edge.remove());
    for (const [from, to] of data.edges) {
      const edge = svgElement("path");
      edge.setAttribute("class", "edge");
      edge.setAttribute("d", pathOf(from, to));
      edge.dataset.from = from;
      edge.dataset.to = to;
      svg.append(edge);
    }
  }

  function drawGraph() {
    const layout = new dagre.graphlib.Graph();
    layout.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 60, marginx: 14, marginy: 14 });
    layout.setDefaultEdgeLabel(() => ({}));
    nodes.forEach((_, place) => layout.setNode(String(place), { ...NODE }));
    data.edges.forEach(([from, to]) => layout.setEdge(String(from), String(to)));
    dagre.layout(layout);
    nodes.forEach((node, place) => {
      const { x, y } = layout.node(String(place));
      node.style.left = `${x - NODE.width / 2}px`;
      node.style.top = `${y - NODE.height / 2}px`;
      node.style.width = `${NODE.width}px`;
    });
    /** The middle of the side of a stage where edges leave it, or come in. */
    const side = (place, sign) => {
      const { x, y } = layout.node(String(place));
      return { x: x + (sign * NODE.width) / 2, y };
    };
    drawEdges((from, to) => {
      const inner = layout.edge(String(from), String(to)).points.slice(1, -1);
      return path([side(from, 1), ...inner, side(to, -1)]);
    });
    const { width, height } = layout.graph();
    drawn = { width, height, isDown: false };
  }

  function draw(isDown) {
    canvas.classList.add("is-drawn");
    if (isDown) drawList();
    else drawGraph();
    byId("edges").setAttribute("width", drawn.width);
    byId("edges").setAttribute("height", drawn.height);
  }

  function zoom(wanted, least = SCALES.least) {
    scale = Math.min(SCALES.most, Math.max(least, wanted));
    const height = Math.ceil(drawn.height * scale);
    canvas.style.transform = `scale(${scale})`;
    canvas.style.width = `${drawn.width}px`;
    canvas.style.height = `${drawn.height}px`;
    // What is scaled keeps its room in the page, so the rest of it is taken back.
    canvas.style.marginRight = `${Math.floor(drawn.width * (scale - 1))}px`;
    canvas.style.marginBottom = `${height - drawn.height}px`;
  }

  const fit = () => zoom(drawn.isDown ? 1 : Math.min(1, Math.max(SCALES.legible, graph.clientWidth / drawn.width)));

  function redraw() {
    const isDown = graph.clientWidth < NARROW;
    if (isDown === drawn.isDown && (!isDown || graph.clientWidth === drawn.width)) return;
    draw(isDown);
    fit();
    mark();
    reveal(selected);
  }

  /** Brings a stage to the middle of the graph's own window. */
  function reveal(place) {
    const { offsetLeft, offsetTop } = nodes[place];
    graph.scrollTo({
      left: (offsetLeft + NODE.width / 2) * scale - graph.clientWidth / 2,
      top: (offsetTop + NODE.height / 2) * scale - graph.clientHeight / 2,
      behavior: "instant",
    });
  }

  // --- The selected stage ----------------------------------------------------------------------
  const readers = nodes.map(() => []);
  const feeders = nodes.map(() => []);
  for (const [from, to] of data.edges) {
    readers[from].push(to);
    feeders[to].push(from);
  }
  let selected = Math.max(0, nodes.findLastIndex((node) => node.dataset.changed !== "0"));

  /** All stages that one reaches by some steps, itself among them. */
  function reached(start, next) {
    const found = new Set([start]);
    for (const place of found) next[place].forEach((one) => found.add(one));
    return found;
  }

  function mark() {
    const up = reached(selected, feeders);
    const down = reached(selected, readers);
    nodes.forEach((node, place) => {
      node.classList.toggle("is-related", up.has(place) || down.has(place));
      if (place === selected) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
      sections[place].classList.toggle("is-selected", place === selected);
    });
    document.querySelectorAll(".edge").forEach(({ classList, dataset }) => {
      const from = Number(dataset.from);
      const to = Number(dataset.to);
      classList.toggle("is-related", (up.has(from) && up.has(to)) || (down.has(from) && down.has(to)));
    });
  }

  function follow() {
    const found = /^#(stage|node)-(\d+)$/.exec(location.hash);
    const place = found ? Number(found[2]) : -1;
    if (!(place in nodes)) return;
    selected = place;
    mark();
    if (!nodes[place].matches(":hover")) reveal(place);
    const target = found[1] === "node" ? nodes[place] : sections[place].querySelector("h3");
    target.focus({ preventScroll: true });
    const { top, bottom } = target.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) target.scrollIntoView({ block: found[1] === "node" ? "center" : "start" });
  }

  function find(text) {
    const wanted = text.trim().toLowerCase();
    const hits = names.map((name) => name.toLowerCase().includes(wanted));
    nodes.forEach((node, place) => node.classList.toggle("is-dim", !hits[place]));
    byId("found").textContent = wanted ? `${hits.filter(Boolean).length} of ${nodes.length}` : "";
    document.querySelectorAll("#stage-table tbody tr").forEach((row, place) => (row.hidden = !hits[place]));
    return hits.indexOf(true);
  }

  if (nodes.length) {
    redraw();
    mark();
    follow();
    addEventListener("hashchange", follow);
    // A link to the stage that is shown already changes no address.
    document.querySelectorAll('a[href^="#stage-"], a[href^="#node-"]').forEach((link) =>
      link.addEventListener("click", () => link.getAttribute("href") === location.hash && follow()));
    new ResizeObserver(redraw).observe(graph);
    byId("zoom-in").addEventListener("click", () => zoom(scale * 1.25));
    byId("zoom-out").addEventListener("click", () => zoom(scale / 1.25));
    byId("zoom-fit").addEventListener("click", () => zoom(Math.min(1, graph.clientWidth / drawn.width)));
    addEventListener("beforeprint", () => zoom(Math.min(1, PAPER / drawn.width), 0));
    addEventListener("afterprint", fit);
    byId("find").addEventListener("input", (event) => find(event.target.value));
    byId("find").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const place = find(event.target.value);
      if (place >= 0) location.hash = `#stage-${place}`;
    });
  }

  // What a value is of, where there is no room for the heads of columns.
  document.querySelectorAll("table").forEach((table) => {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    table.querySelectorAll("tbody tr").forEach((row) => [...row.cells].forEach((cell, place) => (cell.dataset.of = heads[place])));
  });

  // --- The versions ----------------------------------------------------------------------------
  const versions = data.versions;
  const count = versions.number.length;
  if (!count) return;
  const HEIGHT = 130;
  const MARKS = 40; // more of them are short, and have no words
  const whole = new Intl.NumberFormat("en");
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const digits = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  const utc = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const isMarked = versions.operation.map((operation) => operation !== "update");
  const charts = byId("charts");
  const state = { byTime: false, isLog: false, place: Math.max(0, versions.number.indexOf(data.chosen)) };
  let plots = [];

  function read(place) {
    state.place = place;
    const id = versions.update_id[place];
    byId("reading").textContent = [
      `Version ${whole.format(versions.number[place])}`,
      versions.operation[place] + (id && ` ${id}`),
      utc(versions.committed_at[place]),
      `${whole.format(versions.changed_keys[place])} of ${whole.format(versions.affected_keys[place])} keys changed`,
      `${whole.format(versions.rows[place])} rows`,
      `${digits.format(versions.seconds[place])} s`,
    ].join(" · ");
  }

  /** Dashed lines where versions are that are no updates; short ones at the top if they are many. */
  function drawMarks(plot, colours, hasWords) {
    const { ctx, bbox } = plot;
    const marked = isMarked.flatMap((is, place) => (is ? [place] : []));
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colours.mark;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    const length = marked.length <= MARKS ? bbox.height : 5 * devicePixelRatio;
    let free = -Infinity;
    for (const place of marked) {
      const x = plot.valToPos(plot.data[0][place], "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + length);
      ctx.stroke();
      const word = versions.operation[place];
      const start = Math.min(x + 4 * devicePixelRatio, bbox.left + bbox.width - ctx.measureText(word).width);
      if (hasWords && marked.length <= MARKS && start > free) {
        const base = bbox.top + 10 * devicePixelRatio;
        ctx.save();
        ctx.setLineDash([]);
        ctx.strokeStyle = colours.surface;
        ctx.lineWidth = 4 * devicePixelRatio;
        ctx.strokeText(word, start, base);
        ctx.restore();
        ctx.fillText(word, start, base);
        free = start + ctx.measureText(word).width + 6 * devicePixelRatio;
      }
    }
    ctx.restore();
  }

  /** Nought and powers of ten times the least one, up to some number: five of them at most. */
  function powers(least, to) {
    const exponents = Math.max(0, Math.floor(Math.log10(to / least)));
    const apart = Math.ceil((exponents + 1) / 4);
    const found = [0];
    for (let exponent = 0; exponent <= exponents; exponent += apart) found.push(least * 10 ** exponent);
    return found;
  }

  function plotOf(id, series, { isLog, least, format, hasWords, isStepped }, colours) {
    const element = byId(id);
    const x = state.byTime ? versions.committed_at : versions.number;
    const pad = state.byTime ? Math.max(1, (x.at(-1) - x[0]) * 0.02) : 0.6;
    const axis = { stroke: colours.quiet, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const bars = uPlot.paths.bars({ size: [0.7, 28, 1] });
    return new uPlot({
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [4, 12, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { sync: { key: "versions" }, y: false, drag: { x: true, y: false }, points: { show: false } },
      scales: {
        x: { time: state.byTime, range: (_, from, to) => (from === to || (from === x[0] && to === x.at(-1)) ? [from - pad, to + pad] : [from, to]) },
        y: { distr: isLog ? 4 : 1, asinh: least, range: (_, __, to) => [0, to > 0 ? to * (isLog ? 1.8 : 1.12) : 1] },
      },
      axes: [
        { ...axis, size: 26, space: state.byTime ? 90 : 50, ...(state.byTime ? {} : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5], values: (_, found) => found.map((v) => whole.format(v)) }) },
        { ...axis, size: 62, space: 26, ...(isLog ? { splits: (_, __, ___, to) => powers(least, to) } : {}), values: (_, found) => found.map((v) => (v === null ? "" : format(v))) },
      ],
      series: [
        {},
        ...series.map(([, colour]) => ({
          stroke: colour,
          fill: isStepped ? undefined : colour,
          width: isStepped ? 2 : 0,
          paths: isStepped ? uPlot.paths.stepped({ align: 1 }) : bars,
          points: { show: isStepped && count === 1, size: 6, fill: colour },
        })),
      ],
      hooks: {
        draw: [(plot) => drawMarks(plot, colours, hasWords)],
        setCursor: [(plot) => plot.cursor.idx !== null && plot.cursor.idx !== undefined && read(plot.cursor.idx)],
      },
    }, [x, ...series.map(([column]) => versions[column])], element);
  }

  function drawCharts() {
    plots.forEach((plot) => plot.destroy());
    const style = getComputedStyle(root);
    const colours = Object.fromEntries(["quiet", "line", "surface", "changed", "affected", "mark"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const { isLog } = state;
    plots = [
      plotOf("chart-keys", [["affected_keys", colours.affected], ["changed_keys", colours.changed]], { isLog, least: 1, format: short.format, hasWords: true }, colours),
      plotOf("chart-seconds", [["seconds", colours.changed]], { isLog, least: 0.01, format: (v) => `${digits.format(v)} s` }, colours),
      plotOf("chart-rows", [["rows", colours.changed]], { isLog: false, format: short.format, isStepped: true }, colours),
    ];
    byId("by-time").setAttribute("aria-pressed", state.byTime);
    byId("log-scale").setAttribute("aria-pressed", isLog);
  }

  function point(place) {
    read(place);
    const [plot] = plots;
    plot.setCursor({ left: plot.valToPos(plot.data[0][place], "x"), top: 0 });
  }

  const STEPS = { ArrowLeft: (at) => at - 1, ArrowRight: (at) => at + 1, Home: () => 0, End: () => count - 1 };
  charts.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    point(Math.min(count - 1, Math.max(0, STEPS[event.key](state.place))));
  });
  for (const [id, name] of [["by-time", "byTime"], ["log-scale", "isLog"]]) {
    byId(id).addEventListener("click", () => {
      state[name] = !state[name];
      drawCharts();
    });
  }

  // One first load is often a thousand times an update, which would not be seen beside it.
  const inOrder = versions.affected_keys.filter((keys) => keys > 0).sort((a, b) => a - b);
  state.isLog = inOrder.length > 1 && inOrder.at(-1) > 50 * inOrder[inOrder.length >> 1];
  read(state.place);
  drawCharts();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  let width = charts.clientWidth;
  new ResizeObserver(() => {
    if (charts.clientWidth === width) return;
    width = charts.clientWidth;
    plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: HEIGHT }));
  }).observe(charts);
  addEventListener("beforeprint", () => {
    root.classList.add("is-printing");
    drawCharts();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("is-printing");
    drawCharts();
  });
})();
