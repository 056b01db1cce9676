// The buttons below a figure, and copies of the picture.

// A row of buttons, named after its figure.
export function toolbar(root: HTMLElement, title: string, buttons: [string, () => void][]): void {
  const bar = document.createElement('div');
  bar.className = 'tools';
  bar.setAttribute('role', 'group');
  bar.setAttribute('aria-label', `Figure: ${title}`);
  for (const [name, act] of buttons) {
    const made = document.createElement('button');
    made.type = 'button';
    made.textContent = name;
    made.addEventListener('click', act);
    bar.append(made);
  }
  root.append(bar);
}

// What saves a picture, as buttons.
export function saving(svg: SVGSVGElement, title: string): [string, () => void][] {
  return [
    ['Save SVG', () => keep(new Blob([file(svg)], { type: 'image/svg+xml' }), title, 'svg')],
    ['Save PNG', () => void savePng(svg, title)],
  ];
}

// The picture as a file of its own, with its colours in it.
function file(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const style = document.createElementNS('http://www.w3.org/2000/svg', 'style');
  style.textContent = document.getElementById('chart-css')?.textContent ?? '';
  copy.prepend(style);
  copy.querySelectorAll('.cross,.drag').forEach((part) => part.remove());
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute('width', String(width));
  copy.setAttribute('height', String(height));
  return new XMLSerializer().serializeToString(copy);
}

function keep(blob: Blob, title: string, ending: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `${title.replace(/[^A-Za-z0-9.]+/g, '-').slice(0, 80)}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function savePng(svg: SVGSVGElement, title: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(file(svg))}`;
  await image.decode();
  const { width, height } = svg.viewBox.baseVal;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width * 2, height * 2];
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && keep(blob, title, 'png'), 'image/png');
}
