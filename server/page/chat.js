// The chat: a conversation, the box to write in, and what waits to be sent while a reply arrives.
import { requestOf } from './api.js';
import { announce, byId, copyText, el } from './dom.js';
import { Follower } from './follow.js';
import { clearHistory, forgetConversation, isRemoved, loadHistory, newId, onHistoryChange, saveConversation } from './history.js';
import { Reply } from './reply.js';
import { ReplyView } from './reply_view.js';

const maxTitle = 60;
const examples = [
  'Write a Python function that merges two sorted lists, with a docstring and two tests.',
  'Count from one to thirty in words, one number a line.',
  'Explain in five sentences how speculative decoding keeps the output exact.',
];

export class Chat {
  constructor(page) {
    this.page = page;
    this.log = byId('log');
    this.box = byId('message');
    this.queue = []; // texts to send after the reply that arrives
    this.follower = new Follower(byId('log_end'), byId('log_scroll'), byId('to_end'));
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener('input', () => this.fitBox());
    byId('stop').addEventListener('click', () => this.stop());
    byId('new_chat').addEventListener('click', () => this.begin());
    byId('clear_history').addEventListener('click', () => {
      if (!confirm('Remove all conversations from this browser?')) return;
      clearHistory(this.conversation);
      this.begin();
    });
    addEventListener('pagehide', () => this.leave());
    onHistoryChange(() => this.listHistory());
    this.openLatest();
  }

  openLatest() {
    const [latest] = loadHistory();
    if (!latest) return this.begin();
    try {
      this.open(latest);
    } catch { // another version has kept something else: the page goes on without it
      this.begin();
    }
  }

  /** A new conversation, empty. */
  begin() {
    this.open({ id: newId(), title: '', messages: [] });
    this.box.focus();
  }

  open(conversation) {
    this.leave();
    if (this.queue.length > 0) this.takeBack(...this.queue.splice(0));
    this.listQueue();
    this.conversation = conversation;
    this.showKept(true);
    this.log.replaceChildren();
    const views = conversation.messages.map((message, index) => this.addMessage(message, index));
    const last = views.findLast(Boolean);
    if (last) this.page.panel.show(last.reply, true);
    if (conversation.messages.length === 0) this.log.append(this.welcome());
    this.listHistory();
    this.follower.toEnd();
  }

  /** Ends the reply that arrives, and keeps what is there of it. Returns whether its conversation still exists. */
  leave() {
    const { running } = this;
    this.running = undefined;
    running?.abort();
    const exists = running?.finish() ?? true;
    this.showRunning(false);
    return exists;
  }

  welcome() {
    const ask = (text) => el('li', {}, el('button', { type: 'button', click: () => this.send(text) }, text));
    return el('div', { class: 'welcome' }, el('h3', {}, 'See what speculation does'),
      el('p', {}, 'Each token of a reply is marked by where it comes from. Try one of these, or write your own.'),
      el('ul', {}, ...examples.map(ask)));
  }

  fitBox() {
    this.box.style.height = 'auto';
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  submit() {
    const text = this.box.value;
    if (text.trim() === '' || !this.page.canSend()) return;
    this.box.value = '';
    this.fitBox();
    if (this.running) {
      this.queue.push(text);
      this.listQueue();
      announce('The message waits until the reply is complete.');
    } else {
      this.send(text);
    }
  }

  listQueue() {
    byId('queue').replaceChildren(...this.queue.map((text, index) => {
      const remove = () => {
        this.takeBack(...this.queue.splice(index, 1));
        this.listQueue();
      };
      return el('li', {}, el('span', { class: 'queued' }, 'Waiting: '), el('span', {}, text),
        el('button', { type: 'button', class: 'small', click: remove }, 'Edit'));
    }));
  }

  /** Puts texts back into the box, before what is there. */
  takeBack(...texts) {
    this.box.value = [...texts, this.box.value].filter((text) => text.trim() !== '').join('\n\n');
    this.fitBox();
    this.box.focus();
  }

  /** Shows a message that is complete; returns the view of a reply. */
  addMessage(message, index) {
    if (message.role === 'user') {
      const copy = el('button', { type: 'button', class: 'small', click: () => copyText(message.content, copy) }, 'Copy');
      this.addTurn('user', 'You', el('div', { class: 'text raw' }, message.content), el('div', { class: 'actions' }, copy));
      return undefined;
    }
    const reply = (message.reply && Reply.fromData(message.reply)) ?? Reply.fromText(message.content);
    const view = new ReplyView(this.page, reply, this.requestAgain(message, index));
    this.addTurn('assistant', message.by, view.element);
    return view;
  }

  addTurn(role, by, ...content) {
    this.log.querySelector('.welcome')?.remove();
    this.log.append(el('article', { class: `turn ${role}` }, el('h3', { class: 'by' }, by), ...content));
  }

  /** The turns of a request whose reply is message `index`: without earlier ones that got no answer. */
  turnsBefore(index) {
    const { messages } = this.conversation;
    const isVoid = (at) => at < index && messages[at].role === 'assistant' && messages[at].content === '';
    return messages.slice(0, index).filter((_, at) => !isVoid(at) && !isVoid(at + 1));
  }

  /** The request of a reply that was kept: kept without the turns, which the conversation has. */
  requestAgain({ sent }, index) {
    if (!sent?.body) return undefined;
    const system = sent.system ? [{ role: 'system', content: sent.system }] : [];
    const messages = [...system, ...this.turnsBefore(index).map(({ role, content }) => ({ role, content }))];
    return { path: sent.path, body: sent.body.prompt === undefined ? { messages, ...sent.body } : sent.body };
  }

  /** Sends a message; then those that were written meanwhile. */
  async send(text) {
    if (this.running || !this.page.canSend()) return this.takeBack(text);
    const { conversation, page } = this;
    const message = { role: 'user', content: text };
    conversation.messages.push(message);
    conversation.title ||= text.trim().slice(0, maxTitle);
    this.addMessage(message);
    const settings = page.settings.read();
    const request = requestOf(page.settings.model, this.turnsBefore(conversation.messages.length), settings);
    const reply = new Reply();
    const view = new ReplyView(page, reply, request);
    const drafter = request.body.speculation?.drafter;
    const by = drafter ? `${request.body.model}, ${drafter}` : request.body.model;
    this.addTurn('assistant', by, view.element);
    this.follower.toEnd();
    const { messages: _, ...body } = request.body;
    const sent = { path: request.path, body, system: settings.system };
    const running = this.begun(conversation, reply, { role: 'assistant', by, sent });
    this.running = running;
    this.showRunning(true);
    announce('The reply begins.');
    this.showKept(saveConversation(conversation));
    this.listHistory();
    let exists = true;
    try {
      await view.run(running.signal, () => this.follower.grown());
    } finally {
      if (running === this.running) exists = this.leave(); // else another conversation was opened, which has ended this reply
      this.listHistory();
    }
    if (conversation !== this.conversation) return;
    if (reply.finish === 'failed') view.addAction('Try again', () => this.send(text));
    this.next(exists && reply.finish !== 'failed' && reply.finish !== 'stopped');
  }

  /**
   * A reply that arrives: {signal, abort, finish}. The last one adds what is there to the conversation, once, and
   * returns false if somebody has removed that.
   */
  begun(conversation, reply, message) {
    const controller = new AbortController();
    let isFinished = false;
    const finish = () => {
      if (isFinished) return true;
      isFinished = true;
      reply.end('stopped');
      conversation.messages.push({ ...message, content: reply.answer, reply: reply.toData() });
      const exists = !isRemoved(conversation);
      const isKept = exists && saveConversation(conversation);
      if (conversation === this.conversation) this.showKept(isKept);
      return exists;
    };
    return { signal: controller.signal, abort: () => controller.abort(), finish };
  }

  /** Sends what waits. After a reply that was cut off or removed it may no longer be meant, and goes back into the box. */
  next(isMeant) {
    if (this.queue.length === 0) return;
    if (isMeant) {
      const text = this.queue.shift();
      this.listQueue();
      this.send(text);
    } else {
      this.takeBack(...this.queue.splice(0));
      this.listQueue();
    }
  }

  stop() {
    this.running?.abort();
  }

  showRunning(isRunning) {
    byId('stop').hidden = !isRunning;
    byId('send').textContent = isRunning ? 'Send next' : 'Send';
  }

  showKept(isKept) {
    byId('not_kept').hidden = isKept;
  }

  listHistory() {
    const list = loadHistory();
    const focused = focusIn(byId('history'));
    byId('history_box').hidden = list.length === 0;
    byId('history').replaceChildren(...list.map((one) => {
      const isOpen = one.id === this.conversation.id;
      const forget = () => {
        forgetConversation(one.id);
        if (isOpen) this.begin();
        else this.listHistory();
      };
      const open = () => {
        if (one.id === this.conversation.id) this.follower.toEnd(); // a reply may arrive in it
        else this.open(loadHistory().find(({ id }) => id === one.id) ?? one);
      };
      const title = one.title || 'Untitled';
      return el('li', { 'data-id': one.id },
        el('button', { type: 'button', class: 'link', 'aria-current': isOpen ? 'true' : undefined, click: open }, title),
        el('button', { type: 'button', class: 'small', 'aria-label': `Remove “${title}”`, click: forget }, '×'));
    }));
    if (focused) restoreFocus(byId('history'), focused);
  }
}

/** Where the focus is in a list that is made again: {id, button, item}. */
function focusIn(list) {
  const { activeElement: element } = document;
  if (!list.contains(element) || element === list) return undefined;
  const line = element.closest('li');
  return { id: line.dataset.id, button: [...line.children].indexOf(element), item: [...list.children].indexOf(line) };
}

/** To the same button, or to that of the next line where the line has gone. */
function restoreFocus(list, { id, button, item }) {
  const lines = [...list.children];
  const line = lines.find((one) => one.dataset.id === id) ?? lines[Math.min(item, lines.length - 1)];
  line?.children[button].focus();
}
