// What a report does besides being read. Figures are set up when they come into sight, so that a page of
// hundreds opens at once.

import { parse } from './data';
import { Figure } from './figure';
import { MapFigure } from './map';
import { saving, toolbar } from './save';
import { copyButtons } from './tables';

function setUp(root: HTMLElement): void {
  if (root.dataset['view']) return;
  root.dataset['view'] = 'whole';
  const data = root.querySelector('script.data')?.textContent;
  if (!data) {
    const svg = root.querySelector('svg');
    const title = svg?.querySelector('title')?.textContent ?? 'figure';
    if (svg) toolbar(root, title, saving(svg, title));
    return;
  }
  const found = parse(data);
  if ('map' in found) new MapFigure(root, found.map);
  else new Figure(root, found);
}

const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      watch.unobserve(entry.target);
      setUp(entry.target as HTMLElement);
    }
  }
}, { rootMargin: '400px' });

document.querySelectorAll<HTMLElement>('figure').forEach((figure) => watch.observe(figure));
copyButtons();
