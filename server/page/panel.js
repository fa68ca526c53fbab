// The panel about one reply's speculation: figures, why it was not faster, the strip of rounds, and one round in
// detail.
import { el, moveFocus, timeText } from './dom.js';
import { countOrigins, origins } from './reply.js';
import { describeRound, hasTimes, Strip } from './strip.js';
import { drawTree } from './tree.js';

const refresh = 200; // ms between updates while a reply streams, at least

/** What it shows are views {reply, tab, name, element}: `name` says which reply it is, `element` is marked. */
export class Panel {
  constructor(parent) {
    this.element = parent;
    this.tab = undefined; // that is open
    this.views = new Map(); // of each tab, the one shown last
    this.view = undefined;
    this.reply = undefined;
    this.round = undefined; // index of the one in detail
    this.isPinned = false; // the reader chose the round
    this.name = el('p', { class: 'quiet', id: 'panel_name' });
    this.figures = el('dl', { class: 'figures' });
    this.legend = el('ul', { class: 'legend', 'aria-label': 'Tokens by origin' });
    this.why = el('p', { class: 'why' });
    this.whyBox = el('section', { 'aria-labelledby': 'why_title' }, el('h3', { id: 'why_title' }, 'Why not faster?'), this.why);
    this.strip = new Strip((index) => this.pick(index));
    this.detail = el('section', { class: 'detail', 'aria-label': 'Round in detail', focusin: () => (this.isPinned = true) });
    this.empty = el('p', { class: 'quiet' }, 'Figures, rounds and drafts of a reply appear here. Point at a token, or move to it with Tab and the arrow keys, to see the round that made it.');
    this.content = el('div', { hidden: true }, this.figures, this.whyBox, this.strip.element, this.detail);
    parent.append(this.name, this.legend, this.empty, this.content);
    this.clear();
  }

  /** It belongs to the tab that is open. */
  openTab(tab) {
    this.tab = tab;
    if (this.views.has(tab)) this.show(this.views.get(tab), true);
    else this.clear();
  }

  /** A view becomes that of its tab. */
  present(view) {
    this.views.set(view.tab, view);
    if (view.tab === this.tab) this.show(view, true);
  }

  /** A tab has no reply any more. */
  forget(tab) {
    this.views.delete(tab);
    if (tab === this.tab) this.clear();
  }

  clear() {
    this.mark(undefined);
    Object.assign(this, { reply: undefined, round: undefined, isPinned: false });
    this.drawLegend({});
    this.showContent(false);
  }

  mark(view) {
    this.view?.element.classList.remove('shown');
    view?.element.classList.add('shown');
    this.view = view;
    this.name.textContent = view?.name ?? '';
  }

  showContent(hasContent) {
    if (!hasContent) moveFocus(this.content, this.element, { preventScroll: true });
    this.empty.hidden = hasContent;
    this.content.hidden = !hasContent;
  }

  /** Shows a view's reply, or what was added to it. */
  show(view, isFinal = view.reply.isDone) {
    const { reply } = view;
    const isOther = reply !== this.reply;
    if (isOther) Object.assign(this, { reply, round: undefined, isPinned: false });
    this.mark(view);
    const now = performance.now();
    if (!isOther && !isFinal && now < (this.nextAt ?? 0)) return;
    this.showContent(reply.rounds.length > 0);
    const counts = countOrigins(reply);
    this.drawLegend(counts);
    this.drawFigures(counts);
    const explanation = reply.metrics?.explanation ?? '';
    this.whyBox.hidden = explanation === '';
    this.why.textContent = explanation && `${explanation}.`;
    this.strip.show(reply.rounds);
    if (!this.isPinned) this.showRound(bestRound(reply.rounds));
    const took = performance.now() - now;
    this.nextAt = now + Math.max(refresh, 10 * took);
  }

  /** The reader asked for it: in a narrow window the panel is below the text. */
  open(view) {
    this.present(view);
    this.element.scrollIntoView({ block: 'nearest' });
  }

  /** A token was pointed at. */
  point(view, index) {
    if (view.reply !== this.reply) this.present(view);
    this.pick(view.reply.tokens[index].round);
  }

  pick(index) {
    this.isPinned = true;
    this.showRound(index);
  }

  showRound(index) {
    this.strip.select(index);
    if (index === this.round || index === undefined) return;
    this.round = index;
    const round = this.reply.rounds[index];
    const own = this.reply.tokens.find((token) => token.round === index && token.place === round.num_accepted);
    const title = hasTimes(round) ? describeRound(round, index) : `Round ${index + 1}`;
    moveFocus(this.detail, this.element, { preventScroll: true });
    this.detail.replaceChildren(el('h3', {}, `Round ${index + 1}`), el('p', { class: 'quiet' }, `${title.replace(/^Round \d+: ?/, '')}.`));
    if (round.draft_tokens.length > 0) this.detail.append(drawTree(round, own?.text));
    if (round.auto) this.detail.append(weighed(round.auto));
  }

  drawLegend(counts) {
    this.legend.replaceChildren(...Object.entries(origins).map(([name, { label, meaning }]) =>
      el('li', { title: meaning }, el('span', { class: `token ${name}` }, label), counts[name] === undefined ? '' : ` ${counts[name]}`)));
  }

  drawFigures(counts) {
    const { reply } = this;
    const numTokens = reply.usage?.completion_tokens ?? reply.tokens.length;
    const drafted = reply.rounds.reduce((sum, round) => sum + round.draft_tokens.length, 0);
    const rows = [
      ['tokens', numTokens],
      ['rounds', reply.rounds.length],
      ['tokens a round', (reply.tokens.length / reply.rounds.length).toFixed(2)],
      ['drafts accepted', drafted === 0 ? 'none' : `${counts.accepted} of ${drafted}`],
    ];
    if (reply.metrics) {
      if (numTokens > 1) rows.push(['tokens a second', reply.metrics.tokens_per_second.toFixed(1)]); // counted from the first one on
      rows.push(['first token after', timeText(reply.metrics.time_to_first_token_ms * 1000)]);
    }
    this.figures.replaceChildren(...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, String(value)))));
  }
}

/** The round that shows most until the reader chooses one: the last with the largest draft. */
function bestRound(rounds) {
  let best;
  rounds.forEach((round, index) => {
    if (best === undefined || round.draft_tokens.length >= rounds[best].draft_tokens.length) best = index;
  });
  return best;
}

/** What `auto` weighed in a round. */
function weighed(auto) {
  if (auto.plain_to_measure) return el('p', { class: 'quiet' }, 'auto: plain, to measure the time of a plain pass.');
  if (auto.options.length === 0) return el('p', { class: 'quiet' }, 'auto: no drafter proposed anything.');
  const rows = auto.options.map((option) => el('tr', {}, el('th', { scope: 'row' }, option.drafter), el('td', {}, String(option.num_draft_tokens)),
    el('td', {}, option.expected_tokens.toFixed(2)), el('td', {}, option.cost.toFixed(2)), el('td', {}, (option.expected_tokens / option.cost).toFixed(2))));
  const heads = ['drafter', 'draft', 'expected tokens', 'cost in passes', 'tokens a pass'];
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'What auto weighed' },
    el('table', { class: 'weighed' }, el('caption', {}, 'What auto weighed. For a request that is alone, 1 token a pass is plain decoding.'),
      el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col' }, head)))), el('tbody', {}, ...rows)));
}
