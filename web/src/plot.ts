// A figure that grows: lines over time, drawn anew when there is more.

import { label, share, ticks, type Span, type Unit } from './scale';

const SVG = 'http://www.w3.org/2000/svg';
const [WIDTH, HEIGHT] = [860, 260];
const BOX = { left: 74, top: 34, width: 770, height: 184 };

export interface Line { name: string; color: number; values: (number | null)[]; low?: (number | null)[] }
export interface Axis { label: string; unit: Unit; log: boolean }

function add(parent: Element, name: string, attributes: Record<string, string | number>, text = ''): Element {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

export class Plot {
  readonly root: HTMLElement;
  private readonly svg: SVGSVGElement;
  private readonly tip: HTMLElement;
  private lines: Line[] = [];
  private x: number[] = [];
  private spanX: Span = { scale: 'linear', from: 0, to: 1 };

  constructor(private readonly title: string, private readonly axis: Axis) {
    this.root = document.createElement('figure');
    this.svg = document.createElementNS(SVG, 'svg');
    this.svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    this.svg.setAttribute('class', 'chart');
    this.svg.setAttribute('role', 'img');
    this.svg.setAttribute('aria-label', title);
    const picture = document.createElement('div');
    picture.className = 'picture';
    picture.append(this.svg);
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.root.append(picture, this.tip);
    this.svg.addEventListener('pointermove', (event) => this.hover(event));
    this.svg.addEventListener('pointerleave', () => { this.tip.style.display = 'none'; });
  }

  draw(x: number[], lines: Line[]): void {
    [this.x, this.lines] = [x, lines];
    this.svg.replaceChildren();
    add(this.svg, 'text', { class: 'title', x: 8, y: 18 }, this.title);
    const last = x.length ? x[x.length - 1]! : 1;
    this.spanX = { scale: 'linear', from: x[0] ?? 0, to: Math.max(last, (x[0] ?? 0) + 1) };
    const spanY = this.rangeY();
    this.axes(spanY);
    let at = 250;
    for (const line of lines) {
      const group = add(this.svg, 'g', { class: `s c${line.color}`, 'data-name': line.name });
      if (line.low) add(group, 'path', { class: 'a', d: this.surface(line, spanY) });
      add(group, 'path', { class: 'l', d: this.path(line.values, spanY) });
      add(group, 'path', { class: 'p', d: `M${at} 14h.01` });
      add(this.svg, 'text', { x: at + 9, y: 18 }, line.name);
      at += 30 + line.name.length * 7.5;
    }
    add(this.svg, 'rect', {
      class: 'frame', x: BOX.left, y: BOX.top, width: BOX.width, height: BOX.height,
    });
  }

  private rangeY(): Span {
    let [low, high] = [Infinity, -Infinity];
    for (const line of this.lines) {
      for (const list of [line.values, line.low ?? []]) {
        for (const v of list) {
          if (v === null || (this.axis.log && v <= 0)) continue;
          low = Math.min(low, v);
          high = Math.max(high, v);
        }
      }
    }
    if (!Number.isFinite(high)) [low, high] = [1, 10];
    if (!this.axis.log) return { scale: 'linear', from: 0, to: high > 0 ? high * 1.06 : 1 };
    return { scale: 'log', from: low / 1.15, to: Math.max(high, low * 1.5) * 1.15 };
  }

  private axes(spanY: Span): void {
    const { left, top, width, height } = BOX;
    for (const [value, words] of ticks(this.spanX, 'seconds', 9)) {
      const x = left + share(this.spanX, value) * width;
      add(this.svg, 'path', { class: 'rule', d: `M${x.toFixed(1)} ${top}v${height}` });
      add(this.svg, 'text', { x: x.toFixed(1), y: top + height + 17, 'text-anchor': 'middle' }, words);
    }
    for (const [value, words] of ticks(spanY, this.axis.unit, 6)) {
      const y = top + (1 - share(spanY, value)) * height;
      add(this.svg, 'path', { class: 'rule', d: `M${left} ${y.toFixed(1)}h${width}` });
      add(this.svg, 'text', { x: left - 7, y: (y + 4).toFixed(1), 'text-anchor': 'end' }, words);
    }
    add(this.svg, 'text', { class: 'soft', x: left + width, y: HEIGHT - 6, 'text-anchor': 'end' }, 'time in the run');
    add(this.svg, 'text', { class: 'soft', x: left, y: HEIGHT - 6 }, this.axis.label);
  }

  private point(n: number, value: number, spanY: Span): string {
    const x = BOX.left + share(this.spanX, this.x[n]!) * BOX.width;
    const y = BOX.top + (1 - share(spanY, value)) * BOX.height;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  }

  private path(values: (number | null)[], spanY: Span): string {
    let d = '';
    let pen = false;
    values.forEach((value, n) => {
      const shown = value !== null && !(this.axis.log && value <= 0);
      if (shown) d += `${pen ? 'L' : 'M'}${this.point(n, value, spanY)}`;
      pen = shown;
    });
    return values.length === 1 && d ? `${d}h.5` : d || 'M0 0';
  }

  private surface(line: Line, spanY: Span): string {
    const there = line.values.map((v, n) => (v !== null && line.low![n] !== null ? n : -1)).filter((n) => n >= 0);
    if (!there.length) return 'M0 0';
    const up = there.map((n) => this.point(n, line.values[n]!, spanY));
    const down = [...there].reverse().map((n) => this.point(n, line.low![n]!, spanY));
    return `M${[...up, ...down].join('L')}Z`;
  }

  private hover(event: PointerEvent): void {
    const rect = this.svg.getBoundingClientRect();
    const at = (((event.clientX - rect.left) * WIDTH) / rect.width - BOX.left) / BOX.width;
    if (at < 0 || at > 1 || !this.x.length) {
      this.tip.style.display = 'none';
      return;
    }
    const wanted = this.spanX.from + at * (this.spanX.to - this.spanX.from);
    let n = 0;
    while (n + 1 < this.x.length && Math.abs(this.x[n + 1]! - wanted) <= Math.abs(this.x[n]! - wanted)) n += 1;
    const values = this.lines.map((line) => {
      const value = line.values[n] ?? null;
      return `${line.name}: ${value === null ? 'n/a' : label(this.axis.unit, value)}`;
    });
    this.tip.textContent = [`time: ${label('seconds', this.x[n]!)}`, ...values].join('\n');
    this.tip.style.display = 'block';
    const own = this.root.getBoundingClientRect();
    const px = event.clientX - own.left;
    this.tip.style.left = `${px + this.tip.offsetWidth + 24 > own.width ? px - this.tip.offsetWidth - 12 : px + 14}px`;
    this.tip.style.top = `${event.clientY - own.top + 12}px`;
  }
}
