// Tables as text: tabs between fields, one line a row, as spreadsheets take it.

export function textOf(table: HTMLTableElement): string {
  const lines: string[] = [];
  for (const row of table.rows) {
    lines.push([...row.cells].map((cell) => cell.textContent?.trim() ?? '').join('\t'));
  }
  return `${lines.join('\n')}\n`;
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page from a file may not be allowed to: the old way.
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

export function copyButtons(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>('button.copy')) {
    button.addEventListener('click', () => {
      const table = document.getElementById(button.dataset['table'] ?? '') as HTMLTableElement | null;
      if (!table) return;
      void copy(textOf(table)).then(() => {
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy as text'; }, 1500);
      });
    });
  }
}
