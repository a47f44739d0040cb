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
