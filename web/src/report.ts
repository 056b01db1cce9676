// What a report does besides being read. Figures are set up when they come into sight, so that a page of
// hundreds opens at once.

import { Figure } from './figure';
import { copyButtons } from './tables';

function setUp(root: HTMLElement): void {
  const data = root.querySelector('script.data')?.textContent;
  if (data && !root.dataset['view']) {
    root.dataset['view'] = 'whole';
    new Figure(root, data);
  }
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
