"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
const unitFor = (largest) => UNITS.find((unit) => largest >= unit[1]) || UNITS[3];

function bytesText(count) {
  const [name, size] = unitFor(count);
  if (size === 1) return `${count} B`;
  const value = count / size;
  return `${value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3))} ${name}`;
}

const escapeText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const operatorAt = (plan, position) => escapeText(plan.instructions[position] || "");

// A vertical axis in powers of 1024: round steps of the unit, at most nine of them.
function addressTicks(largest) {
  const [name, size] = unitFor(largest);
  const rough = largest / size / 8;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) || 1;
  const ticks = Array.from({ length: Math.floor(largest / size / step) + 1 }, (_, index) => index * step);
  return { values: ticks.map((tick) => tick * size), text: ticks.map((tick) => `${Number(tick.toPrecision(6))} ${name}`) };
}

function bufferTrace(plan, family, index) {
  const buffers = plan.buffers.filter((buffer) => buffer.family === index);
  return {
    type: "bar",
    name: family.name,
    x: buffers.map((buffer) => buffer.first),
    width: buffers.map((buffer) => buffer.last - buffer.first),
    offset: 0,
    base: buffers.map((buffer) => buffer.offset),
    y: buffers.map((buffer) => buffer.bytes),
    marker: { color: family.colour, line: { color: "white", width: plan.buffers.length > 150 ? 0.4 : 1 } },
    text: buffers.map((buffer) =>
      `<b>${escapeText(buffer.name)}</b><br>${escapeText(buffer.operator)}<br>${escapeText(buffer.type)}` +
      `<br>${bytesText(buffer.bytes)} (${buffer.bytes.toLocaleString("en")} bytes) at ${bytesText(buffer.offset)}` +
      `<br>lives from instruction ${buffer.first} to ${buffer.last - 1}` +
      `<br>last used by ${operatorAt(plan, buffer.last - 1)}`),
    textposition: "none",
    hovertemplate: "%{text}<extra></extra>",
  };
}

function lineTraces(plan) {
  const end = plan.live.length;
  const flat = (name, value, colour, dash) => ({
    type: "scatter", mode: "lines", name, x: [0, end], y: [value, value],
    line: { color: colour, width: 1.6, dash }, hoverinfo: "skip",
  });
  return [
    {
      type: "scatter", mode: "lines", name: "live bytes", x: [...plan.live.keys(), end],
      y: [...plan.live, plan.live[end - 1] || 0], line: { color: "#22262b", width: 1.6, shape: "hv" },
      text: plan.live.map((count, position) =>
        `instruction ${position}: ${operatorAt(plan, position)}<br>${bytesText(count)} live`),
      hovertemplate: "%{text}<extra></extra>",
    },
    flat("peak", plan.peak, "#c0392b", "solid"),
    flat("lower bound", plan.bound, "#1b7f4d", "dash"),
  ];
}

const FONT = { family: "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", color: "#22262b" };
const LABEL = { align: "left", bgcolor: "white", bordercolor: "#8a9099", font: { color: "#22262b", size: 13 } };
const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };

function drawMap(plan) {
  const traces = data.families
    .map((family, index) => bufferTrace(plan, family, index))
    .filter((trace) => trace.x.length);
  const largest = Math.max(plan.peak, plan.bound, 1);
  const ticks = addressTicks(largest);
  Plotly.react("map", [...traces, ...lineTraces(plan)], {
    barmode: "overlay",
    bargap: 0,
    margin: { l: 84, r: 16, t: 10, b: 44 },
    xaxis: { title: { text: "instruction" }, range: [0, Math.max(plan.live.length, 1)], gridcolor: "#eef0f2", zeroline: false },
    yaxis: {
      title: { text: "address from the arena's base" }, range: [0, largest * 1.05], gridcolor: "#e6e8eb",
      tickvals: ticks.values, ticktext: ticks.text, zeroline: false,
    },
    legend: { orientation: "h", y: -0.12, font: { size: 12 } },
    hoverlabel: LABEL,
    hovermode: "closest",
    plot_bgcolor: "white",
    paper_bgcolor: "white",
    font: FONT,
  }, CONFIG);
}

function growthTraces(line) {
  return [
    {
      type: "scatter", mode: "lines+markers", name: line.name, legendgroup: line.name, x: line.sizes, y: line.total,
      line: { color: line.colour, width: 2 }, marker: { size: 6 },
      text: line.labels.map((label, index) =>
        `<b>${escapeText(line.name)}</b>, ${escapeText(label)}<br>${bytesText(line.total[index])}` +
        `<br>stock takes ${bytesText(line.reserved[index])}`),
      hovertemplate: "%{text}<extra></extra>",
    },
    {
      type: "scatter", mode: "lines", legendgroup: line.name, showlegend: false, hoverinfo: "skip",
      x: line.sizes, y: line.reserved,
      line: { color: line.colour, width: 1.5, dash: "dash" },
    },
  ];
}

function drawGrowth(lines) {
  document.getElementById("growth-section").hidden = false;
  const powers = Array.from({ length: 9 }, (_, index) => 2 ** (10 + 4 * index));
  Plotly.newPlot("growth", lines.flatMap(growthTraces), {
    margin: { l: 84, r: 16, t: 10, b: 44 },
    xaxis: { title: { text: "pixels or tokens" }, type: "log", gridcolor: "#eef0f2", dtick: 1 },
    yaxis: { type: "log", gridcolor: "#e6e8eb", tickvals: powers, ticktext: powers.map(bytesText) },
    legend: { orientation: "h", y: -0.16 },
    hoverlabel: LABEL,
    hovermode: "closest",
    plot_bgcolor: "white",
    paper_bgcolor: "white",
    font: FONT,
  }, CONFIG);
}

function showFigures(plan) {
  const figures = [
    [bytesText(plan.peak), "arena (peak)"],
    [bytesText(plan.bound), "lower bound (largest sum of live bytes)"],
    [(plan.bound ? plan.peak / plan.bound : 1).toFixed(4), "peak / lower bound"],
    [plan.buffers.length.toLocaleString("en"), "buffers"],
    [plan.instructions.length.toLocaleString("en"), "instructions"],
    [bytesText(plan.output), "results, outside the arena"],
    [plan.planned < 1e6 ? `${(plan.planned / 1e3).toFixed(0)} \u00b5s` : `${(plan.planned / 1e6).toFixed(1)} ms`, "to plan this size"],
  ];
  const box = document.getElementById("figures");
  box.replaceChildren(...figures.map(([value, meaning]) => {
    const cell = document.createElement("div");
    const number = document.createElement("b");
    const words = document.createElement("span");
    number.textContent = value;
    words.textContent = meaning;
    cell.append(number, words);
    return cell;
  }));
  document.getElementById("note").textContent = plan.note;
}

function showButtons(place, names, chosen, choose) {
  document.getElementById(place).replaceChildren(...names.map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.setAttribute("aria-pressed", String(name === chosen));
    button.addEventListener("click", () => choose(name));
    return button;
  }));
}

function show(plan) {
  const groups = [...new Set(data.plans.map((one) => one.group))];
  const siblings = data.plans.filter((one) => one.group === plan.group);
  showButtons("groups", groups, plan.group, (name) => show(data.plans.filter((one) => one.group === name).at(-1)));
  showButtons("labels", siblings.map((one) => one.label), plan.label,
    (name) => show(siblings.find((one) => one.label === name)));
  showFigures(plan);
  drawMap(plan);
}

show(data.plans.filter((one) => one.group === data.plans[0].group).at(-1));
if (data.growth.length) drawGrowth(data.growth);
