// The box to write messages in, and the messages that wait until they can be sent.
import { actOnEnter, announce, byId, el, isTouch, moveFocus } from './dom.js';
import { keepDraft } from './draft.js';

export class Composer {
  /** @param submit (): what is in the box shall be sent */
  constructor(submit) {
    this.box = byId('message');
    this.queue = []; // texts that wait
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      submit();
    });
    actOnEnter(this.box, submit);
    if (isTouch()) byId('keys').textContent = 'Enter begins a new line, the button sends.';
    this.box.addEventListener('input', () => this.fit());
    keepDraft(this.box, () => this.textWith(this.queue)); // nothing is sent by itself after a reload
    this.fit();
  }

  get isEmpty() {
    return this.box.value.trim() === '';
  }

  fit() {
    this.box.style.height = 'auto';
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  focus() {
    this.box.focus();
  }

  /** Empties the box and returns what was in it. */
  take() {
    const text = this.box.value;
    this.box.value = '';
    this.fit();
    return text;
  }

  textWith(texts) {
    return [...texts, this.box.value].filter((text) => text.trim() !== '').join('\n\n');
  }

  /** Puts texts back into the box, before what is there. */
  takeBack(...texts) {
    this.box.value = this.textWith(texts);
    this.fit();
  }

  /** A message waits; `event` is what for. */
  wait(text, event) {
    this.queue.push(text);
    this.list();
    announce(`The message waits until ${event}.`);
  }

  /** Puts `texts` and all that waits back into the box. A setting that is not allowed keeps the focus. */
  takeBackAll(...texts) {
    const all = [...texts, ...this.queue.splice(0)];
    if (all.length > 0) this.takeBack(...all);
    this.list();
  }

  /** The message that waits longest, no longer among those that wait. */
  next() {
    const text = this.queue.shift();
    this.list();
    return text;
  }

  list() {
    moveFocus(byId('queue'), this.box);
    byId('queue').replaceChildren(...this.queue.map((text, index) => {
      const edit = () => {
        this.takeBack(...this.queue.splice(index, 1));
        this.list();
        this.focus();
      };
      return el('li', {}, el('span', { class: 'queued' }, 'Waiting: '), el('span', {}, text),
        el('button', { type: 'button', class: 'small', click: edit }, 'Edit'));
    }));
  }
}
