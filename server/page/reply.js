// One reply as data: its text, its tokens with where each is in the text, and the rounds that made them.

/** Where a token comes from. `label` is for a reader, `meaning` explains it. */
export const origins = {
  plain: { label: 'Plain', meaning: 'no draft was verified in this round' },
  accepted: { label: 'Accepted', meaning: 'drafted, and kept by the model' },
  recovered: { label: 'Recovered', meaning: 'the model’s own token, where it rejected the draft' },
  bonus: { label: 'Bonus', meaning: 'the model’s own token, after it kept the whole draft' },
};

/** How far the text of a token may be from where the last one ended, in characters, if tokens between have no text. */
const maxGap = 16;

/** How the server writes a token that is no whole characters. */
const bytesOnly = /^bytes:(?:\\x[0-9a-f]{2})+$/;

export class Reply {
  constructor() {
    this.text = ''; // thoughts and answer, in the order of arrival
    this.parts = []; // [{kind: 'thoughts' | 'answer', start, end}] of the text
    this.tokens = []; // [{id, text, round, place, start, end, at}]; `round` is an index, `at` when it came, in ms
    this.rounds = []; // as the server sends them
    this.usage = undefined;
    this.metrics = undefined;
    this.finish = undefined; // why it ended; 'stopped' by the reader, 'failed' with `failure`
    this.failure = undefined;
    this.numPlaced = 0; // tokens whose place in the text is known
    this.sought = []; // of the others: {text, since}, what each adds to the text, and where its chunk's text begins
    this.decoder = new TextDecoder('utf-8', { ignoreBOM: true }); // keeps a character that is not complete
    this.placedTo = 0;
    this.unplaced = ''; // the text from there on; `text` is long, and cutting it copies all that was added to it
  }

  /** The answer without thoughts. */
  get answer() {
    return this.parts.filter((part) => part.kind === 'answer').map((part) => this.text.slice(part.start, part.end)).join('');
  }

  get isDone() {
    return this.finish !== undefined;
  }

  /** Whether it ended by itself or at its limit: not stopped, cancelled or failed. */
  get isWhole() {
    return this.finish === 'stop' || this.finish === 'length';
  }

  /** Takes a chunk of the stream that came `at` milliseconds after the request was sent. */
  take(chunk, at) {
    const since = this.text.length;
    this.usage = chunk.usage ?? this.usage;
    this.metrics = chunk.metrics ?? this.metrics;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const text = choice.delta?.content ?? choice.text ?? '';
    const thoughts = choice.delta?.reasoning_content ?? '';
    this.append('thoughts', thoughts);
    this.append('answer', text);
    this.takeTokens(choice, thoughts + text, since, at);
    this.place();
    if (choice.finish_reason) this.end(choice.finish_reason);
  }

  append(kind, text) {
    if (!text) return;
    const start = this.text.length;
    this.text += text;
    this.unplaced += text;
    if (this.parts.at(-1)?.kind === kind) this.parts.at(-1).end = this.text.length;
    else this.parts.push({ kind, start, end: this.text.length });
  }

  /** The tokens of a chunk; `text` is what came with them, and begins at `since`. */
  takeTokens(choice, text, since, at) {
    const ids = choice.token_ids ?? [];
    let next = 0;
    for (const round of choice.paceline?.rounds ?? []) {
      const index = this.rounds.push(round) - 1;
      const count = round.tokens?.length ?? Math.min(ids.length - next, round.num_accepted + 1);
      const texts = round.token_texts ?? spelledByDraft(round, count, text);
      for (let place = 0; place < count; ++place) {
        const id = round.tokens?.[place] ?? ids[next];
        this.tokens.push({ id, text: texts[place], round: index, place, at, start: 0, end: 0 });
        this.sought.push({ text: this.added(texts[place]), since });
        ++next;
      }
    }
  }

  /** What a token adds to the text. The token with a character's last byte adds the character. */
  added(text) {
    if (!bytesOnly.test(text)) return this.decoder.decode() + text; // U+FFFD for a character that is not completed
    const bytes = text.split('\\x').slice(1).map((digits) => parseInt(digits, 16));
    return this.decoder.decode(Uint8Array.from(bytes), { stream: true });
  }

  /** Finds the tokens in the text. Some have none there, such as special ones; some are spelled differently there. */
  place() {
    for (; this.numPlaced < this.tokens.length; ++this.numPlaced) {
      const { text, since } = this.sought[0];
      if (since > this.placedTo) this.skip(since - this.placedTo); // what arrived before the token is not its text
      const left = this.unplaced;
      if (left.length < text.length && text.startsWith(left)) return; // its text is held back
      this.sought.shift();
      const token = this.tokens[this.numPlaced];
      const before = this.tokens[this.numPlaced - 1];
      const hasText = before && before.start !== before.end;
      const gap = left.slice(0, maxGap + text.length).indexOf(text);
      token.start = token.end = this.placedTo;
      if (gap < 0 || text === '') continue;
      if (gap > 0 && hasText) continue; // the text between belongs to nobody: not this token's
      token.start += gap;
      token.end = token.start + text.length;
      if (before && !hasText && token.start - before.start <= maxGap) before.end = token.start;
      this.skip(gap + text.length);
    }
  }

  skip(count) {
    this.placedTo += count;
    this.unplaced = this.unplaced.slice(count);
  }

  end(reason, failure) {
    if (this.isDone) return;
    this.finish = reason;
    this.failure = failure;
    for (const token of this.tokens.slice(this.numPlaced)) token.start = token.end = this.text.length;
    this.numPlaced = this.tokens.length;
    this.sought = [];
  }

  /** Plain data, to keep. */
  toData() {
    const { text, parts, tokens, rounds, usage, metrics, finish, failure } = this;
    return { text, parts, tokens, rounds, usage, metrics, finish, failure };
  }

  /** A complete reply of which nothing but the text is known. */
  static fromText(text) {
    const reply = new Reply();
    reply.append('answer', text);
    reply.finish = 'stop';
    return reply;
  }

  /** Nothing if another version of the page has kept it in another form. */
  static fromData(data) {
    if (!isReply(data)) return undefined;
    const reply = Object.assign(new Reply(), Reply.prototype.toData.call(data)); // nothing else that it may have
    reply.numPlaced = reply.tokens.length;
    return reply;
  }
}

function isReply({ text, parts, tokens, rounds }) {
  const isRound = (round) => [round?.draft_tokens, round?.parents, round?.accepted].every(Array.isArray);
  return typeof text === 'string' && [parts, tokens, rounds].every(Array.isArray) && rounds.every(isRound) &&
    tokens.every((token) => typeof token?.text === 'string' && token.round in rounds);
}

/** Texts of a round's tokens from those of its draft, for a server that does not tell them. */
function spelledByDraft(round, count, text) {
  const texts = Array.from({ length: count }, (_, place) => round.draft_texts?.[round.accepted[place]] ?? '');
  if (count > 0) texts[count - 1] = text.slice(texts.slice(0, -1).join('').length);
  return texts;
}

/** Key of `origins`: where the token at `place` of a round's tokens comes from. */
export function originOf(round, place) {
  if (place < round.num_accepted) return 'accepted';
  if (round.draft_tokens.length === 0) return 'plain';
  return round.bonus ? 'bonus' : 'recovered';
}

/** Draft nodes that were rejected where the token at `place` stands, the most likely first. */
export function rejectedAt(round, place) {
  const parent = place === 0 ? -1 : round.accepted[place - 1];
  const kept = round.accepted[place];
  return round.draft_tokens.map((_, node) => node).filter((node) => round.parents[node] === parent && node !== kept);
}

/** Text of a draft node, or its id where the server does not tell texts. */
export function draftText(round, node) {
  return round.draft_texts?.[node] ?? `#${round.draft_tokens[node]}`;
}

/** Number of tokens by origin. */
export function countOrigins(reply) {
  const counts = Object.fromEntries(Object.keys(origins).map((name) => [name, 0]));
  for (const token of reply.tokens) ++counts[originOf(reply.rounds[token.round], token.place)];
  return counts;
}
