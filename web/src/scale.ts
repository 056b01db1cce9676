// Scales, ticks and labels: the rules of crates/report/src/chart/scale.rs. A test in a browser compares
// what both make.

export type Scale = 'linear' | 'log' | 'nines';
export type Unit =
  | 'plain' | 'nanos' | 'seconds' | 'bytes' | 'binary' | 'rate' | 'percent' | 'celsius';

export interface Span { scale: Scale; from: number; to: number }

const DECIMAL: [number, string][] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
const TABLES: Record<Unit, [number, string][]> = {
  plain: DECIMAL,
  bytes: DECIMAL,
  rate: DECIMAL,
  nanos: [[1e9, ' s'], [1e6, ' ms'], [1e3, ' us'], [1, ' ns']],
  seconds: [[3600, ' h'], [60, ' min'], [1, ' s']],
  binary: [[2 ** 40, ' TiB'], [2 ** 30, ' GiB'], [2 ** 20, ' MiB'], [1024, ' KiB'], [1, ' B']],
  percent: [[1, ' %']],
  celsius: [[1, ' \u00b0C']],
};
const ENDS: Partial<Record<Unit, string>> = { bytes: 'B', rate: 'B/s' };

export function label(unit: Unit, value: number): string {
  const table = TABLES[unit];
  const found = table.find(([step]) => Math.abs(value) >= step * 0.999999);
  const [step, prefix] = found ?? table[table.length - 1]!;
  const end = ENDS[unit] ?? '';
  return `${digits(value / step)}${end ? ' ' : ''}${prefix}${end}`;
}

function digits(value: number): string {
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return 'n/a';
  const whole = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(6, Math.max(0, 3 - whole));
  const text = value.toFixed(decimals);
  return text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text;
}

function place(scale: Scale, value: number): number {
  return scale === 'log' ? Math.log10(value) : value;
}

export function share(span: Span, value: number): number {
  const [from, to] = [place(span.scale, span.from), place(span.scale, span.to)];
  return (place(span.scale, value) - from) / (to - from);
}

export function valueAt(span: Span, at: number): number {
  const [from, to] = [place(span.scale, span.from), place(span.scale, span.to)];
  const value = from + at * (to - from);
  return span.scale === 'log' ? 10 ** value : value;
}

export function ticks(span: Span, unit: Unit, most: number): [number, string][] {
  if (span.scale === 'nines') {
    const all: [number, string][] = [];
    for (let n = Math.ceil(span.from); n <= Math.floor(span.to); n += 1) all.push([n, nines(n)]);
    return all;
  }
  const values = span.scale === 'log'
    ? logTicks(span.from, span.to, most, unit)
    : linearTicks(span.from, span.to, most, unit);
  return values.map((value) => [value, label(unit, value)]);
}

function nines(n: number): string {
  if (n <= 0) return '0 %';
  if (n === 1) return '90 %';
  return `99${n > 2 ? '.' : ''}${'9'.repeat(Math.max(0, n - 2))} %`;
}

function linearTicks(from: number, to: number, most: number, unit: Unit): number[] {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0) || !Number.isFinite(rough)) return [from];
  let step = roundStep(rough);
  if (unit === 'seconds' && rough > 1) step = spanStep(rough);
  if (unit === 'binary') step = 2 ** Math.ceil(Math.log2(rough));
  const all: number[] = [];
  for (let n = Math.ceil(from / step - 1e-9); n <= Math.floor(to / step + 1e-9); n += 1) {
    all.push(n * step);
  }
  return all;
}

function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const times = [1, 2, 5, 10].find((t) => t * power >= rough * 0.999999) ?? 10;
  return times * power;
}

const SPANS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
];

function spanStep(rough: number): number {
  return SPANS.find((step) => step >= rough * 0.999999) ?? roundStep(rough / 86400) * 86400;
}

function logTicks(from: number, to: number, most: number, unit: Unit): number[] {
  const all: number[] = [];
  if (unit === 'binary') {
    const low = Math.ceil(Math.log2(from) - 1e-9);
    const high = Math.floor(Math.log2(to) + 1e-9);
    const every = Math.max(1, Math.trunc((high - low) / Math.max(1, most)) + 1);
    for (let power = low; power <= high; power += every) all.push(2 ** power);
    return all;
  }
  const low = Math.floor(Math.log10(from));
  const high = Math.ceil(Math.log10(to));
  const decades = high - low;
  const every = Math.max(1, Math.ceil(decades / Math.max(1, most)));
  const times = decades <= 1 ? [1, 2, 3, 4, 5, 6, 8] : decades <= 3 ? [1, 2, 5] : [1];
  for (let power = low; power <= high; power += every) {
    for (const t of times) {
      const value = t * 10 ** power;
      if (value >= from * 0.999999 && value <= to * 1.000001) all.push(value);
    }
  }
  return all;
}
