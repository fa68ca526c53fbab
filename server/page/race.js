// The race: the same request with the same seed, plain and then with speculation, replayed side by side as fast as
// it was. Neither may use what the other left behind: each has a `cache_salt` of its own.
import { requestOf } from './api.js';
import { announce, byId, el, prefersStillness } from './dom.js';
import { countOrigins, Reply } from './reply.js';
import { receive, tokenListeners } from './reply_view.js';
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

function isWhole(reply) {
  return reply.finish === 'stop' || reply.finish === 'length';
}

/** One side: its clock and its text, which shows the tokens that had come by a time. */
class Lane {
  constructor(element, panel) {
    this.panel = panel;
    [this.clock, this.count, this.bar, this.holder] = ['.clock', '.count', 'progress', '.race_text'].map((name) => element.querySelector(name));
  }

  load(reply, total) {
    this.reply = reply;
    this.total = total;
    this.shown = new Reply();
    this.text = new TokenText(this.shown, {
      ...tokenListeners(this.panel),
      show: (_, index, token) => tokenListeners(this.panel).show(reply, index, token),
    });
    this.text.isRaw = true;
    this.holder.replaceChildren(this.text.element);
    this.bar.max = timeOf(reply);
    this.showUntil(0);
  }

  /** True once all of it is there. */
  showUntil(time) {
    const { reply, shown } = this;
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
    this.holder.scrollTop = this.holder.scrollHeight;
    return isDone;
  }
}

export class Race {
  constructor(page) {
    this.page = page;
    this.lanes = [new Lane(byId('lane_plain'), page.panel), new Lane(byId('lane_fast'), page.panel)];
    byId('race_form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.run({ messages: [{ role: 'user', content: byId('race_prompt').value }], extra: {}, settings: page.settings.read() }, 'the prompt');
    });
    byId('race_stop').addEventListener('click', () => this.running?.abort());
    byId('race_again').addEventListener('click', () => this.replay());
  }

  /** @param task {messages, extra, settings}; `what` it is, for the reader */
  async run(task, what) {
    if (this.running || !this.page.canSend()) return;
    const { model } = this.page.settings;
    const seed = task.settings.seed ?? Math.floor(Math.random() * 2 ** 31);
    const drafter = task.settings.drafter === 'none' ? undefined : task.settings.drafter;
    const make = (name) => requestOf(model, task.messages, { ...task.settings, seed, drafter: name },
      { ...task.extra, cache_salt: `race-${Date.now()}-${Math.random()}` });
    this.running = new AbortController();
    cancelAnimationFrame(this.frame);
    this.show({ isRunning: true });
    let replies;
    try {
      replies = await this.recordBoth(make, drafter);
    } finally {
      this.running = undefined;
      this.show({ isRunning: false });
    }
    const [plain, fast] = replies;
    const failed = replies.find((reply) => !isWhole(reply));
    if (failed) return this.fail(failed);
    this.result = { plain, fast, seed, what, drafter: drafter ?? 'default' };
    byId('race_fast_name').textContent = drafter ? `Speculative: ${drafter}` : 'Speculative';
    this.replay();
  }

  /** The second one only if the first one is complete. */
  async recordBoth(make, drafter) {
    const plain = await this.record('1 of 2, plain', make('none'));
    if (!isWhole(plain)) return [plain];
    return [plain, await this.record(`2 of 2, ${drafter ?? 'with the default drafter'}`, make(drafter))];
  }

  fail({ finish, failure }) {
    if (finish === 'failed') this.page.settings.load(); // the server may be gone, or have other models now
    this.say(finish === 'failed' ? `Failed: ${failure}.` : 'Stopped.');
  }

  /** The text is not drawn while it is timed; only tokens are counted. */
  record(name, request) {
    const reply = new Reply();
    this.say(`Running ${name} …`);
    const count = () => (byId('race_result').textContent = `Running ${name}: ${reply.tokens.length} tokens.`);
    return receive(reply, request, this.page.settings.key, this.running.signal, count);
  }

  show({ isRunning }) {
    byId('race_stop').hidden = !isRunning;
    byId('race_start').disabled = isRunning;
    byId('race_again').hidden = isRunning || !this.result;
    if (isRunning) byId('race_lanes').hidden = true;
  }

  say(text) {
    byId('race_result').textContent = text;
    announce(text);
  }

  replay() {
    cancelAnimationFrame(this.frame);
    const { plain, fast } = this.result;
    byId('race_lanes').hidden = false;
    byId('race_again').hidden = false;
    byId('race_result').textContent = 'Replaying, as fast as it was …';
    this.lanes[0].load(plain);
    this.lanes[1].load(fast);
    this.page.panel.show(fast, true);
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
    const { plain, fast, seed, what } = this.result;
    const [slow, quick] = [timeOf(plain), timeOf(fast)];
    const times = `${(slow / 1000).toFixed(2)} s plain, ${(quick / 1000).toFixed(2)} s speculative`;
    const ratio = quick > 0 ? `${(slow / quick).toFixed(2)} times as fast` : 'no token to time';
    byId('race_result').replaceChildren(el('strong', {}, verdict(plain, fast)), `; ${ratio} (${times}; seed ${seed}, ${what}; accepted drafts: ${countOrigins(fast).accepted}).`);
    announce(byId('race_result').textContent);
  }
}
