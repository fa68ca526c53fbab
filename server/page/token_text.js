// The text of a reply with each token marked by where it comes from.
import { el, roveFocus } from './dom.js';
import { renderMarkdown } from './markdown.js';
import { originOf } from './reply.js';
import { dropLostTip } from './token_tip.js';

/** Shows one reply, and what was added to it since. Tokens are one tab stop; arrow keys move among them. */
export class TokenText {
  /** @param listeners {show(index, element), hide()}: a token is pointed at, or no longer */
  constructor(reply, listeners) {
    this.reply = reply;
    this.isRaw = false;
    this.blocks = new Map(); // of each part that was rendered
    this.element = el('div', { class: 'text' });
    roveFocus(this.element, '.token');
    let shown;
    const show = (event) => {
      const token = event.target.closest?.('.token');
      if (!token || token === shown) return;
      shown = token;
      listeners.show(Number(token.dataset.token), token);
    };
    const hide = (event) => {
      if (!shown || event.target.closest?.('.token') !== shown) return;
      shown = undefined;
      listeners.hide();
    };
    // Not `pointerover`, which also comes where the text moves under a pointer that rests.
    for (const name of ['pointermove', 'focusin', 'click']) this.element.addEventListener(name, show);
    for (const name of ['pointerout', 'focusout']) this.element.addEventListener(name, hide);
  }

  /** Shows the text as the model wrote it (true), or as Markdown. */
  showRaw(isRaw) {
    this.isRaw = isRaw;
    this.blocks.clear();
    this.element.replaceChildren();
    this.update();
  }

  update() {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.token : undefined;
    this.reply.parts.forEach((part, index) => {
      const holder = this.element.children[index] ?? this.element.appendChild(holderOf(part));
      const parent = part.kind === 'thoughts' ? holder.lastElementChild : holder;
      const put = (target, start, end) => this.put(target, start, end);
      if (this.isRaw || part.kind === 'thoughts') this.addRaw(parent, part, put);
      else this.blocks.set(index, renderMarkdown(parent, this.reply.text, part.start, part.end, put, this.blocks.get(index)));
    });
    if (!this.element.querySelector('.token[tabindex="0"]')) this.element.querySelector('.token')?.setAttribute('tabindex', '0');
    // Its part of the text was made again.
    if (focused !== undefined && !this.element.contains(document.activeElement)) this.element.querySelector(`[data-token="${focused}"]`)?.focus();
    dropLostTip();
  }

  /** The last token may have been only partly there. */
  addRaw(parent, part, put) {
    parent.classList.add('raw');
    const last = parent.lastChild;
    const shown = Number(parent.dataset.end ?? part.start);
    const token = this.reply.tokens[last?.dataset?.token];
    const hasGrown = token?.end > shown;
    if (hasGrown) last.remove();
    put(parent, hasGrown ? token.start : shown, part.end);
    parent.dataset.end = part.end;
  }

  /** Appends a part of the text, cut into its tokens. */
  put(parent, start, end) {
    const { tokens, text } = this.reply;
    let at = start;
    for (let index = firstEndingAfter(tokens, start); index < tokens.length && tokens[index].start < end; ++index) {
      const token = tokens[index];
      const stop = Math.min(token.end, end);
      if (stop <= at) continue;
      if (token.start > at) parent.append(text.slice(at, token.start));
      parent.append(this.mark(index, text.slice(Math.max(at, token.start), stop)));
      at = stop;
    }
    if (at < end) parent.append(text.slice(at, end));
  }

  mark(index, text) {
    const token = this.reply.tokens[index];
    const origin = originOf(this.reply.rounds[token.round], token.place);
    return el('span', { class: `token ${origin}`, 'data-token': index, tabindex: '-1' }, text);
  }
}

function holderOf(part) {
  if (part.kind === 'answer') return el('div', { class: 'answer' });
  return el('details', { class: 'thoughts', open: true }, el('summary', {}, 'Thoughts'), el('div'));
}

/** By halving: places never decrease. */
function firstEndingAfter(tokens, start) {
  let low = 0;
  let high = tokens.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokens[middle].end <= start) low = middle + 1;
    else high = middle;
  }
  return low;
}
