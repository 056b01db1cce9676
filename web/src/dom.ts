// Elements from values. Text is always text: nothing that stands in a run file becomes markup.

type Child = Node | string | null;

export function make<K extends keyof HTMLElementTagNameMap>(
  name: K, attributes: Record<string, string> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function button(words: string, act: () => void): HTMLButtonElement {
  const made = make('button', { type: 'button' }, words);
  made.addEventListener('click', act);
  return made;
}

export function setText(element: Element, words: string): void {
  if (element.textContent !== words) element.textContent = words;
}

export class Failure extends Error {}

// Asks the server; what it refuses is thrown in its words.
export async function ask(path: string, method = 'GET', body?: unknown): Promise<any> {
  const init: RequestInit = { method };
  if (method !== 'GET') {
    init.headers = { 'content-type': 'application/json' };
    init.body = JSON.stringify(body ?? {});
  }
  const answer = await fetch(path, init);
  const text = await answer.text();
  let value: any = null;
  try {
    value = JSON.parse(text);
  } catch {
    // Not ours: a proxy's page, or nothing.
  }
  if (!answer.ok) throw new Failure(value?.error?.message || `the server answered ${answer.status}`);
  return value;
}

export const runUrl = (name: string, rest = '') => `/api/v1/runs/${encodeURIComponent(name)}${rest}`;

export function digits(value: number): string {
  if (!Number.isFinite(value)) return 'n/a';
  return value.toLocaleString('en', { maximumSignificantDigits: value >= 1000 ? 4 : 3 });
}

export function when(unixMs: number): string {
  return unixMs > 0 ? new Date(unixMs).toLocaleString() : '';
}

export function span(seconds: number): string {
  const s = Math.round(seconds);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}
