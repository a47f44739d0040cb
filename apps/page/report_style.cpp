#include "apps/page/report_style.h"

namespace pursuit::apps {

const std::string_view report_css = R"css(
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --text: #1c2128; --muted: #5d6773; --rule: #e2e5ea; --grid: #edeff2;
  --accent: #0a5c9c; --best: #e3f0fa; --hit: 0 95 160; --miss: 213 94 0; --deep: #ffffff;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; --c6: #7a5195; --c7: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1116; --card: #161b22; --text: #e3e7ec; --muted: #94a0ad; --rule: #2b323b; --grid: #222932;
    --accent: #6db6ee; --best: #12324a; --hit: 64 156 222; --miss: 236 122 48; --deep: #0b0f14;
    --c0: #4aa3df; --c1: #f07f3c; --c2: #2fc79a; --c3: #e3a0c8; --c4: #f2bd4b; --c5: #a5dbfa; --c6: #b390d6; --c7: #9ca3af;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
}
header, main { max-width: 1180px; margin: 0 auto; padding: 0 clamp(16px, 4vw, 40px); }
header { padding-top: 48px; }
h1 { font-size: clamp(1.6rem, 1.2rem + 2vw, 2.3rem); line-height: 1.15; letter-spacing: -0.02em; margin: 0; }
header p { color: var(--muted); margin: 8px 0 0; }
header p:empty { display: none; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 20px; padding: 10px 0; border-block: 1px solid var(--rule); }
nav a { color: var(--accent); text-decoration: none; font-size: 0.9rem; }
nav a:hover { text-decoration: underline; }
main { padding-top: 24px; padding-bottom: 72px; display: flex; flex-wrap: wrap; gap: 18px; }
section { flex: 1 0 100%; min-width: 0; max-width: 100%; display: flex; flex-wrap: wrap; gap: 18px; align-items: stretch; padding-top: 16px; }
section > *, main > * { flex: 1 0 100%; min-width: 0; max-width: 100%; margin: 0; }
h2 { font-size: 1.35rem; letter-spacing: -0.01em; margin: 0; }
h3 { font-size: 1rem; margin: 0; }
h3.heading { margin-top: 8px; }
section > p, main > p { max-width: 72ch; flex-basis: 100%; white-space: pre-line; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px 20px; }
.scroll { overflow-x: auto; }
figcaption, .note { color: var(--muted); font-size: 0.875rem; margin: 12px 0 0; max-width: 80ch; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 0.84rem/1.5 ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; }

.highlights { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.highlights .card { display: flex; flex-direction: column; padding: 14px 18px; }
.highlights span { color: var(--muted); font-size: 0.85rem; }
.highlights b { font-size: 1.75rem; line-height: 1.3; font-weight: 650; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.highlights small { color: var(--muted); font-size: 0.8rem; }

dl { columns: 2 340px; column-gap: 48px; font-size: 0.92rem; }
dl div { display: flex; gap: 16px; justify-content: space-between; break-inside: avoid; padding: 5px 0; border-bottom: 1px solid var(--grid); }
dt { color: var(--muted); white-space: nowrap; }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }

table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 7px clamp(4px, 0.9vw, 12px); text-align: left; border-bottom: 1px solid var(--grid); overflow-wrap: break-word; }
td.number { white-space: nowrap; }
th:first-child, td:first-child { padding-left: 4px; }
thead th { color: var(--muted); font-weight: 600; font-size: 0.85rem; vertical-align: bottom; border-bottom-color: var(--rule); }
tbody tr:last-child > * { border-bottom: 0; }
.number, .right { text-align: right; }
.best { background: var(--best); color: var(--accent); border-radius: 5px; padding: 2px 7px; margin: -2px -7px; font-weight: 650; }

section > .chart, main > .chart { flex: 1 1 440px; display: flex; flex-direction: column; }
section > .chart.wide, main > .chart.wide { flex-basis: 100%; }
.chart-head { display: flex; flex-wrap: wrap; gap: 0 12px; align-items: baseline; justify-content: space-between; margin-bottom: 8px; }
.measure { color: var(--muted); font-size: 0.85rem; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 0.85rem; margin-bottom: 12px; }
.legend span { display: inline-flex; align-items: center; gap: 7px; }
.legend i { width: 18px; border-top: 3px solid var(--series); border-radius: 2px; }
.legend i.dashed { border-top-style: dashed; border-radius: 0; }
.s0 { --series: var(--c0); } .s1 { --series: var(--c1); } .s2 { --series: var(--c2); } .s3 { --series: var(--c3); }
.s4 { --series: var(--c4); } .s5 { --series: var(--c5); } .s6 { --series: var(--c6); } .s7 { --series: var(--c7); }
.empty { color: var(--muted); text-align: center; padding: 60px 0; margin: 0; }

.lines { display: grid; grid-template: minmax(250px, 1fr) 1.5em auto / auto 1fr; column-gap: 9px; flex: 1; font-size: 0.78rem; color: var(--muted); font-variant-numeric: tabular-nums; padding: 6px 14px 0 0; }
.lines .y, .lines .x, .plot { position: relative; }
.lines .y span { position: absolute; right: 0; transform: translateY(-50%); white-space: nowrap; }
.lines .x { grid-column: 2; }
.lines .x span { position: absolute; top: 5px; transform: translateX(-50%); white-space: nowrap; }
.x-label { grid-column: 2; text-align: center; padding-top: 4px; }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot path, .plot line { fill: none; vector-effect: non-scaling-stroke; }
.grid line { stroke: var(--grid); stroke-width: 1; }
.line { stroke: var(--series); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.line.faint { opacity: 0.28; stroke-width: 1; }
.line.dashed { stroke-dasharray: 6 5; }
.dots { stroke: var(--series); stroke-width: 6; stroke-linecap: round; }
.cursor { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--muted); opacity: 0.6; pointer-events: none; }
.tip { position: absolute; z-index: 2; top: 6px; pointer-events: none; white-space: nowrap; background: var(--card); color: var(--text); border: 1px solid var(--rule); border-radius: 7px; padding: 6px 10px; box-shadow: 0 3px 14px rgb(0 0 0 / 0.16); }
.tip div { display: flex; gap: 7px; align-items: center; }
.tip i { width: 12px; border-top: 3px solid var(--series); }
.tip b { margin-left: auto; padding-left: 12px; font-weight: 600; }

.bars { font-size: 0.85rem; }
.bars.two { columns: 2 400px; column-gap: 36px; }
.bar-group { display: grid; grid-template-columns: minmax(17ch, 24%) 1fr; gap: 10px; align-items: center; break-inside: avoid; }
.bar-group > span { text-align: right; overflow-wrap: anywhere; line-height: 1.25; }
.bar-group > div { padding-right: 48px; min-width: 0; }
.bar-group svg { display: block; width: 100%; overflow: visible; }
.bar-group rect { fill: var(--series); }
.bar-group text { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
.zero { stroke: var(--rule); }

table.confusion { width: auto; font-size: 0.84rem; border-collapse: separate; border-spacing: 2px; }
.confusion th, .confusion td { border: 0; padding: 6px 7px; text-align: right; border-radius: 4px; font-weight: 400; }
.confusion thead th { vertical-align: bottom; text-align: center; color: var(--text); }
.confusion thead span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 14em; overflow: hidden; text-overflow: ellipsis; }
.confusion tbody th { position: sticky; left: 0; background: var(--card); max-width: 18ch; overflow: hidden; text-overflow: ellipsis; }
.confusion td.corner { color: var(--muted); vertical-align: bottom; font-size: 0.75rem; padding-left: 0; }
.confusion tbody td { min-width: 44px; text-align: center; }
.confusion td.hit { background: rgb(var(--hit) / var(--a)); }
.confusion td.miss { background: rgb(var(--miss) / var(--a)); }
.confusion td.deep { color: var(--deep); font-weight: 600; }
.confusion td.none { color: color-mix(in srgb, var(--muted) 45%, transparent); background: var(--page); }
.confusion .recall { color: var(--muted); padding-left: 14px; text-align: right; vertical-align: bottom; }
.confusion-body { display: flex; flex-wrap: wrap; gap: 18px 48px; }
.confusion-body > .scroll { flex: 0 1 auto; }
.confusion-picture { flex: 0 1 620px; min-width: min(100%, 260px); }
img.confusion { display: block; width: 100%; image-rendering: pixelated; border-radius: 6px; }
.confused { flex: 1 1 220px; max-width: 420px; font-size: 0.88rem; }
.confused h4 { font-size: 0.85rem; font-weight: 600; color: var(--muted); margin: 8px 0 4px; }
.confused ul { list-style: none; margin: 0 0 18px; padding: 0; }
.confused li { display: flex; justify-content: space-between; gap: 16px; padding: 5px 0; border-bottom: 1px solid var(--grid); }
.confused b { font-weight: 600; font-variant-numeric: tabular-nums; }

.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(112px, 1fr)); gap: 14px 12px; }
.pictures .column { color: var(--muted); font-weight: 600; font-size: 0.85rem; align-self: end; }
.swatches { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 6px 18px; font-size: 0.88rem; }
.swatches span { display: flex; align-items: center; gap: 9px; min-width: 0; overflow-wrap: anywhere; }
.swatches i { flex: none; width: 18px; height: 18px; border-radius: 4px; border: 1px solid var(--rule); }
.picture { margin: 0; min-width: 0; }
.picture img { display: block; width: 100%; height: auto; border-radius: 6px; background: var(--page); }
.picture img.small { image-rendering: pixelated; }
.picture figcaption { margin-top: 5px; font-size: 0.78rem; line-height: 1.35; overflow-wrap: anywhere; }
.picture.good img { outline: 3px solid var(--c2); outline-offset: -3px; }
.picture.bad img { outline: 3px solid var(--c1); outline-offset: -3px; }
.picture.good figcaption::before { content: "✓ "; color: var(--c2); font-weight: 700; }
.picture.bad figcaption::before { content: "✗ "; color: var(--c1); font-weight: 700; }

@media (prefers-color-scheme: light) { img.confusion { filter: invert(1) grayscale(1); outline: 1px solid #1d1a15; } }
@media (max-width: 560px) {
  .card { padding: 14px 14px; }
  header { padding-top: 28px; }
  .bar-group > div { padding-right: 42px; }
  .pictures { grid-template-columns: repeat(auto-fill, minmax(84px, 1fr)); }
}
@media print {
  body { background: #ffffff; }
  .card, figure, section > h2 { break-inside: avoid; }
  nav { display: none; }
}
)css";

const std::string_view report_script = R"js(
for (const plot of document.querySelectorAll('.plot')) {
  const lines = [...plot.querySelectorAll('path[data-points]')].filter(line => line.dataset.points).map(line => {
    const at = line.getAttribute('d').match(/[\d.]+/g).map(Number);
    return {
      name: line.dataset.name, look: line.classList[1],
      points: line.dataset.points.split(' ').map((label, i) => ({ at: at[2 * i], label: label.split(':') })),
    };
  });
  const cursor = document.createElement('div'), tip = document.createElement('div');
  cursor.className = 'cursor';
  tip.className = 'tip';
  const element = (tag, text, look) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (look) made.className = look;
    return made;
  };
  plot.addEventListener('pointermove', event => {
    const box = plot.getBoundingClientRect(), at = 1000 * (event.clientX - box.left) / box.width;
    const near = lines.map(line => line.points.reduce((a, b) => Math.abs(b.at - at) >= Math.abs(a.at - at) ? a : b));
    if (!near.length) return;
    const first = near.reduce((a, b) => Math.abs(b.at - at) >= Math.abs(a.at - at) ? a : b);
    tip.replaceChildren(element('div', plot.dataset.x + ' ' + first.label[0]));
    lines.forEach((line, i) => {
      if (Math.abs(near[i].at - first.at) > 20) return;
      const row = element('div', '');
      row.append(element('i', '', line.look), element('span', line.name), element('b', near[i].label[1]));
      tip.append(row);
    });
    cursor.style.left = first.at / 10 + '%';
    const right = first.at > 500;
    tip.style.left = right ? 'auto' : 'calc(' + first.at / 10 + '% + 12px)';
    tip.style.right = right ? 'calc(' + (100 - first.at / 10) + '% + 12px)' : 'auto';
    plot.append(cursor, tip);
  });
  plot.addEventListener('pointerleave', () => { cursor.remove(); tip.remove(); });
}
)js";

}  // namespace pursuit::apps
