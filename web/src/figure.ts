// Moves a figure that is already drawn: zoom, values under the pointer, series that come and go, and
// copies of the picture.

import { nearest, thin, type Axis, type Chart } from './data';
import { saving, toolbar } from './save';
import { label, share, ticks, valueAt, type Span } from './scale';

const SVG = 'http://www.w3.org/2000/svg';
interface Box { left: number; top: number; width: number; height: number }
// The part of the picture that is seen, as shares of its width and height, from below.
interface View { x0: number; x1: number; y0: number; y1: number }
const WHOLE: View = { x0: 0, x1: 1, y0: 0, y1: 1 };

function element(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

export class Figure {
  private readonly svg: SVGSVGElement;
  private readonly plot: SVGGElement;
  private readonly box: Box;
  private readonly spans: { x: Span; y: Span; y2: Span | null };
  private readonly still: Map<Element, string> = new Map();
  private readonly tip: HTMLElement;
  private readonly hidden: Set<number> = new Set();
  private view: View = { ...WHOLE };

  constructor(private readonly root: HTMLElement, private readonly chart: Chart) {
    this.svg = root.querySelector('svg')!;
    this.plot = this.svg.querySelector('g.plot')!;
    const frame = this.svg.querySelector('rect.frame')!;
    const at = (name: string) => Number(frame.getAttribute(name));
    this.box = { left: at('x'), top: at('y'), width: at('width'), height: at('height') };
    const span = (axis: Axis | null, key: string): Span | null => {
      const range = this.plot.dataset[key]?.split(' ').map(Number);
      return axis && range ? { scale: axis.scale, from: range[0]!, to: range[1]! } : null;
    };
    this.spans = {
      x: span(this.chart.x, 'x')!, y: span(this.chart.y, 'y')!, y2: span(this.chart.y2, 'y2'),
    };
    for (const part of this.svg.querySelectorAll('.axis-x,.axis-y,.axis-y2,.words')) {
      this.still.set(part, part.innerHTML);
    }
    for (const path of this.plot.querySelectorAll('path')) this.still.set(path, path.getAttribute('d')!);
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    root.append(this.tip);
    this.tools();
    this.legend();
    this.pointer();
    root.addEventListener('fathom:redraw', () => this.axes());
  }

  private tools(): void {
    const moves: [string, () => void][] = this.chart.x.names.length ? [] : [
      ['Zoom in', () => this.zoom(0.5)],
      ['Zoom out', () => this.zoom(2)],
      ['Left', () => this.shift(-0.5)],
      ['Right', () => this.shift(0.5)],
      ['Whole', () => this.show({ ...WHOLE })],
    ];
    toolbar(this.root, this.chart.title, [...moves, ...saving(this.svg, this.chart.title)]);
  }

  private zoom(times: number): void {
    const half = ((this.view.x1 - this.view.x0) * times) / 2;
    const middle = (this.view.x0 + this.view.x1) / 2;
    this.show({ ...this.view, x0: middle - half, x1: middle + half });
  }

  private shift(by: number): void {
    const wide = this.view.x1 - this.view.x0;
    const from = Math.min(1 - wide, Math.max(0, this.view.x0 + by * wide));
    this.show({ ...this.view, x0: from, x1: from + wide });
  }

  private show(view: View): void {
    const clamp = (v: number) => Math.min(1, Math.max(0, v));
    this.view = { x0: clamp(view.x0), x1: clamp(view.x1), y0: clamp(view.y0), y1: clamp(view.y1) };
    const { x0, x1, y0, y1 } = this.view;
    if (x1 - x0 < 1e-7 || y1 - y0 < 1e-7) this.view = { ...WHOLE };
    const whole = Object.entries(WHOLE).every(([key, v]) => this.view[key as keyof View] === v);
    if (whole) {
      this.plot.removeAttribute('transform');
      for (const [part, text] of this.still) {
        if (part.tagName === 'path') part.setAttribute('d', text); else part.innerHTML = text;
      }
    } else {
      this.move();
      this.lines();
      this.axes();
    }
    this.root.dataset['view'] = whole ? 'whole' : 'part';
  }

  private move(): void {
    const { left, top, width, height } = this.box;
    const { x0, x1, y0, y1 } = this.view;
    const [sx, sy] = [1 / (x1 - x0), 1 / (y1 - y0)];
    const dx = left - sx * (left + x0 * width);
    const dy = top - sy * (top + (1 - y1) * height);
    this.plot.setAttribute('transform', `translate(${dx} ${dy}) scale(${sx} ${sy})`);
  }

  // Long lines are drawn anew for what is seen, so that a zoom shows every value.
  private lines(): void {
    const { left, top, width, height } = this.box;
    const seen = this.part(this.spans.x, this.view.x0, this.view.x1);
    this.chart.series.forEach((series, index) => {
      const path = this.plot.querySelector(`g.s[data-s="${index}"] > path.l, g.s[data-s="${index}"] > path.d`);
      const span = series.right ? this.spans.y2 : this.spans.y;
      if (!path || !span || series.x.length < 1000) return;
      let d = '';
      let pen = false;
      for (const n of thin(series, seen.from, seen.to, Math.round(width))) {
        const x = left + share(this.spans.x, series.x[n]!) * width;
        const up = series.y[n]! <= 0 && span.scale === 'log' ? 0 : share(span, series.y[n]!);
        const y = top + (1 - Math.min(5, Math.max(-4, up))) * height;
        if (Number.isFinite(x) && Number.isFinite(y)) {
          d += `${pen ? 'L' : 'M'}${x.toFixed(4)} ${y.toFixed(2)}`;
          pen = true;
        } else {
          pen = false;
        }
      }
      path.setAttribute('d', d || 'M0 0');
    });
  }

  private part(span: Span, from: number, to: number): Span {
    return { scale: span.scale, from: valueAt(span, from), to: valueAt(span, to) };
  }

  private axes(): void {
    const { left, top, width, height } = this.box;
    const [bottom, right] = [top + height, left + width];
    const text = (x: number, y: number, anchor: string, words: string) => {
      const made = element('text', { x: x.toFixed(1), y: y.toFixed(1), 'text-anchor': anchor });
      made.textContent = words;
      return made;
    };
    const rule = (d: string) => element('path', { class: 'rule', d });
    const fill = (name: string, parts: SVGElement[]) => {
      this.svg.querySelector(`.${name}`)?.replaceChildren(...parts);
    };
    const x = this.part(this.spans.x, this.view.x0, this.view.x1);
    if (!this.chart.x.names.length) {
      fill('axis-x', ticks(x, this.chart.x.unit, 9).flatMap(([value, words]) => {
        const at = left + share(x, value) * width;
        return [rule(`M${at.toFixed(1)} ${top.toFixed(1)}V${bottom.toFixed(1)}`), text(at, bottom + 17, 'middle', words)];
      }));
    }
    const y = this.part(this.spans.y, this.view.y0, this.view.y1);
    fill('axis-y', ticks(y, this.chart.y.unit, 6).flatMap(([value, words]) => {
      const at = bottom - share(y, value) * height;
      return [rule(`M${left.toFixed(1)} ${at.toFixed(1)}H${right.toFixed(1)}`), text(left - 7, at + 4, 'end', words)];
    }));
    if (this.spans.y2 && this.chart.y2) {
      const y2 = this.part(this.spans.y2, this.view.y0, this.view.y1);
      fill('axis-y2', ticks(y2, this.chart.y2.unit, 6).map(([value, words]) =>
        text(right + 7, bottom - share(y2, value) * height + 4, 'start', words)));
    }
    for (const word of this.svg.querySelectorAll<SVGTextElement>('.words text')) {
      const { x: dataX, y: dataY } = word.dataset;
      const at = dataX !== undefined ? share(x, Number(dataX)) : share(y, Number(dataY));
      word.style.display = at >= 0 && at <= 1 ? '' : 'none';
      if (dataX !== undefined) word.setAttribute('x', (left + at * width + 4).toFixed(1));
      else word.setAttribute('y', (bottom - at * height - 4).toFixed(1));
    }
  }

  private legend(): void {
    this.svg.setAttribute('role', 'group');
    for (const key of this.svg.querySelectorAll<SVGGElement>('.key')) {
      const index = Number(key.dataset['s']);
      const toggle = () => {
        const off = !this.hidden.delete(index);
        if (off) this.hidden.add(index);
        key.classList.toggle('off', off);
        key.setAttribute('aria-pressed', String(!off));
        const series = this.plot.querySelector<SVGGElement>(`g.s[data-s="${index}"]`);
        if (series) series.style.display = off ? 'none' : '';
      };
      key.setAttribute('role', 'button');
      key.setAttribute('tabindex', '0');
      key.setAttribute('aria-pressed', 'true');
      key.setAttribute('aria-label', `Show ${this.chart.series[index]?.name ?? ''}`);
      key.addEventListener('click', toggle);
      key.addEventListener('keydown', (event) => {
        if (event.key === 'Enter' || event.key === ' ') {
          event.preventDefault();
          toggle();
        }
      });
    }
  }

  // A place under the pointer, as shares of what is seen; none outside of the plot.
  private under(event: PointerEvent): { x: number; y: number } | null {
    const rect = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / rect.width;
    const x = ((event.clientX - rect.left) * scale - this.box.left) / this.box.width;
    const y = 1 - ((event.clientY - rect.top) * scale - this.box.top) / this.box.height;
    return x >= 0 && x <= 1 && y >= 0 && y <= 1 ? { x, y } : null;
  }

  private pointer(): void {
    const cross = element('path', { class: 'cross', d: '' });
    const drag = element('rect', { class: 'drag', width: 0, height: 0 });
    this.svg.append(cross, drag);
    let from: { x: number; y: number } | null = null;
    const { left, top, width, height } = this.box;
    this.svg.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'touch' && !this.chart.x.names.length) from = this.under(event);
    });
    this.svg.addEventListener('pointermove', (event) => {
      const at = this.under(event);
      this.hover(event, at, cross);
      if (from && at) {
        const [x, y] = [Math.min(from.x, at.x), Math.max(from.y, at.y)];
        drag.setAttribute('x', String(left + x * width));
        drag.setAttribute('y', String(top + (1 - y) * height));
        drag.setAttribute('width', String(Math.abs(from.x - at.x) * width));
        drag.setAttribute('height', String(Math.abs(from.y - at.y) * height));
      }
    });
    this.svg.addEventListener('pointerup', (event) => {
      const at = this.under(event);
      drag.setAttribute('width', '0');
      if (from && at && Math.abs(at.x - from.x) > 0.01) {
        const { x0, x1, y0, y1 } = this.view;
        const x = (s: number) => x0 + s * (x1 - x0);
        const y = (s: number) => y0 + s * (y1 - y0);
        const tall = Math.abs(at.y - from.y) > 0.1;
        this.show({
          x0: x(Math.min(from.x, at.x)), x1: x(Math.max(from.x, at.x)),
          y0: tall ? y(Math.min(from.y, at.y)) : y0, y1: tall ? y(Math.max(from.y, at.y)) : y1,
        });
      }
      from = null;
    });
    this.svg.addEventListener('dblclick', () => this.show({ ...WHOLE }));
    this.svg.addEventListener('pointerleave', () => {
      from = null;
      this.tip.style.display = 'none';
      cross.setAttribute('d', '');
      drag.setAttribute('width', '0');
    });
  }

  private hover(event: PointerEvent, at: { x: number; y: number } | null, cross: SVGElement): void {
    if (!at || !this.chart.series.length) {
      this.tip.style.display = 'none';
      cross.setAttribute('d', '');
      return;
    }
    const x = valueAt(this.part(this.spans.x, this.view.x0, this.view.x1), at.x);
    const lines: string[] = [];
    let told = '';
    this.chart.series.forEach((series, index) => {
      if (this.hidden.has(index) || !series.x.length) return;
      const n = nearest(series.x, x);
      const axis = series.right && this.chart.y2 ? this.chart.y2 : this.chart.y;
      told ||= this.chart.x.names[Math.round(series.x[n]!)] ?? label(this.chart.x.unit, series.x[n]!);
      const value = series.y[n]!;
      lines.push(`${series.name}: ${Number.isFinite(value) ? label(axis.unit, value) : 'n/a'}`);
    });
    const { left, top, width, height } = this.box;
    cross.setAttribute('d', `M${left + at.x * width} ${top}v${height}`);
    this.tip.textContent = [`${this.chart.x.label}: ${told}`, ...lines].join('\n');
    this.tip.style.display = 'block';
    const rect = this.root.getBoundingClientRect();
    const [px, py] = [event.clientX - rect.left, event.clientY - rect.top];
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${px + wide + 24 > rect.width ? px - wide - 12 : px + 14}px`;
    this.tip.style.top = `${py + 12}px`;
  }
}
