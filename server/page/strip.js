// The rounds of a reply on a time axis: drafting above, verification below, to scale.
import { el, largest, roveFocus, svg, timeText } from './dom.js';
import { originOf } from './reply.js';

const lane = { draft: 16, verify: 42, height: 20 };
const height = 92;
const leastWidth = 1.5; // of a bar: drafting may take a thousandth of a verification
const left = 50; // for the names of the lanes

/** "Round 12: …", for those who do not see the bars. */
export function describeRound(round, index) {
  const verified = `verified in ${timeText(round.end_us - round.start_us)}`;
  if (round.draft_tokens.length === 0) return `Round ${index + 1}: no draft, ${verified}`;
  const drafted = round.draft_start_us === undefined ? '' : ` in ${timeText(round.draft_end_us - round.draft_start_us)}`;
  return `Round ${index + 1}: ${round.draft_tokens.length} tokens drafted by ${round.drafter}${drafted}, ${verified}, ` +
    `${round.num_accepted} accepted`;
}

export function hasTimes(round) {
  return round.start_us !== undefined && round.end_us !== undefined;
}

export class Strip {
  /** @param select (index): a round is pointed at */
  constructor(select) {
    this.zoom = 1;
    this.rounds = [];
    this.selected = undefined;
    this.bars = el('div', { class: 'scroll strip' });
    this.note = el('p', { class: 'quiet' });
    const zoomButton = (label, text, factor) => el('button', {
      type: 'button', class: 'small', 'aria-label': label,
      click: () => this.magnify(factor),
    }, text);
    this.element = el('div', {},
      el('div', { class: 'strip_head' }, el('h3', {}, 'Rounds'),
        zoomButton('Show more time', '−', 0.5), zoomButton('Show less time', '+', 2), zoomButton('Show all rounds', 'All', 0)),
      this.bars, this.note);
    const pick = (event) => {
      const bar = event.target.closest?.('.round');
      if (bar) select(Number(bar.dataset.round));
    };
    // Not `pointerover`, which also comes where the bars are drawn again under a pointer that rests.
    for (const name of ['pointermove', 'focusin', 'click']) this.bars.addEventListener(name, pick);
    roveFocus(this.bars, '.round');
    new ResizeObserver(() => this.draw()).observe(this.bars);
  }

  magnify(factor) {
    this.zoom = factor === 0 ? 1 : Math.min(64, Math.max(1, this.zoom * factor));
    this.draw();
    this.reveal();
  }

  show(rounds) {
    this.rounds = rounds.every(hasTimes) ? rounds : [];
    this.draw();
    if (this.rounds.length < rounds.length) this.note.textContent = 'This server does not tell when its rounds began and ended.';
  }

  select(index) {
    this.selected = index;
    this.bars.querySelector('.selected')?.classList.remove('selected');
    const bar = this.bars.querySelector(`[data-round="${index}"]`);
    if (bar) {
      bar.classList.add('selected');
      this.bars.querySelector('[tabindex="0"]')?.setAttribute('tabindex', '-1');
      bar.setAttribute('tabindex', '0');
    }
    this.reveal();
  }

  /** Scrolls to the selected round if it is out of view, sideways only. One that is pointed at stays in its place. */
  reveal() {
    const bar = this.bars.querySelector('.selected .verify');
    if (!bar || this.zoom === 1) return;
    const { scrollLeft, clientWidth } = this.bars;
    const x = Number(bar.getAttribute('x'));
    if (x < scrollLeft || x > scrollLeft + clientWidth) this.bars.scrollLeft = x - clientWidth / 2;
  }

  draw() {
    const { rounds } = this;
    const focused = this.bars.contains(document.activeElement) ? document.activeElement.dataset.round : undefined;
    this.note.textContent = '';
    if (rounds.length === 0) return this.bars.replaceChildren();
    const total = Math.max(1, largest(rounds.map((round) => round.end_us))); // an axis has a length
    const width = Math.max(200, this.bars.clientWidth - 2) * this.zoom;
    const scale = (width - left - 4) / total;
    const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Rounds over time' });
    picture.append(...axis(total, scale, width), laneName('draft', lane.draft), laneName('verify', lane.verify));
    rounds.forEach((round, index) => picture.append(this.barsOf(round, index, scale)));
    this.bars.replaceChildren(picture);
    const drafting = sum(rounds, 'draft_start_us', 'draft_end_us');
    this.note.textContent = `Drafting ${timeText(drafting)}, verification ${timeText(sum(rounds, 'start_us', 'end_us'))}, ` +
      `all ${timeText(total)} from the request’s arrival. A verification has the colour of the token that the model added. Bars have at least ${leastWidth} pixels.`;
    if (focused === undefined) return;
    (this.bars.querySelector(`[data-round="${focused}"]`) ?? this.bars.querySelector('.round')).focus();
  }

  barsOf(round, index, scale) {
    const kind = originOf(round, round.num_accepted);
    const isSelected = index === this.selected;
    const bar = (name, y, begin, end) => svg('rect', {
      class: `${name} ${kind}`, x: left + begin * scale, y, width: Math.max(leastWidth, (end - begin) * scale - 0.5), height: lane.height, rx: 1.5,
    });
    const isTabStop = index === (this.selected ?? 0);
    return svg('g', {
      class: isSelected ? 'round selected' : 'round', role: 'button', tabindex: isTabStop ? '0' : '-1', 'data-round': index,
      'aria-label': describeRound(round, index),
    }, round.draft_start_us === undefined ? undefined : bar('draft', lane.draft, round.draft_start_us, round.draft_end_us),
    bar('verify', lane.verify, round.start_us, round.end_us));
  }
}

function sum(rounds, begin, end) {
  return rounds.reduce((total, round) => total + (round[begin] === undefined ? 0 : round[end] - round[begin]), 0);
}

function laneName(name, y) {
  return svg('text', { class: 'axis', x: 0, y: y + 14 }, name);
}

/** Ticks at 1, 2 or 5 times a power of ten, at least 70 pixels apart. */
function axis(total, scale, width) {
  const least = 70 / scale;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= least);
  const marks = [];
  for (let time = 0; time <= total; time += step) {
    const x = left + time * scale;
    marks.push(svg('line', { class: 'axis', x1: x, x2: x, y1: 10, y2: 68 }));
    if (x + 52 < width || time === 0) marks.push(svg('text', { class: 'axis', x, y: 82 }, timeText(time, step)));
  }
  return marks;
}
