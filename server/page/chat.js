// The chat: a conversation, and the messages that are sent in it.
import { requestOf } from './api.js';
import { Composer } from './composer.js';
import { announce, byId, copyText, el, isTouch, moveFocus, setHidden } from './dom.js';
import { Follower } from './follow.js';
import { isRemoved, loadHistory, newId, saveConversation } from './history.js';
import { HistoryList } from './history_list.js';
import { Reply } from './reply.js';
import { ReplyView } from './reply_view.js';

const maxTitle = 60;
const tab = 'tab_chat';
const examples = [
  'Write a Python function that merges two sorted lists, with a docstring and two tests.',
  'Count from one to thirty in words, one number a line.',
  'Explain in five sentences how speculative decoding keeps the output exact.',
];

export class Chat {
  constructor(page) {
    this.page = page;
    // The first of all listeners: behind another one, the reply would have found that its connection was lost.
    addEventListener('pagehide', () => this.leave());
    this.log = byId('log');
    this.composer = new Composer(() => this.submit());
    this.history = new HistoryList(this);
    this.follower = new Follower(byId('log_end'), byId('log_scroll'), byId('to_end'));
    byId('stop').addEventListener('click', () => this.stop());
    byId('new_chat').addEventListener('click', () => this.begin());
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
    this.composer.focus();
  }

  open(conversation) {
    this.leave();
    this.composer.takeBackAll();
    this.conversation = conversation;
    this.showKept(true);
    this.page.panel.forget(tab);
    this.log.replaceChildren();
    const views = conversation.messages.map((message, index) => this.addMessage(message, index));
    const last = views.findLast(Boolean);
    if (last) this.page.panel.present(last);
    if (conversation.messages.length === 0) this.log.append(this.welcome());
    this.history.update();
    this.toEnd();
  }

  toEnd() {
    this.follower.toEnd();
  }

  /** Its tab was opened. */
  shown() {
    this.follower.shown();
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

  /** Where the focus goes from what disappears: on a phone, the focus in the box would open the keyboard. */
  get place() {
    return isTouch() ? byId('send') : byId('message');
  }

  welcome() {
    const ask = (text) => el('li', {}, el('button', { type: 'button', click: () => this.post(text) }, text));
    return el('div', { class: 'welcome' }, el('h3', {}, 'See what speculation does'),
      el('p', {}, 'Each token of a reply is marked by where it comes from. Try one of these, or write your own.'),
      el('ul', {}, ...examples.map(ask)));
  }

  submit() {
    if (!this.composer.isEmpty && this.page.canSend()) this.post(this.composer.take());
  }

  /** Sends a message now, or after the reply that arrives, or after a race, because the two would slow each other down. */
  post(text) {
    if (this.running) this.composer.wait(text, 'the reply is complete');
    else if (this.page.race.running) this.composer.wait(text, 'the race is over');
    else this.send(text);
  }

  /** Shows a message that is complete, and that was kept if it has an `index`. Returns the view of a reply. */
  addMessage(message, index) {
    if (message.role === 'user') {
      const button = (label, act) => el('button', { type: 'button', class: 'small', click: act }, label);
      const copy = button('Copy', () => copyText(message.content, copy));
      // The last one of a conversation that was kept has no reply if the page could not keep any, as after a crash.
      const isUnanswered = index === this.conversation.messages.length - 1;
      const again = isUnanswered ? button('Try again', () => this.post(message.content)) : undefined;
      const actions = el('div', { class: 'actions' }, copy, again);
      this.addTurn('user', 'You', el('div', { class: 'text raw' }, message.content), actions);
      return undefined;
    }
    const reply = (message.reply && Reply.fromData(message.reply)) ?? Reply.fromText(message.content);
    const view = new ReplyView(this.page, reply, this.requestAgain(message, index), { tab, name: this.nameOf(index) });
    this.addTurn('assistant', message.by, view.element);
    return view;
  }

  /** Of the reply that is message `index`, or will be. */
  nameOf(index) {
    const before = this.conversation.messages.slice(0, index).filter(({ role }) => role === 'assistant');
    return `Chat, reply ${before.length + 1}`;
  }

  addTurn(role, by, ...content) {
    const welcome = this.log.querySelector('.welcome');
    if (welcome) moveFocus(welcome, this.place);
    welcome?.remove();
    this.log.append(el('article', { class: `turn ${role}` }, el('h3', { class: 'by' }, by), ...content));
  }

  /**
   * The turns of a request whose reply is message `index`: without earlier ones that got no answer, because many
   * templates refuse two messages of the same role in a row.
   */
  turnsBefore(index) {
    const { messages } = this.conversation;
    const isAnswer = (at) => messages[at].role === 'assistant' && messages[at].content !== '';
    const isAnswered = (at) => messages[at].role === 'user' && (at === index - 1 || isAnswer(at + 1));
    return messages.slice(0, index).filter((_, at) => isAnswer(at) || isAnswered(at));
  }

  /** The request of a reply that was kept: kept without the turns, which the conversation has. */
  requestAgain({ sent }, index) {
    if (!sent?.body) return undefined;
    const system = sent.system ? [{ role: 'system', content: sent.system }] : [];
    const messages = [...system, ...this.turnsBefore(index).map(({ role, content }) => ({ role, content }))];
    return { path: sent.path, body: sent.body.prompt === undefined ? { messages, ...sent.body } : sent.body };
  }

  /** Sends a message, which may have waited; then those that were written meanwhile. */
  async send(text, hasWaited = false) {
    if (this.running || !this.page.canSend()) return this.composer.takeBackAll(text);
    const { conversation, page } = this;
    const message = { role: 'user', content: text };
    conversation.messages.push(message);
    conversation.title ||= text.trim().slice(0, maxTitle);
    this.addMessage(message);
    const settings = page.settings.read();
    const request = requestOf(page.settings.model, this.turnsBefore(conversation.messages.length), settings);
    const reply = new Reply();
    const view = new ReplyView(page, reply, request, { tab, name: this.nameOf(conversation.messages.length) });
    const drafter = request.body.speculation?.drafter;
    const by = drafter ? `${request.body.model}, ${drafter}` : request.body.model;
    this.addTurn('assistant', by, view.element);
    this.toEnd();
    const { messages: _, ...body } = request.body;
    const sent = { path: request.path, body, system: settings.system };
    const running = this.begun(conversation, reply, { role: 'assistant', by, sent });
    this.running = running;
    this.showRunning(true);
    if (!hasWaited) announce('The reply begins.'); // else the reply before it is being told
    this.showKept(saveConversation(conversation));
    this.history.update();
    let exists = true;
    try {
      await view.run(running.signal, () => this.follower.grown());
    } finally {
      if (running === this.running) exists = this.leave(); // else another conversation was opened, which has ended this reply
      this.history.update();
    }
    if (conversation !== this.conversation) return;
    if (reply.finish === 'failed') view.addAction('Try again', () => this.post(text));
    this.next(exists && reply.isWhole);
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
    if (this.composer.queue.length === 0) return;
    if (isMeant) this.send(this.composer.next(), true);
    else this.composer.takeBackAll();
  }

  /** What was written meanwhile is sent. */
  raceIsOver() {
    this.next(!isRemoved(this.conversation));
  }

  stop() {
    this.running?.abort();
  }

  showRunning(isRunning) {
    setHidden(byId('stop'), !isRunning, this.place);
    byId('send').textContent = isRunning ? 'Send next' : 'Send';
  }

  showKept(isKept) {
    byId('not_kept').hidden = isKept;
  }
}
