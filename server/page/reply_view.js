// A reply on the page: its text as it arrives, what went wrong, and what can be done with it.
import { announce, copyText, el } from './dom.js';
import { paths, streamReply } from './api.js';
import { showSnippets } from './snippets.js';
import { TokenText } from './token_text.js';
import { leaveTip, showTip } from './token_tip.js';

const endings = {
  length: 'Ended at the limit of tokens.',
  stopped: 'Stopped.',
  abort: 'Cancelled by the server.',
};
const told = { length: 'The reply ended at the limit', stopped: 'The reply was stopped', abort: 'The server cancelled the reply' };
const maxTold = 2000; // letters of a reply that are told to people who do not see it

/** How a reply ended, unless it ended by itself. */
export function endingOf({ finish, failure }) {
  return finish === 'failed' ? `Failed: ${failure}.` : endings[finish];
}

/** Pointing at tokens of a view shows the tip and the panel. */
export function tokenListeners(panel, view) {
  return {
    show(index, element) {
      showTip(view.reply, index, element);
      panel.point(view, index);
    },
    hide: leaveTip,
  };
}

export class ReplyView {
  /** @param page {panel, settings}; `request` as requestOf makes it, where it is known; `tab` and `name` are for the panel */
  constructor(page, reply, request, { tab, name }) {
    Object.assign(this, { page, reply, request, tab, name });
    this.text = new TokenText(reply, tokenListeners(page.panel, this));
    this.text.isRaw = request?.path === paths.text; // a continued text is seldom Markdown
    this.end = el('p', { class: 'ending', hidden: true });
    this.buttons = el('div', { class: 'actions' });
    this.element = el('div', { class: 'reply' }, this.text.element, this.end, this.buttons);
    this.update();
  }

  update() {
    this.text.update();
    if (this.page.panel.view === this) this.page.panel.show(this);
    if (this.reply.isDone && this.buttons.childElementCount === 0) this.finish();
  }

  addAction(label, act) {
    const button = el('button', { type: 'button', class: 'small', click: () => act(button) }, label);
    this.buttons.append(button);
    return button;
  }

  finish() {
    const { reply, request } = this;
    const ending = endingOf(reply);
    this.end.hidden = !ending;
    this.end.textContent = ending ?? '';
    this.end.classList.toggle('failed', reply.finish === 'failed');
    if (reply.text) {
      this.addAction('Copy', (button) => copyText(reply.answer, button));
      const raw = this.addAction('Show source', () => {
        this.text.showRaw(!this.text.isRaw);
        raw.setAttribute('aria-pressed', String(this.text.isRaw));
      });
      raw.setAttribute('aria-pressed', String(this.text.isRaw));
      this.addAction('Speculation', () => this.page.panel.open(this));
    }
    if (request) this.addAction('As code', () => showSnippets(request, this.page.settings.key !== ''));
  }

  /** Sends the request and shows the reply while it arrives. */
  async run(signal, onChange = () => {}) {
    this.element.setAttribute('aria-busy', 'true');
    this.page.panel.present(this);
    try {
      await receive(this.reply, this.request, this.page.settings.key, signal, () => {
        this.update();
        onChange();
      });
    } finally {
      this.element.removeAttribute('aria-busy');
    }
    if (this.reply.finish === 'failed') this.page.settings.load(); // the server may be gone, or have other models now
    this.update();
    onChange();
    announce(this.inWords());
  }

  /** The whole reply, for people who do not see it. It is told once, at its end: what grows would be told again and again. */
  inWords() {
    const { finish, failure, tokens } = this.reply;
    const text = [...this.text.element.querySelectorAll('.answer')].map((part) => part.innerText).join(' ');
    const ended = finish === 'failed' ? `The reply failed: ${failure}.` : `${told[finish] ?? 'The reply is complete'}: ${tokens.length} tokens.`;
    return `${ended} ${text.length > maxTold ? `${text.slice(0, maxTold)} …` : text}`.trim();
  }
}

let numStreams = 0;

/** Whether a reply arrives anywhere in the page. */
export function isReceiving() {
  return numStreams > 0;
}

/**
 * Fills a reply from the server. Never fails: the reply says how it ended. `onChange` is called once a frame, or less
 * often where it takes long: at most a fifth of the time is spent in it.
 */
export async function receive(reply, request, key, signal, onChange = () => {}) {
  const sent = performance.now();
  let cancel;
  let pause = 0;
  const changed = () => {
    cancel = undefined;
    const began = performance.now();
    onChange();
    pause = 4 * (performance.now() - began);
  };
  ++numStreams;
  try {
    for await (const chunk of streamReply(request, key, signal)) {
      if (signal.aborted) break;
      reply.take(chunk, performance.now() - sent);
      cancel ??= soon(changed, pause);
    }
    reply.end(signal.aborted ? 'stopped' : 'stop');
  } catch (failure) {
    if (signal.aborted) reply.end('stopped');
    else reply.end('failed', failure.message);
  } finally {
    --numStreams;
  }
  cancel?.();
  return reply;
}

/** Calls `act` with the next frame, or after a pause of some ms that is longer. Returns what cancels it. */
function soon(act, pause) {
  // In the background no frames are drawn.
  if (document.hidden || pause > 16) {
    const timer = setTimeout(act, Math.max(pause, document.hidden ? 100 : 0));
    return () => clearTimeout(timer);
  }
  const frame = requestAnimationFrame(act);
  return () => cancelAnimationFrame(frame);
}
