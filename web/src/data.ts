// Values of a figure, as the page carries them.

import type { Scale, Unit } from './scale';

export interface Axis { label: string; unit: Unit; scale: Scale; names: string[] }
export interface Series {
  name: string; style: string; right: boolean; x: Float64Array; y: Float64Array;
}
export interface Chart { title: string; x: Axis; y: Axis; y2: Axis | null; series: Series[] }
export interface Side { label: string; unit: Unit; scale: Scale; from: number; to: number }
export interface MapData {
  title: string; x: Side; y: Side; meaning: string; columns: number; rows: number;
  // Row by row from below; NaN is an empty field.
  values: Float64Array;
  lanes: { unit: Unit; lines: { name: string; x: Float64Array; y: Float64Array }[] }[];
}

type Packed = (number | null)[] | { f32: string } | { from: number; step: number; n: number };

function unpack(packed: Packed): Float64Array {
  if (Array.isArray(packed)) return Float64Array.from(packed, (v) => v ?? NaN);
  if ('f32' in packed) {
    const text = atob(packed.f32);
    const view = new DataView(new ArrayBuffer(text.length));
    for (let n = 0; n < text.length; n += 1) view.setUint8(n, text.charCodeAt(n));
    return Float64Array.from({ length: text.length / 4 }, (_, n) => view.getFloat32(n * 4, true));
  }
  return Float64Array.from({ length: packed.n }, (_, n) => packed.from + packed.step * n);
}

// A chart or a map, as it stands in the page.
export function parse(text: string): Chart | { map: MapData } {
  const raw = JSON.parse(text) as Chart | { map: MapData };
  if ('map' in raw) {
    const { map } = raw;
    map.values = unpack(map.values as unknown as Packed);
    for (const line of map.lanes.flatMap((lane) => lane.lines)) {
      [line.x, line.y] = [unpack(line.x as unknown as Packed), unpack(line.y as unknown as Packed)];
    }
    return raw;
  }
  for (const series of raw.series) {
    // An axis that is that of the first series is not told again.
    series.x = series.x ? unpack(series.x as unknown as Packed) : raw.series[0]!.x;
    series.y = unpack(series.y as unknown as Packed);
  }
  return raw;
}

// The index of the value nearest to x; lists are in order.
export function nearest(list: Float64Array, x: number): number {
  let low = 0;
  let high = list.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle]! <= x) low = middle; else high = middle;
  }
  return Math.abs((list[low] ?? NaN) - x) <= Math.abs((list[high] ?? NaN) - x) ? low : high;
}

// The points to draw when `columns` pixels stand for from..to: each keeps its first, lowest, highest and
// last value.
export function thin(series: Series, from: number, to: number, columns: number): number[] {
  const { x, y } = series;
  const first = Math.max(0, nearest(x, from) - 1);
  const last = Math.min(x.length - 1, nearest(x, to) + 1);
  const kept: number[] = [];
  if (last - first <= columns * 4) {
    for (let n = first; n <= last; n += 1) kept.push(n);
    return kept;
  }
  const column = (n: number) => Math.floor(((x[n]! - from) / (to - from)) * columns);
  for (let start = first; start <= last;) {
    let end = start + 1;
    let low = start;
    let high = start;
    while (end <= last && column(end) === column(start)) {
      if (y[end]! < y[low]! || Number.isNaN(y[low]!)) low = end;
      if (y[end]! > y[high]! || Number.isNaN(y[high]!)) high = end;
      end += 1;
    }
    kept.push(...[...new Set([start, low, high, end - 1])].sort((a, b) => a - b));
    start = end;
  }
  return kept;
}
