// The library: the run files of the folder, searched, tagged, compared, and runs started.

import { ask, button, digits, Failure, make, runUrl, setText, when } from './dom';

const RENEW = 5000;

export class LibraryPage {
  private readonly link = document.getElementById('link')!;
  private readonly search = make('input', {
    type: 'search', id: 'search', placeholder: 'plan, drive, serial, state, tag', 'aria-label': 'Search runs',
  });
  private readonly rows = make('tbody', { id: 'runs' });
  private readonly chosen: Set<string> = new Set();
  private readonly compare = button('Compare the chosen', () => this.compareChosen());
  private readonly starter = make('div', {});
  private readonly none = make('p', {});
  private mayAct: boolean | null = null;
  private last = '';

  constructor(main: HTMLElement) {
    const head = make('tr', {}, ...[
      'choose', 'run', 'plan', 'drive', 'started', 'state', 'highest IOPS', 'highest MB/s', 'tags', 'report',
    ].map((words) => make('th', { scope: 'col' }, words)));
    this.search.addEventListener('input', () => void this.renew());
    main.replaceChildren(
      make('p', { class: 'acts' }, this.search, this.compare),
      make('div', { class: 'table' }, make('table', {}, make('thead', {}, head), this.rows)),
      this.none, this.starter,
    );
    document.body.classList.add('library');
    document.title = 'fathom: runs';
    setText(document.getElementById('lead')!, 'Runs in this folder');
    void this.renew();
    setInterval(() => void this.renew(), RENEW);
  }

  private async renew(): Promise<void> {
    try {
      const all = await ask(`/api/v1/runs?search=${encodeURIComponent(this.search.value)}`);
      setText(this.link, '');
      const text = JSON.stringify(all);
      if (text === this.last) return;
      this.last = text;
      if (this.mayAct === null) {
        this.mayAct = all.may_act as boolean;
        this.mayStart();
      }
      // Whoever is writing a tag is not interrupted.
      if (this.rows.contains(document.activeElement) && document.activeElement?.tagName === 'INPUT'
        && (document.activeElement as HTMLInputElement).type === 'text') { this.last = ''; return; }
      this.rows.replaceChildren(...(all.runs as any[]).map((run) => this.row(run)));
      setText(this.none, all.runs.length ? '' : 'No run here, or none with these words. fathom run makes one.');
    } catch (error) {
      setText(this.link, error instanceof Failure ? error.message : 'the server does not answer');
    }
    this.compare.disabled = this.chosen.size < 2;
  }

  private row(run: any): HTMLTableRowElement {
    const name = run.name as string;
    const box = make('input', { type: 'checkbox', 'aria-label': `Choose ${name}` });
    box.checked = this.chosen.has(name);
    box.addEventListener('change', () => {
      if (box.checked) this.chosen.add(name); else this.chosen.delete(name);
      this.compare.disabled = this.chosen.size < 2;
    });
    const page = make('a', { href: `/runs/${encodeURIComponent(name)}` }, name);
    if (run.error) {
      return make('tr', { class: 'unreadable' }, make('td', {}), make('th', { scope: 'row' }, name),
        make('td', { colspan: '8' }, run.error));
    }
    const drives = (run.targets as any[]).map((t) => [t.model || t.name, t.serial].filter(Boolean).join(', '));
    const report = make('a', {
      href: runUrl(name, '/report.html'), target: '_blank', rel: 'noopener', 'aria-label': `Report of ${name}`,
    }, 'open');
    return make('tr', {}, make('td', {}, box), make('th', { scope: 'row' }, page),
      make('td', { title: run.title }, run.plan), make('td', {}, drives.join('; ')),
      make('td', {}, when(run.started_unix_ms)), make('td', { class: `state ${run.state}` }, run.state),
      make('td', { class: 'n' }, digits(run.highest_iops)),
      make('td', { class: 'n' }, digits(run.highest_bandwidth_bytes / 1e6)),
      make('td', {}, this.tags(run)), make('td', {}, report));
  }

  private tags(run: any): HTMLElement {
    const words = (run.tags as string[]).join(', ');
    if (!this.mayAct) return make('span', {}, words);
    const field = make('input', { type: 'text', value: words, size: '14', 'aria-label': `Tags of ${run.name}` });
    field.addEventListener('change', () => {
      const tags = field.value.split(',').map((tag) => tag.trim()).filter(Boolean);
      ask(runUrl(run.name, '/tags'), 'PUT', { tags }).then(() => { field.blur(); void this.renew(); },
        (error: Error) => setText(this.link, error.message));
    });
    return field;
  }

  private compareChosen(): void {
    const query = [...this.chosen].map((name) => `run=${encodeURIComponent(name)}`).join('&');
    window.open(`/api/v1/compare.html?${query}`, '_blank', 'noopener');
  }

  private mayStart(): void {
    this.starter.replaceChildren(this.mayAct
      ? button('Start a run ...', () => void this.startForm())
      : make('p', { class: 'soft' }, 'To start runs and to tag them, open the address with the token that fathom serve printed.'));
  }

  private async startForm(): Promise<void> {
    const [{ plans }, found] = await Promise.all([ask('/api/v1/plans'), ask('/api/v1/devices')]);
    const plan = make('select', { id: 'plan' }, ...(plans as any[]).filter((p) => !p.error).map((p) =>
      make('option', { value: p.name }, `${p.name}: ${p.title}`)));
    const devices = (Array.isArray(found) ? found : found.devices ?? []) as any[];
    const options = make('datalist', { id: 'known-targets' }, ...devices.map((d) =>
      make('option', { value: d.path ?? `/dev/${d.name}` }, [d.model, d.serial].filter(Boolean).join(', '))));
    const target = make('input', { id: 'target', list: 'known-targets', value: 'sim:d5-p5430' });
    const settings = make('input', { id: 'settings', placeholder: 'name=value name=value' });
    const serial = make('input', { id: 'serial', autocomplete: 'off' });
    const readOnly = make('input', { type: 'checkbox', id: 'read-only' });
    const why = make('p', { id: 'refusal', role: 'alert' });
    const field = (id: string, words: string, input: HTMLElement) => make('p', {}, make('label', { for: id }, words), input);
    const warning = make('p', { class: 'warning' });
    const warn = () => {
      const writes = (plans as any[]).find((p) => p.name === plan.value)?.writes as boolean;
      setText(warning, writes && !readOnly.checked
        ? 'This plan writes: everything on the drive is lost. Type its serial number; fathom checks it, and refuses drives that are in use.'
        : 'This plan only reads.');
    };
    plan.addEventListener('change', warn);
    readOnly.addEventListener('change', warn);
    const form = make('form', { id: 'start' }, make('h2', {}, 'Start a run'),
      field('plan', 'Plan', plan), field('target', 'Device, file or virtual drive', target), options,
      field('settings', 'Parameters of the plan', settings), field('read-only', 'Leave out every step that writes', readOnly),
      warning, field('serial', 'Serial number of the drive that may be destroyed', serial),
      make('p', {}, make('button', { type: 'submit' }, 'Start')), why);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      setText(why, 'starting: the instrument is measured first');
      const pairs = settings.value.split(/\s+/).filter(Boolean).map((pair) => {
        const at = pair.indexOf('=');
        return [at < 0 ? pair : pair.slice(0, at), at < 0 ? '' : pair.slice(at + 1)];
      });
      ask('/api/v1/runs', 'POST', {
        plan: plan.value, targets: [target.value.trim()], settings: Object.fromEntries(pairs),
        destroy: serial.value.trim() ? [serial.value.trim()] : [], read_only: readOnly.checked,
      }).then((made) => { window.location.href = `/runs/${encodeURIComponent(made.name)}`; },
        (error: Error) => setText(why, error.message));
    });
    warn();
    this.starter.replaceChildren(form);
    plan.focus();
  }
}
