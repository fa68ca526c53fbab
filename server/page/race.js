// The race: the same request with the same seed, plain and then with speculation, replayed side by side as fast as
// it was. Neither may use what the other left behind: each has a `cache_salt` of its own.
import { requestOf } from './api.js';
import { announce, byId, el, prefersStillness, setHidden } from './dom.js';
import { keepDraft } from './draft.js';
import { countOrigins, Reply } from './reply.js';
import { endingOf, isReceiving, receive, tokenListeners } from './reply_view.js';
import { showSnippets } from './snippets.js';
import { TokenText } from './token_text.js';

/** Tokens that both have, from the first on. */
export function sameTokens(one, other) {
  const shorter = Math.min(one.tokens.length, other.tokens.length);
  const differs = one.tokens.slice(0, shorter).findIndex((token, index) => token.id !== other.tokens[index].id);
  return differs < 0 ? shorter : differs;
}

/** "identical: 143 of 143 tokens" */
export function verdict(plain, fast) {
  const all = Math.max(plain.tokens.length, fast.tokens.length);
  const same = sameTokens(plain, fast);
  return same === all ? `identical: ${same} of ${all} tokens` : `different: the first ${same} of ${all} tokens are identical`;
}

/** When the last token came, in ms after the request was sent. */
export function timeOf(reply) {
  return reply.tokens.at(-1)?.at ?? 0;
}

/** One side: its clock and its text, which shows the tokens that had come by a time. */
class Lane {
  constructor(element, page) {
    Object.assign(this, { element, page, tab: 'tab_race' });
    element.querySelector('button').addEventListener('click', () => showSnippets(this.request, page.settings.key !== ''));
    [this.clock, this.count, this.bar, this.holder] = ['.clock', '.count', 'progress', '.race_text'].map((name) => element.querySelector(name));
  }

  /** @param run {reply, request}; `name` is the side's */
  load({ reply, request }, name) {
    Object.assign(this, { reply, request, name: `Race, ${name.toLowerCase()}` });
    this.shown = new Reply();
    this.text = new TokenText(this.shown, tokenListeners(this.page.panel, this));
    this.text.isRaw = true;
    this.holder.replaceChildren(this.text.element);
    this.bar.max = timeOf(reply);
    this.showUntil(0);
  }

  /** True once all of it is there. */
  showUntil(time) {
    const { reply, shown, holder } = this;
    const isAtEnd = holder.scrollHeight - holder.scrollTop - holder.clientHeight < 24; // else somebody reads further up
    const from = shown.tokens.length;
    while (shown.tokens.length < reply.tokens.length && reply.tokens[shown.tokens.length].at <= time) shown.tokens.push(reply.tokens[shown.tokens.length]);
    shown.rounds = reply.rounds;
    const isDone = shown.tokens.length === reply.tokens.length;
    shown.text = reply.text.slice(0, isDone ? undefined : shown.tokens.at(-1)?.end ?? 0);
    shown.parts = shown.text ? [{ kind: 'answer', start: 0, end: shown.text.length }] : [];
    if (shown.tokens.length > from) this.text.update();
    this.clock.textContent = `${(Math.min(time, timeOf(reply)) / 1000).toFixed(2)} s`;
    this.count.textContent = `${shown.tokens.length} tokens`;
    this.bar.value = Math.min(time, timeOf(reply));
    if (isAtEnd) holder.scrollTop = holder.scrollHeight;
    return isDone;
  }
}

export class Race {
  constructor(page) {
    this.page = page;
    this.lanes = [new Lane(byId('lane_plain'), page), new Lane(byId('lane_fast'), page)];
    keepDraft(byId('race_prompt'));
    byId('race_form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.run({ messages: [{ role: 'user', content: byId('race_prompt').value }], extra: {}, settings: page.settings.read() }, 'the prompt');
    });
    byId('race_stop').addEventListener('click', () => this.running?.abort());
    byId('race_again').addEventListener('click', () => this.replay());
  }

  /** Why no race can begin now, or nothing: a request beside it would change its times. */
  refusal() {
    if (this.running) return 'A race runs: the next one can begin when it is over.';
    return isReceiving() ? 'A reply still arrives: the race can begin when it is complete.' : '';
  }

  /** @param task {messages, extra, settings}; `what` it is, for the reader */
  async run(task, what) {
    if (this.running) return; // the page shows it
    const reason = this.refusal();
    if (reason) return this.say(reason);
    if (!this.page.canSend()) return;
    const { model } = this.page.settings;
    const seed = task.settings.seed ?? Math.floor(Math.random() * 2 ** 31);
    const drafter = task.settings.drafter === 'none' ? undefined : task.settings.drafter;
    const make = (name) => requestOf(model, task.messages, { ...task.settings, seed, drafter: name },
      { ...task.extra, cache_salt: `race-${Date.now()}-${Math.random()}` });
    this.running = new AbortController();
    cancelAnimationFrame(this.frame);
    this.page.panel.forget('tab_race');
    this.show({ isRunning: true });
    let runs;
    try {
      runs = await this.recordBoth(make, drafter);
    } finally {
      this.running = undefined;
      this.show({ isRunning: false });
    }
    const [plain, fast] = runs;
    const failed = runs.find(({ reply }) => !reply.isWhole);
    if (failed) {
      this.fail(failed.reply);
    } else {
      this.result = { plain, fast, seed, what, drafter };
      this.replay();
    }
    this.page.chat.raceIsOver();
  }

  /** The second one only if the first one is complete. */
  async recordBoth(make, drafter) {
    const plain = await this.record('1 of 2, plain', make('none'));
    if (!plain.reply.isWhole) return [plain];
    return [plain, await this.record(`2 of 2, ${drafter ?? 'with the default drafter'}`, make(drafter))];
  }

  fail(reply) {
    if (reply.finish === 'failed') this.page.settings.load(); // the server may be gone, or have other models now
    this.say(endingOf(reply) ?? `Ended: ${reply.finish}.`);
  }

  /** The text is not drawn while it is timed; only tokens are counted. */
  async record(name, request) {
    const reply = new Reply();
    this.say(`Running ${name} …`);
    const count = () => (byId('race_result').textContent = `Running ${name}: ${reply.tokens.length} tokens.`);
    await receive(reply, request, this.page.settings.key, this.running.signal, count);
    return { reply, request };
  }

  show({ isRunning }) {
    setHidden(byId('race_stop'), !isRunning, byId('race_start'));
    byId('race_start').setAttribute('aria-disabled', String(isRunning)); // a button that is disabled loses the focus
    byId('race_again').hidden = isRunning || !this.result;
    if (isRunning) byId('race_lanes').hidden = true;
  }

  say(text) {
    byId('race_result').textContent = text;
    announce(text);
  }

  replay() {
    cancelAnimationFrame(this.frame);
    const { plain, fast, drafter } = this.result;
    const name = drafter ? `Speculative: ${drafter}` : 'Speculative';
    byId('race_fast_name').textContent = name;
    byId('race_lanes').hidden = false;
    byId('race_again').hidden = false;
    byId('race_result').textContent = 'Replaying, as fast as it was …';
    this.lanes[0].load(plain, 'Plain');
    this.lanes[1].load(fast, name);
    this.page.panel.present(this.lanes[1]);
    const began = performance.now();
    const step = (now) => {
      const time = prefersStillness() ? Infinity : now - began;
      const done = this.lanes.map((lane) => lane.showUntil(time));
      if (done.every(Boolean)) this.conclude();
      else this.frame = requestAnimationFrame(step);
    };
    step(began);
  }

  conclude() {
    const { plain: { reply: plain }, fast: { reply: fast }, seed, what } = this.result;
    const [slow, quick] = [timeOf(plain), timeOf(fast)];
    const times = `${(slow / 1000).toFixed(2)} s plain, ${(quick / 1000).toFixed(2)} s speculative`;
    const ratio = quick > 0 ? `${(slow / quick).toFixed(2)} times as fast` : 'no token to time';
    byId('race_result').replaceChildren(el('strong', {}, verdict(plain, fast)), `; ${ratio} (${times}; seed ${seed}, ${what}; accepted drafts: ${countOrigins(fast).accepted}).`);
    announce(byId('race_result').textContent);
  }
}
