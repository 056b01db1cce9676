// The page of one run. Changes come as server-sent events and are put where they belong; nothing is
// loaded anew.

import { ask, button, digits, Failure, make, runUrl, setText, when } from './dom';
import { Plot, type Line } from './plot';

interface Step {
  name: string; path: string; verb: string; describe: string; depth: number; rounds: number;
  state: string; cells: number; round: number;
}
interface Change {
  anew?: boolean; behind?: boolean; error?: string; head?: any; columns?: string[]; state?: string; state_line?: string;
  totals?: number[]; outline?: Partial<Step>[]; left?: any; now?: any;
  course?: { from: number; each: number; points: (number | null)[][] };
  cells?: any[]; events?: any[]; verdicts?: any[];
}

// Rows that are kept on the page: a day has more than anybody reads.
const ROWS = 500;
const SIGNS: Record<string, string> = {
  waiting: '\u00b7', running: '\u25b6', done: '\u2713', cut: '\u2717', 'left-out': '\u2013',
};

export class LivePage {
  private readonly lead = document.getElementById('lead')!;
  private readonly link = document.getElementById('link')!;
  private readonly state = make('p', { class: 'state', id: 'state', role: 'status' });
  private readonly left = make('p', { id: 'left' });
  private readonly acts = make('p', { class: 'acts' });
  private readonly now = make('div', { class: 'now', id: 'now' });
  private readonly tree = make('ul', { class: 'tree', id: 'outline' });
  private readonly cells = make('tbody', { id: 'cells' });
  private readonly events = make('ol', { id: 'events', class: 'log', tabindex: '0' });
  private readonly verdicts = make('ul', { id: 'verdicts', class: 'log' });
  private readonly checks = make('p', { class: 'soft' }, 'They are made at the end of each load, and of the run.');
  private readonly counts = make('p', { class: 'soft' });
  private readonly note = make('p', { class: 'soft', id: 'each' });
  private readonly plots = {
    iops: new Plot('IOPS', { label: 'I/Os per second', unit: 'plain', log: false }),
    bandwidth: new Plot('Bandwidth', { label: 'bytes per second', unit: 'rate', log: false }),
    latency: new Plot('Latency', { label: 'latency', unit: 'nanos', log: true }),
  };
  private steps: Step[] = [];
  private points: (number | null)[][] = [];
  private columns: string[] = [];
  private shown = '';
  private mayAct = false;
  private source: EventSource | null = null;

  constructor(private readonly name: string, main: HTMLElement) {
    const head = make('tr', {}, ...[
      'load', 'IOPS', 'MB/s', 'mean us', 'p50 us', 'p99 us', 'p99.99 us', 'max us', 'seconds', '',
    ].map((words) => make('th', { scope: 'col' }, words)));
    main.replaceChildren(
      this.state, this.left, this.acts,
      make('section', { 'aria-label': 'Now' }, this.now),
      this.plots.iops.root, this.plots.latency.root, this.plots.bandwidth.root, this.note,
      make('h2', {}, 'Plan'), this.tree,
      make('h2', {}, 'Loads that ended'),
      make('div', { class: 'table' }, make('table', {}, make('thead', {}, head), this.cells)),
      make('h2', {}, 'Checks'), this.checks, this.verdicts,
      make('h2', {}, 'Events'), this.events, this.counts,
    );
    document.title = `${name}: fathom`;
    setText(this.lead, name);
    setText(this.link, 'reading the run file');
    void ask('/api/v1/session').then((all) => { this.mayAct = all.may_act; this.buttons(); });
    this.open();
  }

  private open(): void {
    this.source = new EventSource(runUrl(this.name, '/live'));
    const live = () => {
      setText(this.link, 'live');
      this.link.className = 'live';
    };
    this.source.onopen = live;
    this.source.onmessage = (event) => {
      live();
      this.take(JSON.parse(event.data as string) as Change);
    };
    this.source.onerror = () => {
      this.link.className = '';
      setText(this.link, 'reconnecting: the server does not answer; the run goes on without it');
      if (this.source?.readyState === EventSource.CLOSED) {
        setTimeout(() => this.open(), 2000);
      }
    };
  }

  private take(change: Change): void {
    if (change.error) {
      setText(this.link, change.error);
      return;
    }
    if (change.behind) setText(this.link, 'reading the run file');
    if (change.anew) this.anew(change);
    if (change.state) {
      this.state.className = `state ${change.state}`;
      setText(this.state, change.state_line ?? change.state);
      if (this.shown !== change.state) {
        this.shown = change.state;
        this.buttons();
      }
    }
    setText(this.left, change.state === 'running' ? change.left?.text ?? '' : '');
    if (change.outline) this.outline(change.outline);
    if ('now' in change) this.current(change.now);
    if (change.course) this.course(change.course);
    change.cells?.forEach((cell) => this.cell(cell));
    change.verdicts?.forEach((verdict) => this.verdict(verdict));
    if (change.verdicts) setText(this.checks, this.verdicts.childElementCount ? '' : 'No check speaks against it.');
    change.events?.forEach((event) => this.event(event));
    const [cells, events] = change.totals ?? [];
    setText(this.counts, `${cells} loads and ${events} events; the last ${ROWS} of each are shown here, all in the report.`);
  }

  private anew(change: Change): void {
    for (const list of [this.cells, this.events, this.verdicts, this.tree]) list.replaceChildren();
    this.steps = [];
    this.points = [];
    this.columns = change.columns ?? [];
    const { head } = change;
    const targets = (head.targets as any[]).map((target) =>
      [target.name, target.model, target.serial].filter(Boolean).join(', '));
    setText(this.lead, `${this.name}: ${head.title || head.plan} on ${targets.join('; ')}, started ${when(head.started_unix_ms)}`);
  }

  private buttons(): void {
    const running = this.shown === 'running';
    const cut = ['cut-off', 'interrupted', 'failed'].includes(this.shown);
    const link = (words: string, kind: string) =>
      make('a', { href: runUrl(this.name, `/report.${kind}`), target: '_blank', rel: 'noopener' }, words);
    const acts: Node[] = [];
    if (running && this.mayAct) acts.push(button('Stop the run', () => void this.act('/stop', {})));
    if (cut && this.mayAct) acts.push(button('Resume the run', () => void this.resume()));
    acts.push(link('Report', 'html'), link('PDF', 'pdf'), link('Workbook', 'xlsx'), link('CSV', 'csv'), link('JSON', 'json'));
    if (!this.mayAct && (running || cut)) {
      acts.push(make('span', { class: 'soft' }, 'To stop or resume, open the address with the token that fathom serve printed.'));
    }
    this.acts.replaceChildren(...acts);
  }

  private async act(what: string, body: unknown): Promise<void> {
    try {
      await ask(runUrl(this.name, what), 'POST', body);
    } catch (error) {
      setText(this.link, error instanceof Failure ? error.message : String(error));
    }
  }

  private async resume(): Promise<void> {
    const serial = window.prompt('A run that writes to a drive needs its serial number (fathom devices shows it). Leave it empty for one that only reads, or for a virtual drive.');
    if (serial === null) return;
    await this.act('/resume', { destroy: serial.trim() ? [serial.trim()] : [] });
  }

  private outline(steps: Partial<Step>[]): void {
    const first = this.tree.childElementCount === 0;
    steps.forEach((step, n) => {
      const whole = Object.assign(this.steps[n] ?? {}, step) as Step;
      this.steps[n] = whole;
      if (first) {
        const row = make('li', {}, make('span', { class: 'sign' }), make('span', { class: 'name' }), make('span', { class: 'soft' }));
        row.style.paddingLeft = `${whole.depth * 22}px`;
        this.tree.append(row);
      }
      const row = this.tree.children[n];
      if (!row) return;
      row.className = whole.state;
      const round = whole.rounds ? `round ${whole.round} of at most ${whole.rounds}` : '';
      const cells = whole.cells ? `${whole.cells} measured` : '';
      setText(row.children[0]!, SIGNS[whole.state] ?? '');
      setText(row.children[1]!, `${whole.name} (${whole.verb})`);
      setText(row.children[2]!, [whole.state, round, cells, whole.describe].filter(Boolean).join(', '));
    });
  }

  private current(now: any): void {
    if (!now) {
      this.now.replaceChildren();
      return;
    }
    if (this.now.childElementCount === 0) {
      this.now.append(make('h2', {}), make('p', { class: 'soft' }), make('p', { class: 'big', id: 'interval' }), make('p', { id: 'so-far' }));
    }
    const [title, describe, line, soFar] = [...this.now.children];
    setText(title!, now.name);
    setText(describe!, now.describe ?? '');
    setText(line!, now.line ?? '');
    setText(soFar!, now.so_far ? `${now.seconds.toFixed(0)} s so far: ${now.so_far}` : '');
  }

  private course(course: NonNullable<Change['course']>): void {
    this.points.length = Math.min(this.points.length, course.from);
    this.points.push(...course.points);
    const column = (name: string) => {
      const at = this.columns.indexOf(name);
      return this.points.map((point) => point[at] ?? null);
    };
    const x = column('at_s').map((at) => at ?? 0);
    const line = (name: string, color: number, key: string): Line => ({ name, color, values: column(key) });
    const spread = course.each > 1;
    const iops: Line[] = [line('IOPS', 0, 'iops')];
    if (spread) iops.unshift({ name: 'lowest to highest interval', color: 6, values: column('iops_max'), low: column('iops_min') });
    this.plots.iops.draw(x, iops);
    this.plots.bandwidth.draw(x, [line('bandwidth', 2, 'bandwidth_bytes')]);
    this.plots.latency.draw(x, [
      line('maximum', 7, 'max_ns'), line('p99.99', 5, 'p99.99_ns'), line('p99', 0, 'p99_ns'),
      line('p50', 2, 'p50_ns'), line('mean', 6, 'mean_ns'),
    ].filter((one) => one.values.some((v) => v !== null)));
    setText(this.note, spread ? `Each point stands for ${course.each} intervals: rates are their mean, latencies their highest.` : '');
  }

  private cell(cell: any): void {
    const us = (ns: number | null) => (ns === null ? 'n/a' : digits(ns / 1000));
    const mark = cell.status === 'done' ? (cell.counted ? '' : 'not counted') : cell.status;
    const values = [digits(cell.iops), digits(cell.bandwidth_bytes / 1e6), us(cell.mean_ns), us(cell.p50_ns), us(cell.p99_ns), us(cell['p99.99_ns']), us(cell.max_ns), digits(cell.seconds)];
    const row = make('tr', { 'data-line': cell.line, title: cell.describe }, make('th', { scope: 'row' }, cell.name),
      ...values.map((value) => make('td', { class: 'n' }, value)), make('td', {}, mark));
    this.cells.prepend(row);
    while (this.cells.childElementCount > ROWS) this.cells.lastElementChild!.remove();
  }

  private verdict(verdict: any): void {
    if (verdict.status === 'pass') return;
    this.verdicts.append(make('li', { class: verdict.status }, `${verdict.status}: ${verdict.name}: ${verdict.text}`));
    while (this.verdicts.childElementCount > ROWS) this.verdicts.firstElementChild!.remove();
  }

  private event(event: any): void {
    const at = `${(event.at_s as number).toFixed(1)} s`;
    this.events.prepend(make('li', {}, make('span', { class: 'soft' }, `${event.kind} at ${at} `), event.text));
    while (this.events.childElementCount > ROWS) this.events.lastElementChild!.remove();
  }
}
