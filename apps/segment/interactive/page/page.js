'use strict';
const element = id => document.getElementById(id);
const token = new URLSearchParams(location.search).get('token');
const view = element('view'), pen = view.getContext('2d');
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let picture = null;  // {file, bitmap, id}; the server gives the id
let clicks = [], undone = [];  // {x, y, positive} in the picture's pixels
let mask = null;  // {png, fill, outline, share, of} of the last answer, which was for the revision `of`
let revision = 0;  // of picture and clicks
let place = { scale: 1, x: 0, y: 0 }, fitted = true;  // of the picture in the view
let crosshair = null;  // moved by keys

// ---- the server

async function ask(path, type, body) {
  const headers = { Authorization: 'Bearer ' + token, 'Content-Type': type };
  const answer = await fetch(path, { method: 'POST', headers, body }).catch(() => {
    throw new Error('The server does not answer. Is it still running?');
  });
  if (answer.ok) return answer;
  throw Object.assign(new Error((await answer.text()).trim() || answer.statusText), { status: answer.status });
}

async function look(at) {
  progress('Looking at the picture …');
  const answer = await (await ask('/pictures', at.file.type, at.file)).json();
  if (answer.width !== at.bitmap.width || answer.height !== at.bitmap.height)
    throw new Error('Browser and server do not agree on the size of this picture.');
  at.id = answer.id;
}

// The server keeps few pictures and is sent one again that it has dropped.
async function maskOf(at, wanted) {
  for (let again = true; ; again = false) {
    if (!at.id) await look(at);
    progress('Thinking …');
    try {
      return await ask('/masks', 'application/json', JSON.stringify({ picture: at.id, clicks: wanted }));
    } catch (error) {
      if (error.status !== 410 || !again) throw error;
      at.id = null;
    }
  }
}

async function update() {
  const at = picture, wanted = [...clicks], of = revision;
  if (!at.id) await look(at);
  if (!wanted.length) {
    mask = null;
    return 'Click on the object.';
  }
  const answer = await maskOf(at, wanted);
  const milliseconds = Number(/dur=([\d.]+)/.exec(answer.headers.get('Server-Timing'))?.[1]);
  const png = await answer.blob();
  const made = await readMask(png);
  if (at !== picture) return '';
  mask = { ...made, of };
  const count = wanted.length === 1 ? '1 click' : wanted.length + ' clicks';
  return `${count}: ${(100 * mask.share).toFixed(1)} % of the picture. The model took ${milliseconds.toFixed(0)} ms.`;
}

// One request at a time; clicks that are made meanwhile are sent together.
let working = false;
async function work() {
  if (working || !picture) return;
  working = true;
  showError('');
  const slow = setTimeout(() => { element('busy').hidden = false; say(doing); }, 100);
  for (let of = null; of !== revision;) {
    of = revision;
    try {
      say(await update());
    } catch (error) {
      if (of === revision) showError(error.message);
    }
    show();
  }
  clearTimeout(slow);
  element('busy').hidden = true;
  working = false;
}

// ---- what is said

let doing = '';
function progress(text) {
  doing = text;
  if (!element('busy').hidden) say(text);
}
function say(text) {
  if (text) element('status').textContent = text;
}
function showError(text, again = true) {
  element('retry').hidden = !again;
  element('error-text').textContent = text.charAt(0).toUpperCase() + text.slice(1);
  element('error').hidden = !text;
  element('status').hidden = Boolean(text);
}

// ---- pictures and masks

async function open(file) {
  if (!file) return;
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    showError('The browser cannot show this file as a picture.', false);
    return;
  }
  // The server reads JPEG and PNG.
  if (!['image/jpeg', 'image/png'].includes(file.type)) {
    const canvas = canvasOf(bitmap.width, bitmap.height);
    canvas.getContext('2d').drawImage(bitmap, 0, 0);
    const png = await new Promise(done => canvas.toBlob(done));
    file = new File([png], file.name, { type: 'image/png' });
  }
  picture = { file, bitmap, id: null };
  element('empty').hidden = true;
  mask = crosshair = null;
  fit();
  view.focus();
  setClicks([], []);
}

function canvasOf(width, height) {
  return Object.assign(document.createElement('canvas'), { width, height });
}

async function readMask(png) {
  const bitmap = await createImageBitmap(png), { width, height } = bitmap;
  const context = canvasOf(width, height).getContext('2d', { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  const pixels = context.getImageData(0, 0, width, height), rgba = new Uint32Array(pixels.data.buffer);
  const colour = new Uint32Array(new Uint8Array([0, 140, 255, 255]).buffer)[0];
  // With a border of one pixel outside.
  const stride = width + 2, inside = new Uint8Array(stride * (height + 2));
  let count = 0;
  for (let y = 0, i = 0; y < height; ++y)
    for (let x = 0, to = (y + 1) * stride + 1; x < width; ++x, ++i, ++to) {
      const value = rgba[i] & 1;
      rgba[i] = value ? colour : 0;
      count += inside[to] = value;
    }
  const outline = outlineOf(inside, width, height);
  return { png, fill: await createImageBitmap(pixels), outline, share: count / rgba.length };
}

// The edges between pixels inside and outside, in runs: along rows, and along columns since the row begun[x].
function outlineOf(inside, width, height) {
  const path = new Path2D(), stride = width + 2, begun = new Int32Array(width + 1).fill(-1);
  for (let y = 0; y <= height; ++y) {
    let from = -1;
    for (let x = 0, at = (y + 1) * stride + 1; x <= width; ++x, ++at) {
      const here = inside[at];
      if (here !== inside[at - 1]) {
        if (begun[x] < 0) begun[x] = y;
      } else if (begun[x] >= 0) {
        path.moveTo(x, begun[x]);
        path.lineTo(x, y);
        begun[x] = -1;
      }
      if (here !== inside[at - stride]) {
        if (from < 0) from = x;
      } else if (from >= 0) {
        path.moveTo(from, y);
        path.lineTo(x, y);
        from = -1;
      }
    }
  }
  return path;
}

// ---- clicks

function setClicks(now, later) {
  clicks = now;
  undone = later;
  ++revision;
  show();
  work();
}
function click(x, y, positive) {
  if (!picture || x < 0 || y < 0 || x >= picture.bitmap.width || y >= picture.bitmap.height) return;
  setClicks([...clicks, { x, y, positive }], []);
}
function undo() {
  if (clicks.length) setClicks(clicks.slice(0, -1), [...undone, clicks.at(-1)]);
}
function redo() {
  if (undone.length) setClicks([...clicks, undone.at(-1)], undone.slice(0, -1));
}
function clear() {
  if (clicks.length) setClicks([], [...clicks].reverse());
}
function toggleKind() {
  element(element('positive').checked ? 'negative' : 'positive').checked = true;
  show();
}

function download() {
  if (element('download').disabled) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(mask.png);
  link.download = (picture.file.name || 'picture').replace(/\.[^.]*$/, '') + '-mask.png';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- the view

function fit() {
  if (!picture) return;
  const { width, height } = picture.bitmap, margin = 12;
  const scale = Math.min((view.clientWidth - 2 * margin) / width, (view.clientHeight - 2 * margin) / height);
  place = { scale, x: (view.clientWidth - scale * width) / 2, y: (view.clientHeight - scale * height) / 2 };
  fitted = true;
  show();
}
// The point (x, y) of the view stays where it is.
function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  if (!picture) return;
  const scale = Math.min(Math.max(place.scale * factor, 0.02), 64), by = scale / place.scale;
  place = { scale, x: x - by * (x - place.x), y: y - by * (y - place.y) };
  fitted = false;
  show();
}
function pan(dx, dy) {
  if (!picture) return;
  place = { ...place, x: place.x + dx, y: place.y + dy };
  fitted = false;
  show();
}
function pixelAt(event) {
  const box = view.getBoundingClientRect();
  return {
    x: Math.floor((event.clientX - box.left - place.x) / place.scale),
    y: Math.floor((event.clientY - box.top - place.y) / place.scale),
  };
}
function moveCrosshair(dx, dy) {
  if (!picture) return;
  const { width, height } = picture.bitmap, limit = (value, most) => Math.min(Math.max(value, 0), most - 1);
  crosshair ??= { x: width >> 1, y: height >> 1 };
  crosshair = { x: limit(crosshair.x + dx, width), y: limit(crosshair.y + dy, height) };
  // It stays in sight.
  const x = place.x + (crosshair.x + 0.5) * place.scale, y = place.y + (crosshair.y + 0.5) * place.scale, edge = 20;
  const shift = (at, size) => at < edge ? edge - at : at > size - edge ? size - edge - at : 0;
  const by = [shift(x, view.clientWidth), shift(y, view.clientHeight)];
  if (by[0] || by[1]) pan(...by);
  where(crosshair);
  show();
}
function where(at) {
  element('where').textContent = at && picture
    ? `${at.x}, ${at.y} of ${picture.bitmap.width} × ${picture.bitmap.height}` : '';
}

let drawing = 0;
function show() {
  element('undo').disabled = !clicks.length;
  element('redo').disabled = !undone.length;
  element('clear').disabled = !clicks.length;
  element('download').disabled = mask?.of !== revision;
  for (const id of ['zoom-in', 'zoom-out', 'zoom-fit']) element(id).disabled = !picture;
  element('zoom-fit').textContent = picture ? Math.round(100 * place.scale) + ' %' : 'Fit';
  drawing ||= requestAnimationFrame(draw);
}

function draw() {
  drawing = 0;
  const ratio = devicePixelRatio, width = Math.round(view.clientWidth * ratio);
  const height = Math.round(view.clientHeight * ratio);
  if (view.width !== width || view.height !== height) Object.assign(view, { width, height });
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, width, height);
  if (!picture) return;
  // In the picture's pixels; a line of one pixel of the view is `line` wide.
  const line = 1 / place.scale;
  pen.setTransform(ratio * place.scale, 0, 0, ratio * place.scale, ratio * place.x, ratio * place.y);
  pen.imageSmoothingEnabled = place.scale < 3;
  pen.imageSmoothingQuality = 'high';
  pen.drawImage(picture.bitmap, 0, 0);
  if (mask) {
    pen.globalAlpha = element('opacity').value / 100;
    pen.drawImage(mask.fill, 0, 0);
    pen.globalAlpha = Math.min(1, element('opacity').value / 25);
    stroke(mask.outline, 3 * line, 'white');
    stroke(mask.outline, 1.5 * line, 'rgb(0 90 180)');
    pen.globalAlpha = 1;
  }
  clicks.forEach(drawClick);
  if (crosshair && document.activeElement === view) drawCrosshair(line);
}
function stroke(path, width, colour) {
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke(path);
}
function drawClick({ x, y, positive }) {
  const line = 1 / place.scale, centre = [x + 0.5, y + 0.5], disc = new Path2D(), sign = new Path2D();
  disc.arc(...centre, 7.5 * line, 0, 2 * Math.PI);
  sign.moveTo(centre[0] - 3.5 * line, centre[1]);
  sign.lineTo(centre[0] + 3.5 * line, centre[1]);
  if (positive) {
    sign.moveTo(centre[0], centre[1] - 3.5 * line);
    sign.lineTo(centre[0], centre[1] + 3.5 * line);
  }
  pen.fillStyle = positive ? '#0072b2' : '#d55e00';
  pen.fill(disc);
  stroke(disc, 2 * line, 'white');
  stroke(sign, 2 * line, 'white');
}
function drawCrosshair(line) {
  const x = crosshair.x + 0.5, y = crosshair.y + 0.5, path = new Path2D();
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    path.moveTo(x + 4 * line * dx, y + 4 * line * dy);
    path.lineTo(x + 18 * line * dx, y + 18 * line * dy);
  }
  stroke(path, 4 * line, 'white');
  stroke(path, 2 * line, element('positive').checked ? '#0072b2' : '#d55e00');
}

// ---- mouse, pen and touch

let pressed = null;  // {x, y, moved, pans, positive}
let space = false;
view.addEventListener('pointerdown', event => {
  if (!picture || event.button > 2) return;
  view.setPointerCapture(event.pointerId);
  crosshair = null;
  const positive = event.button === 0 && !event.shiftKey && element('positive').checked;
  pressed = { at: pixelAt(event), x: event.clientX, y: event.clientY, moved: false, positive,
              pans: event.button === 1 || (event.button === 0 && space) };
  view.classList.toggle('panning', pressed.pans);
  show();
});
view.addEventListener('pointermove', event => {
  where(pixelAt(event));
  if (!pressed) return;
  const dx = event.clientX - pressed.x, dy = event.clientY - pressed.y;
  if (Math.hypot(dx, dy) > 5) pressed.moved = true;
  if (pressed.moved && event.pointerType === 'touch') pressed.pans = true;
  if (!pressed.pans) return;
  pan(dx, dy);
  Object.assign(pressed, { x: event.clientX, y: event.clientY });
});
view.addEventListener('pointerup', () => {
  if (pressed && !pressed.pans && !pressed.moved) click(pressed.at.x, pressed.at.y, pressed.positive);
  pressed = null;
  view.classList.remove('panning');
});
view.addEventListener('pointercancel', () => { pressed = null; });
view.addEventListener('pointerleave', () => where(crosshair));
view.addEventListener('contextmenu', event => event.preventDefault());
// The middle button would scroll.
view.addEventListener('mousedown', event => {
  if (event.button === 1) event.preventDefault();
});
view.addEventListener('wheel', event => {
  event.preventDefault();
  const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1), box = view.getBoundingClientRect();
  zoom(Math.exp(-0.0016 * pixels), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

// ---- keys

const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const keys = {
  n: toggleKind, u: undo, r: redo, c: clear, d: download, o: () => element('file').click(),
  '+': () => zoom(1.25), '=': () => zoom(1.25), '-': () => zoom(0.8), 0: fit,
};
const withControl = { z: undo, y: redo, Z: redo };
document.addEventListener('keydown', event => {
  const control = event.ctrlKey || event.metaKey;
  if (event.target === view && steps[event.key] && !event.altKey) {
    const [dx, dy] = steps[event.key];
    if (control) pan(-40 * dx, -40 * dy);
    else moveCrosshair((event.shiftKey ? 10 : 1) * dx, (event.shiftKey ? 10 : 1) * dy);
  } else if (event.target === view && event.key === 'Enter') {
    if (crosshair) click(crosshair.x, crosshair.y, element('positive').checked && !event.shiftKey);
    else moveCrosshair(0, 0);
  } else if (event.target === view && event.key === ' ') {
    space = true;
  } else if (control && withControl[event.key]) {
    withControl[event.key]();
  } else if (!control && !event.altKey && keys[event.key.toLowerCase()]) {
    keys[event.key.toLowerCase()]();
  } else {
    return;
  }
  event.preventDefault();
});
document.addEventListener('keyup', event => {
  if (event.key === ' ') space = false;
});
view.addEventListener('focus', show);
view.addEventListener('blur', () => { space = false; show(); });

// ---- buttons and files

for (const [id, does] of Object.entries({
  undo, redo, clear, download, retry: work, 'zoom-in': () => zoom(1.25), 'zoom-out': () => zoom(0.8),
  'zoom-fit': fit, open: () => element('file').click(), 'open-first': () => element('file').click(),
})) element(id).addEventListener('click', does);
element('file').addEventListener('change', event => {
  open(event.target.files[0]);
  event.target.value = '';
});
element('opacity').addEventListener('input', event => {
  element('opacity-shown').textContent = event.target.value + ' %';
  show();
});
for (const id of ['positive', 'negative']) element(id).addEventListener('change', show);
document.addEventListener('dragover', event => {
  event.preventDefault();
  document.body.classList.add('dropping');
});
document.addEventListener('dragleave', () => document.body.classList.remove('dropping'));
document.addEventListener('drop', event => {
  event.preventDefault();
  document.body.classList.remove('dropping');
  open(event.dataTransfer.files[0]);
});
document.addEventListener('paste', event => open(event.clipboardData.files[0]));
new ResizeObserver(() => fitted ? fit() : show()).observe(view);
show();
