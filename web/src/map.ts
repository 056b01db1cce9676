// Moves a map: zoom along its time, the field under the pointer, and the lanes below it along with it.

import { nearest, type MapData } from './data';
import { saving, toolbar } from './save';
import { label, share, ticks, valueAt, type Span } from './scale';

const SVG = 'http://www.w3.org/2000/svg';

export class MapFigure {
  private readonly svg: SVGSVGElement;
  private readonly plots: NodeListOf<SVGGElement>;
  private readonly box: { left: number; top: number; width: number; height: number };
  private readonly axis: SVGGElement;
  private readonly whole: string;
  private readonly labelY: string;
  private readonly tip: HTMLElement;
  private readonly drag: SVGRectElement;
  // What is seen, as shares of the width.
  private view = { from: 0, to: 1 };

  constructor(private readonly root: HTMLElement, private readonly map: MapData) {
    this.svg = root.querySelector('svg')!;
    this.plots = this.svg.querySelectorAll('g.plot');
    const frame = this.svg.querySelector('rect.frame.map')!;
    const at = (name: string) => Number(frame.getAttribute(name));
    this.box = { left: at('x'), top: at('y'), width: at('width'), height: at('height') };
    this.axis = this.svg.querySelector('.axis-x')!;
    this.whole = this.axis.innerHTML;
    this.labelY = this.axis.querySelector('text')?.getAttribute('y') ?? '0';
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    root.append(this.tip);
    this.drag = document.createElementNS(SVG, 'rect');
    this.drag.setAttribute('class', 'drag');
    this.svg.append(this.drag);
    toolbar(root, map.title, [
      ['Zoom in', () => this.zoom(0.5)],
      ['Zoom out', () => this.zoom(2)],
      ['Left', () => this.shift(-0.5)],
      ['Right', () => this.shift(0.5)],
      ['Whole', () => this.show(0, 1)],
      ...saving(this.svg, map.title),
    ]);
    this.pointer();
    root.addEventListener('fathom:redraw', () => this.labels());
  }

  private zoom(times: number): void {
    const half = ((this.view.to - this.view.from) * times) / 2;
    const middle = (this.view.to + this.view.from) / 2;
    this.show(middle - half, middle + half);
  }

  private shift(by: number): void {
    const wide = this.view.to - this.view.from;
    const from = Math.min(1 - wide, Math.max(0, this.view.from + by * wide));
    this.show(from, from + wide);
  }

  private show(from: number, to: number): void {
    [from, to] = [Math.max(0, from), Math.min(1, to)];
    this.view = to - from < 1e-6 ? { from: 0, to: 1 } : { from, to };
    const all = this.view.from === 0 && this.view.to === 1;
    const scale = 1 / (this.view.to - this.view.from);
    const { left, width } = this.box;
    const dx = left - scale * (left + this.view.from * width);
    for (const plot of this.plots) {
      if (all) plot.removeAttribute('transform');
      else plot.setAttribute('transform', `translate(${dx} 0) scale(${scale} 1)`);
    }
    if (all) this.axis.innerHTML = this.whole; else this.labels();
    const seen = this.seen();
    for (const word of this.svg.querySelectorAll<SVGElement>('[data-at]')) {
      const place = share(seen, Number(word.dataset['at']));
      word.style.display = place >= 0 && place <= 1 ? '' : 'none';
      const drawn = share(this.map.x, Number(word.dataset['at']));
      word.setAttribute('transform', `translate(${((place - drawn) * width).toFixed(1)} 0)`);
    }
    this.root.dataset['view'] = all ? 'whole' : 'part';
  }

  private seen(): Span {
    const { x } = this.map;
    return { scale: x.scale, from: valueAt(x, this.view.from), to: valueAt(x, this.view.to) };
  }

  private labels(): void {
    const seen = this.seen();
    this.axis.replaceChildren(...ticks(seen, this.map.x.unit, 9).map(([value, words]) => {
      const made = document.createElementNS(SVG, 'text');
      made.setAttribute('x', (this.box.left + share(seen, value) * this.box.width).toFixed(1));
      made.setAttribute('y', this.labelY);
      made.setAttribute('text-anchor', 'middle');
      made.textContent = words;
      return made;
    }));
  }

  // A place under the pointer, as shares of what is seen; y may lie below the map, in its lanes.
  private under(event: PointerEvent): { x: number; y: number } | null {
    const rect = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / rect.width;
    const x = ((event.clientX - rect.left) * scale - this.box.left) / this.box.width;
    const y = 1 - ((event.clientY - rect.top) * scale - this.box.top) / this.box.height;
    return x >= 0 && x <= 1 && y <= 1 ? { x, y } : null;
  }

  private pointer(): void {
    let from: number | null = null;
    const { left, top, width, height } = this.box;
    this.drag.setAttribute('y', String(top));
    this.drag.setAttribute('height', String(height));
    this.drag.setAttribute('width', '0');
    this.svg.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'touch') from = this.under(event)?.x ?? null;
    });
    this.svg.addEventListener('pointermove', (event) => {
      const at = this.under(event);
      this.hover(event, at);
      if (from === null || !at) return;
      this.drag.setAttribute('x', String(left + Math.min(from, at.x) * width));
      this.drag.setAttribute('width', String(Math.abs(from - at.x) * width));
    });
    this.svg.addEventListener('pointerup', (event) => {
      const at = this.under(event);
      this.drag.setAttribute('width', '0');
      if (from !== null && at && Math.abs(at.x - from) > 0.01) {
        const place = (x: number) => this.view.from + x * (this.view.to - this.view.from);
        this.show(place(Math.min(from, at.x)), place(Math.max(from, at.x)));
      }
      from = null;
    });
    this.svg.addEventListener('dblclick', () => this.show(0, 1));
    this.svg.addEventListener('pointerleave', () => {
      from = null;
      this.tip.style.display = 'none';
      this.drag.setAttribute('width', '0');
    });
  }

  private hover(event: PointerEvent, at: { x: number; y: number } | null): void {
    if (!at) {
      this.tip.style.display = 'none';
      return;
    }
    const { x, y, columns, rows, values, meaning, lanes } = this.map;
    const value = valueAt(this.seen(), at.x);
    const lines = [`${x.label}: ${label(x.unit, value)}`];
    const column = Math.min(columns - 1, Math.floor(share(x, value) * columns));
    const row = Math.min(rows - 1, Math.floor(at.y * rows));
    if (row >= 0) {
      const n = values[row * columns + column]!;
      const edge = (part: number) => label(y.unit, valueAt(y, part / rows));
      lines.push(`${y.label}: ${edge(row)} to ${edge(row + 1)}`);
      lines.push(`${meaning}: ${Number.isFinite(n) ? label('plain', n) : '0'}`);
    }
    for (const lane of lanes) {
      for (const line of lane.lines) {
        if (line.x.length) lines.push(`${line.name}: ${label(lane.unit, line.y[nearest(line.x, value)]!)}`);
      }
    }
    this.tip.textContent = lines.join('\n');
    this.tip.style.display = 'block';
    const rect = this.root.getBoundingClientRect();
    const px = event.clientX - rect.left;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${px + wide + 24 > rect.width ? px - wide - 12 : px + 14}px`;
    this.tip.style.top = `${event.clientY - rect.top + 12}px`;
  }
}
